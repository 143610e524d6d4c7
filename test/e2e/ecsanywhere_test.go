//go:build e2e

//e2e:bed systemd

package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/aws/instance/wire"
	"github.com/podtask/podtask/internal/testing/ecsplane"
)

// ecsInstance is a box that is an instance of a cluster.
type ecsInstance struct {
	*box
	plane   *ecsplane.Plane
	program *process // podtask-ecs
	runner  *process // the agent
}

// newECSInstance starts a control plane, an agent, and podtask-ecs, and waits for both links.
func newECSInstance(t *testing.T, prepare ...func(*box)) *ecsInstance {
	t.Helper()
	server := httptest.NewServer(nil)
	t.Cleanup(server.Close)
	plane := ecsplane.New(server.URL)
	server.Config.Handler = plane
	return newECSInstanceOf(t, plane, prepare...)
}

// newECSInstanceOf starts an agent and podtask-ecs for a control plane that is there.
func newECSInstanceOf(t *testing.T, plane *ecsplane.Plane, prepare ...func(*box)) *ecsInstance {
	t.Helper()
	i := &ecsInstance{box: newBox(t), plane: plane}
	for _, f := range prepare {
		f(i.box)
	}
	i.env = append(i.env, "PODTASK_LIMITS=best-effort", "AWS_ACCESS_KEY_ID="+ecsplane.KeyID, "AWS_SECRET_ACCESS_KEY="+ecsplane.Secret, "AWS_REGION="+ecsplane.Region, "AWS_ENDPOINT_URL="+plane.Address)
	i.runner = i.agent()
	i.join()
	t.Cleanup(func() { // before the box looks what is left
		_ = i.program.cmd.Process.Kill()
		<-i.program.ended
		i.plane.End("acs", 0)
		i.plane.End("tcs", 0)
		i.want(0, "rm", "--force", "--all")
		for _, p := range i.plane.Problems() {
			t.Error(p)
		}
	})
	return i
}

// taskARN returns the ARN of the n-th task of the test. The agent derives the ID of a task from its ARN, and the instances of all tests share
// one Podman.
func (i *ecsInstance) taskARN(n int) string {
	sum := sha256.Sum256([]byte(i.family))
	return ecsplane.TaskARN(int(binary.BigEndian.Uint32(sum[:]))<<8 + n)
}

func (i *ecsInstance) join() {
	i.t.Helper()
	acs, tcs := len(i.plane.Of("acs", "open")), len(i.plane.Of("tcs", "open"))
	i.program = i.startWith(podtaskECS, "join", "--cluster", "lab", "--debug")
	i.await("acs", "open", acs+1)
	i.await("tcs", "open", tcs+1)
}

func (i *ecsInstance) await(on, op string, n int) {
	i.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := i.plane.WaitFor(ctx, on, op, n); err != nil {
		i.t.Fatalf("%s on %s: %v\n%s", op, on, err, lastLines(i.program.err.String(), 40))
	}
}

// state waits for a change of a task, and returns it.
func (i *ecsInstance) state(task int, status string) (found wire.StateChange) {
	i.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := i.plane.Wait(ctx, func([]ecsplane.Event) bool {
		for _, c := range i.changes(task) {
			if c.Status == status {
				found = c
				return true
			}
		}
		return false
	})
	if err != nil {
		i.t.Fatalf("task %d is never %s: %+v\n%s", task, status, i.changes(task), lastLines(i.program.err.String(), 40))
	}
	return found
}

func (i *ecsInstance) changes(task int) (out []wire.StateChange) {
	for _, body := range i.plane.Of("http", "SubmitTaskStateChange") {
		var c wire.StateChange
		if err := json.Unmarshal(body, &c); err != nil {
			i.t.Fatal(err)
		}
		if c.Task == i.taskARN(task) {
			out = append(out, c)
		}
	}
	return out
}

// payload has ECS run tasks of the box's family, with a container that runs testbox.
func (i *ecsInstance) payload(id string, seq int, tasks ...obj) {
	i.t.Helper()
	var list []any
	for _, t := range tasks {
		t["family"], t["version"], t["networkMode"], t["launchType"] = i.family, "1", "bridge", "EXTERNAL"
		list = append(list, t)
	}
	acks := len(i.plane.Of("acs", "AckRequest"))
	if err := i.plane.Payload(id, seq, list...); err != nil {
		i.t.Fatal(err)
	}
	i.await("acs", "AckRequest", acks+1)
}

