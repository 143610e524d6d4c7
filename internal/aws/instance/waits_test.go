package instance

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/ecsstatus"
	"github.com/podtask/podtask/internal/testing/ecsplane"
	"github.com/podtask/podtask/pkg/api"
)

// waits returns the waits of one task in the status file, as "KIND TEXT".
func (l *lab) waits(task string) (out []string) {
	l.t.Helper()
	l.pass(statusPause)
	s, err := ecsstatus.Read(ecsstatus.Path(l.config.Runtime))
	if err != nil || s == nil {
		l.t.Fatal(s, err)
	}
	for _, w := range s.Of(task) {
		out = append(out, string(w.Kind)+" "+w.Text)
	}
	return out
}

func (l *lab) waitsFor(task string, want ...string) {
	l.t.Helper()
	got := l.waits(task)
	if !slices.EqualFunc(got, want, strings.HasPrefix) {
		l.t.Errorf("it waits for %q, want %q", got, want)
	}
}

func TestEachWaitIsShown(t *testing.T) {
	withLab(t, func(l *lab) {
		task := ecsplane.TaskARN(1)
		l.agent.setAway(true)
		l.plane.Plan("RegisterContainerInstance", slices.Repeat([]ecsplane.Answer{{Status: 400, Type: "ThrottlingException", Message: "x"}}, 5)...)
		l.start()
		l.pass(time.Second)
		l.waitsFor("", "agent the podtask agent, which does not answer: no process")
		l.agent.setAway(false)
		l.wait("http", "RegisterContainerInstance", 2)
		l.waitsFor("", "registration ECS to register the host: ")
		l.wait("acs", "open", 1)
		l.waitsFor("")

		// The task waits for credentials, for a value, for the agent, and at last for ECS.
		l.plane.Plan("GetParameters", ecsplane.Answer{Status: 503}, ecsplane.Answer{Status: 503}, ecsplane.Answer{Status: 503})
		l.plane.SetValue("/p", "hush")
		l.payload("payload-1", 1, simple(1, func(t map[string]any) {
			t["executionRoleCredentials"] = map[string]string{"credentialsId": "exec", "roleArn": "arn:aws:iam::111122223333:role/exec"}
			t["containers"].([]any)[0].(map[string]any)["secrets"] = []any{map[string]string{"name": "X", "valueFrom": "/p", "provider": "ssm"}}
		}))
		l.waitsFor(task, "credentials the credentials of its execution role")
		l.agent.setAway(true)
		if err := l.plane.Say("acs", "IAMRoleCredentialsMessage", map[string]any{"messageId": "c", "roleType": "TaskExecution", "taskArn": task,
			"roleCredentials": map[string]string{"credentialsId": "exec", "accessKeyId": ecsplane.RoleKeyID, "secretAccessKey": ecsplane.RoleSecret}}); err != nil {
			t.Fatal(err)
		}
		l.wait("http", "GetParameters", 1)
		l.waitsFor(task, "value a value of AWS: ResourceInitializationError: unable to retrieve secret from ssm")
		l.wait("http", "GetParameters", 4)
		l.waitsFor(task, "agent the agent to make it: no process")
		l.agent.setAway(false)
		l.pass(time.Minute)
		l.waitsFor(task)

		l.plane.PlanFor(task, slices.Repeat([]ecsplane.Answer{{Status: 400, Type: "AccessDeniedException", Message: "not authorized"}}, 3)...)
		l.agent.resolve(name(1))
		l.pass(time.Second)
		l.waitsFor(task, "state ECS to take the state PENDING: ")
		l.pass(time.Minute)
		l.waitsFor(task)

		l.agent.setAway(true)
		l.pass(time.Second)
		l.waitsFor(task, "agent the agent to tell of it: ")
		l.agent.setAway(false)
		l.pass(time.Minute)
		l.waitsFor(task)

		// What keeps it from starting, as the agent says.
		for text, why := range map[string]api.Reason{
			"image an image: pulling localhost/bb:1 failed once": {Code: "retry", Container: "main", Text: "pulling localhost/bb:1 failed once"},
			"port port 8080/tcp, which web has":                  {Code: "queued", Text: "it waits for port 8080/tcp, which web has"},
			"room 512 MiB of memory, of which 100 MiB are free":  {Code: "queued", Text: "it waits for 512 MiB of memory, of which 100 MiB are free"},
		} {
			l.agent.step(name(1), func(t *api.Task) {
				t.Why = []api.Reason{why}
				enter(t, "", t.Status)
			})
			l.pass(time.Second)
			l.waitsFor(task, text)
		}

		l.disk.setFull(true)
		l.agent.step(name(1), func(t *api.Task) { t.Why = nil })
		l.agent.runs(name(1))
		l.pass(time.Second)
		l.waitsFor(task, "disk a record that can be written: ")
		l.disk.setFull(false)
		l.pass(time.Minute)
		l.waitsFor(task)
		l.agent.end(name(1), 0)
		l.expect(1, "PENDING", "PENDING", "PENDING", "PENDING", "RUNNING", "STOPPED")
	})
}

// A payload that cannot be recorded, and a thousand tasks that wait at once, write the status seldom.
func TestAThousandWaitsAreOneWrite(t *testing.T) {
	withLab(t, func(l *lab) {
		l.join()
		f := &statusFile{path: ecsstatus.Path(t.TempDir())}
		begun := time.Now()
		for n := range 1000 {
			f.wait(ecsstatus.WaitState, ecsplane.TaskARN(n), "x")
		}
		first, err := ecsstatus.Read(f.path)
		if err != nil || len(first.Waits) != 1 || time.Since(begun) != 0 {
			t.Errorf("%d waits at once, %v", len(first.Waits), err)
		}
		l.pass(statusPause)
		if s, err := ecsstatus.Read(f.path); err != nil || len(s.Waits) != 1000 {
			t.Errorf("%d waits, %v", len(s.Waits), err)
		}
	})
}
