//go:build e2e && bed_vm

package vm

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/podtask/podtask/internal/aws/instance/wire"
	"github.com/podtask/podtask/internal/testing/ecsplane"
)

// A container of a task that ECS placed takes more memory than it may: ECS learns its code and the reason, and of the next task too.
func TestOutOfMemoryOnAnInstanceOfECS(t *testing.T) {
	server := httptest.NewServer(nil)
	defer server.Close()
	plane := ecsplane.New(server.URL)
	server.Config.Handler = plane
	startAgent(t, "podtask-agent-ecs")
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
		podtask(t, "rm", "--force", "--all")
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
		t.Fatal(err)
	}
	for n, command := range [][]string{{"alloc", "64"}, {"exit", "5"}} {
		arn := ecsplane.TaskARN(n + 1)
		task := map[string]any{"arn": arn, "desiredStatus": "RUNNING", "family": "oom", "version": "1", "networkMode": "bridge", "launchType": "EXTERNAL", "containers": []any{map[string]any{
			"name": "app", "image": image, "command": command, "cpu": 10, "memory": 32, "essential": true, "overrides": "{}",
			"dockerConfig": map[string]any{"config": "{}", "hostConfig": `{"NetworkMode":"bridge"}`, "version": "1.18"},
		}}}
		if err := plane.Payload("payload-"+arn, n+1, task); err != nil {
			t.Fatal(err)
		}
		stopped := stoppedTask(ctx, t, plane, arn)
		if len(stopped.Containers) != 1 || stopped.Containers[0].ExitCode == nil {
			t.Fatalf("ECS was told %+v", stopped)
		}
		code, reason := *stopped.Containers[0].ExitCode, stopped.Containers[0].Reason
		if n == 0 && (code != 137 || !strings.HasPrefix(reason, "OutOfMemoryError: ")) || n == 1 && (code != 5 || reason != "") {
			t.Errorf("of %q ECS was told code %d, %q", command, code, reason)
		}
	}
}

// stoppedTask waits until a task has ended for ECS.
func stoppedTask(ctx context.Context, t *testing.T, plane *ecsplane.Plane, arn string) (found wire.StateChange) {
	t.Helper()
	err := plane.Wait(ctx, func([]ecsplane.Event) bool {
		for _, body := range plane.Of("http", "SubmitTaskStateChange") {
			var c wire.StateChange
			if json.Unmarshal(body, &c) == nil && c.Task == arn && c.Status == "STOPPED" {
				found = c
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