func ecsContainer(name, image string, command []string, more obj) obj {
	c := obj{"name": name, "image": image, "command": command, "cpu": 10, "memory": 64, "essential": true, "overrides": "{}",
		"dockerConfig": obj{"config": "{}", "hostConfig": `{"NetworkMode":"bridge","CapAdd":[],"CapDrop":[]}`, "version": "1.18"}}
	for k, v := range more {
		c[k] = v
	}
	return c
}

// ECS places a task, podtask-ecs is killed at several points, and ECS learns how the task ended.
func TestAnInstanceOfECS(t *testing.T) {
	t.Parallel()
	i := newECSInstance(t)
	image := i.testbox()
	role := obj{"credentialsId": "app", "roleArn": "arn:aws:iam::111122223333:role/app", "accessKeyId": "ASIAEXAMPLE", "secretAccessKey": "role-secret", "sessionToken": "T", "expiration": "2100-01-01T00:00:00Z"}
	execution := obj{"credentialsId": "exec", "roleArn": "arn:aws:iam::111122223333:role/exec", "accessKeyId": ecsplane.RoleKeyID, "secretAccessKey": ecsplane.RoleSecret, "expiration": "2100-01-01T00:00:00Z"}
	i.plane.SetValue("/shop/token", "hush-from-ssm")
	main := ecsContainer("main", image, words("env TOKEN -- await http://169.254.170.2${AWS_CONTAINER_CREDENTIALS_RELATIVE_URI} -- get ${ECS_CONTAINER_METADATA_URI_V4}/task -- print ready -- wait /go -- exit 7"), obj{
		"environment":  obj{"A": "b"},
		"secrets":      []obj{{"name": "TOKEN", "valueFrom": "/shop/token", "provider": "ssm", "region": ecsplane.Region, "type": "ENVIRONMENT_VARIABLE", "target": "CONTAINER"}},
		"portMappings": []obj{{"containerPort": 8080, "hostPort": 0, "protocol": "tcp"}},
	})
	i.payload("payload-1", 1, obj{"arn": i.taskARN(1), "desiredStatus": "RUNNING", "roleCredentials": role, "executionRoleCredentials": execution, "containers": []obj{main}})

	if c := i.state(1, "PENDING").Containers; len(c) != 1 || !strings.HasPrefix(c[0].ImageDigest, "sha256:") {
		t.Errorf("PENDING: %+v", c)
	}
	running := i.state(1, "RUNNING")
	name := "ecs-" + filepath.Base(i.taskARN(1))
	task := i.inspect(name)
	if c := running.Containers; len(c) != 1 || c[0].RuntimeID != task.Containers[0].RuntimeID || len(c[0].NetworkBindings) != 1 || c[0].NetworkBindings[0].HostPort == 0 {
		t.Errorf("RUNNING: %+v", c)
	}
	if env := i.podman("inspect", "--format", "{{.Config.Env}}", running.Containers[0].RuntimeID); !strings.Contains(env, "A=b") || strings.Contains(env, "role-secret") {
		t.Errorf("the environment is %s", env)
	}

	eventually(t, "the secret and the role in the container", func() bool {
		lines := i.lines(name, "main")
		return strings.Contains(lines, "hush-from-ssm") && strings.Contains(lines, "role-secret") && strings.Contains(lines, `"TaskARN":"`+i.taskARN(1)) && strings.Contains(lines, `"Cluster":"lab"`) && strings.Contains(lines, "ready")
	})

	// The task ends while nobody is there to see it.
	i.program.kill()
	i.tell(name, "main", "/go")
	i.want(0, "wait", name)
	i.join()
	stopped := i.state(1, "STOPPED")
	if c := stopped.Containers; len(c) != 1 || c[0].ExitCode == nil || *c[0].ExitCode != 7 || stopped.ExecutionStoppedAt == nil {
		t.Errorf("STOPPED: %+v", stopped)
	}
	var statuses []string
	for _, c := range i.changes(1) {
		statuses = append(statuses, c.Status)
	}
	if got := strings.Join(statuses, " "); got != "PENDING RUNNING STOPPED" {
		t.Errorf("ECS was told %s", got)
	}
	if n := len(i.plane.Of("http", "RegisterContainerInstance")); n != 2 {
		t.Errorf("%d registrations", n)
	}

	// A payload that was acknowledged is not lost by a kill, and ECS stops the task.
	i.payload("payload-2", 2, obj{"arn": i.taskARN(2), "desiredStatus": "RUNNING", "containers": []obj{ecsContainer("main", image, words("wait /never"), obj{"stopTimeout": 2})}})
	i.program.kill()
	i.join()
	i.state(2, "RUNNING")
	i.payload("payload-3", 3, obj{"arn": i.taskARN(2), "desiredStatus": "STOPPED", "containers": []obj{}})
	if c := i.state(2, "STOPPED").Containers; len(c) != 1 || c[0].ExitCode == nil {
		t.Errorf("STOPPED: %+v", c)
	}
	status := i.startWith(podtaskECS, "status").want(0)
	if !strings.Contains(status.out, ecsplane.InstanceARN(1)) || !strings.Contains(status.out, "STOPPED") {
		t.Errorf("the status is\n%s", status.out)
	}
}

