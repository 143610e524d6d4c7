//go:build e2e && bed_vm

package vm

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/podtask/podtask/internal/aws/instance/wire"
	"github.com/podtask/podtask/internal/testing/ecsplane"
)

// planeAddress is the address of the control plane, before a boot and after it.
const planeAddress = "127.0.0.1:5010"

// joinECS starts a control plane and podtask-ecs, which end with the test.
func joinECS(t *testing.T) *ecsplane.Plane {
	t.Helper()
	listener, err := net.Listen("tcp", planeAddress)
	if err != nil {
		t.Fatal(err)
	}
	plane := ecsplane.New("http://" + planeAddress)
	server := &http.Server{Handler: plane}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	join := exec.Command(os.Getenv("PODTASK_ECS"), "join", "--cluster", "lab")
	var log strings.Builder
	join.Stderr = &log
	join.Env = append(os.Environ(), "AWS_ACCESS_KEY_ID="+ecsplane.KeyID, "AWS_SECRET_ACCESS_KEY="+ecsplane.Secret, "AWS_REGION="+ecsplane.Region, "AWS_ENDPOINT_URL="+plane.Address)
	if err := join.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = join.Process.Signal(syscall.SIGKILL)
		_ = join.Wait()
		plane.End("acs", 0)
		plane.End("tcs", 0)
		for _, p := range plane.Problems() {
			t.Error(p)
		}
		if t.Failed() {
			t.Log(log.String())
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := plane.WaitFor(ctx, "acs", "open", 1); err != nil {
		t.Fatalf("%v: %s", err, log.String())
	}
	return plane
}

// placeTask has ECS run a task of one container with a limit of 32 MiB.
func placeTask(t *testing.T, plane *ecsplane.Plane, n int, command ...string) (arn string) {
	t.Helper()
	arn = ecsplane.TaskARN(n)
	task := map[string]any{"arn": arn, "desiredStatus": "RUNNING", "family": "vm", "version": "1", "networkMode": "bridge", "launchType": "EXTERNAL", "containers": []any{map[string]any{
		"name": "app", "image": image, "command": command, "cpu": 10, "memory": 32, "essential": true, "overrides": "{}",
		"dockerConfig": map[string]any{"config": "{}", "hostConfig": `{"NetworkMode":"bridge"}`, "version": "1.18"},
	}}}
	if err := plane.Payload("payload-"+arn, n, task); err != nil {
		t.Fatal(err)
	}
	return arn
}

// A container of a task that ECS placed takes more memory than it may: ECS learns its code and the reason. The next task has none.
func TestOutOfMemoryOnAnInstanceOfECS(t *testing.T) {
	startAgent(t, "podtask-agent-ecs")
	t.Cleanup(func() { podtask(t, "rm", "--force", "--all") })
	plane := joinECS(t)
	for n, command := range [][]string{{"alloc", "64"}, {"exit", "5"}} {
		c := told(t, plane, placeTask(t, plane, n+1, command...), "STOPPED")
		if c.ExitCode == nil || n == 0 && (*c.ExitCode != 137 || !strings.HasPrefix(c.Reason, "OutOfMemoryError: ")) || n == 1 && (*c.ExitCode != 5 || c.Reason != "") {
			t.Errorf("of %q ECS was told %+v", command, c)
		}
	}
}

// lastTask is the number of the task that runs when the machine ends.
const lastTask = 7

// runOfECS leaves a task of ECS behind that runs.
func runOfECS(t *testing.T) {
	agentState(t)
	plane := joinECS(t)
	told(t, plane, placeTask(t, plane, lastTask, "sleep", "forever"), "RUNNING")
}

// checkOfECS checks that ECS learns after a boot that the task has ended.
func checkOfECS(t *testing.T) {
	agentState(t)
	c := told(t, joinECS(t), ecsplane.TaskARN(lastTask), "STOPPED")
	if c.ExitCode != nil && *c.ExitCode == 0 {
		t.Errorf("ECS was told %+v", c)
	}
	podtask(t, "rm", "ecs-"+filepath.Base(ecsplane.TaskARN(lastTask)))
}

// told waits until ECS was told of a state of a task, and returns that of its container.
func told(t *testing.T, plane *ecsplane.Plane, arn, status string) (found wire.ContainerState) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := plane.Wait(ctx, func([]ecsplane.Event) bool {
		for _, body := range plane.Of("http", "SubmitTaskStateChange") {
			var c wire.StateChange
			if json.Unmarshal(body, &c) == nil && c.Task == arn && c.Status == status && len(c.Containers) == 1 {
				found = c.Containers[0]
				return true
			}
		}
		return false
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