// podtask-ecs is ended some milliseconds behind a payload that it has acknowledged, again and again: each task runs, and none runs
// twice. Each run of a task leaves a file on the host.
func TestShortTasksOfECSRunOnce(t *testing.T) {
	t.Parallel()
	i := newECSInstance(t)
	kills := 24
	if text := os.Getenv("ECS_KILLS"); text != "" {
		var err error
		if kills, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	out := t.TempDir()
	image := i.testbox()
	for n := 1; n <= kills; n++ {
		main := ecsContainer("main", image, words(fmt.Sprintf("write /out/%d.$HOSTNAME ran -- exit 3", n)), obj{
			"mountPoints": []obj{{"sourceVolume": "out", "containerPath": "/out"}},
		})
		i.payload(fmt.Sprintf("payload-%d", n), n, obj{"arn": i.taskARN(n), "desiredStatus": "RUNNING", "containers": []obj{main},
			"volumes": []obj{{"name": "out", "type": "host", "host": obj{"sourcePath": out}}}})
		<-time.After(time.Duration(1+n%8) * time.Millisecond)
		if n%4 == 0 {
			i.program.kill()
		} else {
			_ = i.program.cmd.Process.Signal(syscall.SIGTERM)
			<-i.program.ended
		}
		i.join()
	}
	for n := 1; n <= kills; n++ {
		if c := i.state(n, "STOPPED").Containers; len(c) != 1 || c[0].ExitCode == nil || *c[0].ExitCode != 3 {
			t.Errorf("task %d: %+v", n, c)
		}
	}
	runs := make(map[string]int)
	entries, err := os.ReadDir(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		task, _, _ := strings.Cut(e.Name(), ".")
		runs[task]++
	}
	for n := 1; n <= kills; n++ {
		if got := runs[strconv.Itoa(n)]; got != 1 {
			t.Errorf("task %d ran %d times", n, got)
		}
	}
	t.Logf("%d kills, %d tasks ran, %d runs", kills, len(runs), len(entries))
}

// podtaskECS makes a command one of podtask-ecs.
func podtaskECS(cmd *exec.Cmd) {
	cmd.Path = os.Getenv("PODTASK_ECS")
	cmd.Args[0] = cmd.Path
}

// ECS learns the health of containers and what they use; a service with a health check depends on it.
func TestTelemetryOfAnInstanceOfECS(t *testing.T) {
	t.Parallel()
	i := newECSInstance(t)
	main := ecsContainer("main", i.testbox(), words("wait /never"), obj{"healthCheckType": "docker", "dockerConfig": obj{
		"config":     `{"HealthCheck":{"Test":["CMD","/testbox","exists","/well"],"Interval":5000000000,"Timeout":5000000000,"Retries":1,"StartPeriod":0}}`,
		"hostConfig": `{"NetworkMode":"bridge"}`,
	}})
	i.payload("payload-1", 1, obj{"arn": i.taskARN(3), "desiredStatus": "RUNNING", "containers": []obj{main}})
	i.state(3, "RUNNING")
	i.health(3, "UNHEALTHY")
	i.tell("ecs-"+filepath.Base(i.taskARN(3)), "main", "/well")
	i.health(3, "HEALTHY")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := i.plane.Wait(ctx, func([]ecsplane.Event) bool {
		for _, body := range i.plane.Of("tcs", wire.TypeMetrics) {
			var m wire.Metrics
			if err := json.Unmarshal(body, &m); err == nil && len(m.Tasks) == 1 && m.Tasks[0].ARN == i.taskARN(3) && m.Tasks[0].Containers[0].CPU != nil {
				return true
			}
		}
		return false
	})
	if err != nil {
		t.Errorf("no metrics of the task in %s", i.plane.Of("tcs", wire.TypeMetrics))
	}
}

// health waits until ECS was told of a status of the container of a task.
func (i *ecsInstance) health(task int, status string) {
	i.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := i.plane.Wait(ctx, func([]ecsplane.Event) bool {
		if slices.ContainsFunc(i.changes(task), func(c wire.StateChange) bool { return c.Status == wire.StatusStopped }) {
			cancel() // it has no health any more
		}
		for _, body := range i.plane.Of("tcs", wire.TypeHealth) {
			var h wire.Health
			if err := json.Unmarshal(body, &h); err == nil && len(h.Tasks) == 1 && h.Tasks[0].ARN == i.taskARN(task) && h.Tasks[0].Containers[0].Status == status {
				return true
			}
		}
		return false
	})
	if err != nil {
		i.t.Fatalf("task %d is never %s: %s; ECS was told %+v", task, status, i.plane.Of("tcs", wire.TypeHealth), i.changes(task))
	}
}

// A file with variables comes from S3, also from another region, and an image from a registry of ECR, both with the
// execution role of the task. What AWS refuses stops the task with a reason.
func TestAnInstanceOfECSReadsS3AndECR(t *testing.T) {
	t.Parallel()
	i := newECSInstance(t, (*box).anonymous)
	ref, _ := i.push("app:1", i.freshImage("ecr"))
	i.plane.SetObject("settings/near.env", "NEAR=from-this-region\n# a comment\n", ecsplane.Region)
	i.plane.SetObject("settings/far.env", "FAR=from-another-region\n", "eu-central-1")
	i.plane.SetLogin(ecsplane.RoleKeyID, "tester:"+password)
	execution := func() obj {
		return obj{"credentialsId": "exec", "roleArn": "arn:aws:iam::111122223333:role/exec", "accessKeyId": ecsplane.RoleKeyID, "secretAccessKey": ecsplane.RoleSecret, "expiration": "2100-01-01T00:00:00Z"}
	}
	app := func(useRole bool, files ...string) obj {
		var list []obj
		for _, f := range files {
			list = append(list, obj{"type": "s3", "value": "arn:aws:s3:::settings/" + f})
		}
		return ecsContainer("app", ref, words("env NEAR -- env FAR -- print ready -- wait /never"), obj{
			"stopTimeout": 2, "environmentFiles": list,
			"registryAuthentication": obj{"type": "ecr", "ecrAuthData": obj{"registryId": ecsplane.Account, "region": ecsplane.Region, "useExecutionRole": useRole}},
		})
	}
	i.payload("payload-1", 1, obj{"arn": i.taskARN(4), "desiredStatus": "RUNNING", "executionRoleCredentials": execution(), "containers": []obj{app(true, "near.env", "far.env")}})
	i.state(4, "RUNNING")
	name := "ecs-" + filepath.Base(i.taskARN(4))
	eventually(t, "the variables", func() bool {
		lines := i.lines(name, "app")
		return strings.Contains(lines, "from-this-region") && strings.Contains(lines, "from-another-region") && strings.Contains(lines, "ready")
	})
	for _, e := range i.plane.Events() {
		if (e.Op == "GetObject" || e.Op == "GetAuthorizationToken") && e.Key != ecsplane.RoleKeyID {
			t.Errorf("%s was signed by %s, not by the execution role", e.Op, e.Key)
		}
	}

	// No such object; a login that the registry does not take.
	i.payload("payload-2", 2, obj{"arn": i.taskARN(5), "desiredStatus": "RUNNING", "executionRoleCredentials": execution(), "containers": []obj{app(true, "none.env")}})
	if got := i.state(5, "STOPPED").Reason; !strings.Contains(got, "ResourceInitializationError: unable to download env file arn:aws:s3:::settings/none.env: GetObject: NoSuchKey") {
		t.Errorf("the reason is %q", got)
	}
	i.plane.SetLogin(ecsplane.RoleKeyID, "AWS:wrong-horse")
	other, _ := i.push("other:1", i.freshImage("other"))
	task := app(true)
	task["image"] = other
	i.payload("payload-3", 3, obj{"arn": i.taskARN(6), "desiredStatus": "RUNNING", "executionRoleCredentials": execution(), "containers": []obj{task}})
	text, _ := json.Marshal(i.state(6, "STOPPED"))
	if !strings.Contains(string(text), "CannotPull") || strings.Contains(string(text), "wrong-horse") {
		t.Errorf("ECS was told %s", text)
	}
	if said := i.program.err.String() + i.runner.err.String(); strings.Contains(said, password) || strings.Contains(said, "wrong-horse") || strings.Contains(said, "from-this-region") {
		t.Error("a log has a secret")
	}
	i.payload("payload-4", 4, obj{"arn": i.taskARN(4), "desiredStatus": "STOPPED", "containers": []obj{}})
	i.state(4, "STOPPED")
}

// What a task of ECS waits for, the status, why and the metrics of the agent say. It runs alone: tests share the
// runtime directory, in which the status of one instance is.
func TestWaitsOfAnInstanceOfECS(t *testing.T) {
	i := newECSInstance(t)
	main := ecsContainer("main", i.testbox(), words("wait /never"), obj{
		"stopTimeout": 2,
		"secrets":     []obj{{"name": "TOKEN", "valueFrom": "/shop/token", "provider": "ssm", "region": ecsplane.Region, "type": "ENVIRONMENT_VARIABLE", "target": "CONTAINER"}},
	})
	i.payload("payload-1", 1, obj{"arn": i.taskARN(7), "desiredStatus": "RUNNING", "containers": []obj{main},
		"executionRoleCredentials": obj{"credentialsId": "exec", "roleArn": "arn:aws:iam::111122223333:role/exec"}})
	id := filepath.Base(i.taskARN(7))
	eventually(t, "the wait in the metrics", func() bool {
		got := i.scrape()
		return strings.Contains(got, `podtask_ecs_waits{kind="credentials"} 1`) && strings.Contains(got, "podtask_ecs_up 1") && strings.Contains(got, `podtask_ecs_link_connected{link="acs"} 1`)
	})
	if out := i.want(0, "why", id).out; !strings.Contains(out, "ecs-"+id+" is not created yet: podtask-ecs waits for the credentials of its execution role") {
		t.Errorf("why says %s", out)
	}
	if out := i.startWith(podtaskECS, "status").want(0).out; !strings.Contains(out, "Task "+id+" waits for the credentials of its execution role") || strings.Count(out, "connected for") != 2 {
		t.Errorf("the status is\n%s", out)
	}
	i.plane.SetValue("/shop/token", "hush")
	if err := i.plane.Say("acs", wire.TypeCredentials, obj{"messageId": "cred", "roleType": wire.RoleExecution, "taskArn": i.taskARN(7),
		"roleCredentials": obj{"credentialsId": "exec", "accessKeyId": ecsplane.RoleKeyID, "secretAccessKey": ecsplane.RoleSecret}}); err != nil {
		t.Fatal(err)
	}
	i.state(7, "RUNNING")
	if got := i.scrape(); !strings.Contains(got, `podtask_ecs_waits{kind="credentials"} 0`) {
		t.Error("the wait does not end in the metrics")
	}
	i.program.kill()
	eventually(t, "the end of the program in the metrics", func() bool {
		got := i.scrape()
		return strings.Contains(got, "podtask_ecs_up 0") && !strings.Contains(got, "podtask_ecs_waits{")
	})
	i.join()
}

// scrape returns the metrics of the box's agent.
func (b *box) scrape() string {
	b.t.Helper()
	unix := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", b.agentSocket())
	}, DisableKeepAlives: true}}
	resp, err := unix.Get("http://podtask/metrics")
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return string(text)
}
