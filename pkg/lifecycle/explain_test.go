package lifecycle

import (
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/pkg/taskdef"
)

func hungry(c *taskdef.Container) { c.CPU = 1024 }

func slow(c *taskdef.Container) { c.StartTimeout = time.Minute }

func secretive(c *taskdef.Container) {
	c.RepositoryCredentials = &taskdef.SecretValue{ValueFrom: "file:/login", Source: "file:/login"}
}

// TestExplainNamesEveryWaitAndEnd brings a task to each place where it can stand
// still and reads why it does.
func TestExplainNamesEveryWaitAndEnd(t *testing.T) {
	t.Parallel()
	one := []taskdef.Container{container("web")}
	two := []taskdef.Container{container("db", checked, slow), container("web", after(0, taskdef.Healthy))}
	tests := []struct {
		name string
		cs   []taskdef.Container
		to   func(*driver)
		code string
		text string
		then string // and that there is a time for it
	}{
		{"asking for a share", []taskdef.Container{container("web", hungry)}, func(d *driver) {},
			WhyOperation, "podtask is reserving CPU, memory and ports", ""},
		{"queued", []taskdef.Container{container("web", hungry)}, func(d *driver) {
			d.answer(Admit, -1, Failure{}, Result{Queue: Queue{For: "1 vCPU (0 of 1 vCPU free), used by db"}})
		}, WhyQueued, "it waits for 1 vCPU (0 of 1 vCPU free), used by db", ""},
		{"the ledger fails", []taskdef.Container{container("web", hungry)}, func(d *driver) { d.fail(Admit, -1, Temporary) },
			WhyRetry, "reserving CPU, memory and ports failed once, error: fault", "podtask tries again"},
		{"resolving", one, func(d *driver) {}, WhyOperation, "podtask is asking the registry for the digest of example.com/web:1 for web", ""},
		{"resolving with credentials of its own", []taskdef.Container{container("web", secretive)}, func(d *driver) {},
			WhyOperation, "podtask is reading the credentials of web and asking the registry for the digest of example.com/web:1", ""},
		{"resolving again", one, func(d *driver) { d.fail(Resolve, 0, Temporary) },
			WhyRetry, "looking up the digest of example.com/web:1 for web failed once, error: fault", "podtask tries again"},
		{"a second attempt", one, func(d *driver) { d.fail(Resolve, 0, Temporary); d.wake() },
			WhyOperation, "podtask is asking the registry for the digest of example.com/web:1 for web; attempt 2, the last error: fault", ""},
		{"waiting for another's digest", []taskdef.Container{container("a", pinned), container("b")}, func(d *driver) { d.fail(Resolve, 1, Temporary) },
			WhyRetry, "looking up the digest of example.com/b:1 for b failed once, error: fault", "podtask tries again"},
		{"making the pod", one, func(d *driver) {
			d.answer(Resolve, 0, Failure{}, Result{Digest: "sha256:d"})
		}, WhyOperation, "Podman is creating its pod", ""},
		{"making the pod again", one, func(d *driver) {
			d.answer(Resolve, 0, Failure{}, Result{Digest: "sha256:d"})
			d.fail(Prepare, -1, Temporary)
		}, WhyRetry, "creating its pod failed once, error: fault", "podtask tries again"},
		{"starting the pod", one, func(d *driver) {
			d.answer(Resolve, 0, Failure{}, Result{Digest: "sha256:d"})
			d.answer(Prepare, -1, Failure{}, Result{PodID: "pod"})
		}, WhyOperation, "Podman is starting its pod", ""},
		{"pulling", one, func(d *driver) {
			d.answer(Resolve, 0, Failure{}, Result{Digest: "sha256:d"})
			d.launched(epoch)
		}, WhyOperation, "podtask is pulling example.com/web:1 for web", ""},
		{"pulling again", one, func(d *driver) {
			d.answer(Resolve, 0, Failure{}, Result{Digest: "sha256:d"})
			d.launched(epoch)
			d.fail(Pull, 0, Temporary)
		}, WhyRetry, "pulling example.com/web:1 for web failed once, error: fault", "podtask tries again"},
		{"an error that names the image again", one, func(d *driver) {
			d.answer(Resolve, 0, Failure{}, Result{Digest: "sha256:d"})
			d.launched(epoch)
			d.answer(Pull, 0, Failure{Class: Temporary, Message: "image example.com/web:1: registry example.com is busy"}, Result{})
		}, WhyRetry, "pulling example.com/web:1 for web failed once, error: registry example.com is busy", "podtask tries again"},
		{"creating", one, func(d *driver) { d.upTo(Create) }, WhyOperation, "Podman is creating web", ""},
		{"a create in doubt", one, func(d *driver) { d.upTo(Create); d.fail(Create, 0, Timeout) }, WhyInspect, "podtask is asking Podman for the state of web", ""},
		{"starting", one, func(d *driver) { d.upTo(Start) }, WhyOperation, "Podman is starting web", ""},
		{"waiting for a dependency", two, func(d *driver) { d.upTo(Stop) },
			WhyDependency, "web waits for db to be healthy; db is up, but its health check has not passed yet", "podtask gives up on web"},
		{"a dependency whose check fails", two, func(d *driver) {
			d.upTo(Stop)
			d.wake()
			d.answer(Probe, 0, Failure{}, Result{Probe: ProbeResult{ExitCode: 1, Output: "refused"}})
		}, WhyDependency, "web waits for db to be healthy; db is up, but its health check has not passed yet; the last one failed with exit code 1: refused", "podtask gives up on web"},
		{"health pending", []taskdef.Container{container("web", checked)}, func(d *driver) { d.upTo(Stop) },
			WhyHealth, "web is up, but its health check has not passed yet", "podtask checks again"},
		{"unhealthy", []taskdef.Container{container("web", checked)}, func(d *driver) {
			d.upTo(Stop)
			for d.s.Containers[0].Health.Status != HealthUnhealthy {
				d.wake()
				if d.op(0).Kind == Probe {
					d.answer(Probe, 0, Failure{}, Result{Probe: ProbeResult{ExitCode: 7}})
				}
			}
		}, WhyUnhealthy, "web is unhealthy: 3 health checks in a row failed; the last one failed with exit code 7", "podtask checks again"},
		{"running", one, func(d *driver) { d.upTo(Stop) }, WhyRunning, "its container is up", ""},
		{"running, one has done its work", []taskdef.Container{container("job", optional), container("web")}, func(d *driver) {
			d.upTo(Stop)
			d.end(0, 0)
		}, WhyRunning, "1 of 2 containers is up, 1 finished", ""},
		{"paused", one, func(d *driver) {
			d.upTo(Stop)
			d.do(Hinted{})
			d.answer(Inspect, 0, Failure{}, Result{Seen: Observed{Presence: Running, ID: "id", StartedAt: d.started[0], Paused: true}})
		}, WhyPaused, "the processes of web are frozen", ""},
		{"after a restart", one, func(d *driver) { d.upTo(Stop); d.do(Restarted{}) }, WhyInspect, "podtask is asking Podman for the state of web", ""},
		{"an inspection that fails", one, func(d *driver) { d.upTo(Stop); d.do(Hinted{}); d.fail(Inspect, 0, Temporary) },
			WhyRetry, "inspecting web failed once, error: fault", "podtask tries again"},
		{"stopping", one, func(d *driver) { d.upTo(Stop); d.do(StopRequested{By: "podtask stop"}) },
			WhyOperation, "stopped by podtask stop; web got its stop signal and has 10s to exit", "podtask kills it"},
		{"killing", one, func(d *driver) { d.upTo(Stop); d.do(StopRequested{By: "you", Force: true}) },
			WhyOperation, "stopped by you; podtask is killing web", ""},
		{"stopping again", one, func(d *driver) {
			d.upTo(Stop)
			d.do(StopRequested{By: "you"})
			d.fail(Stop, 0, Timeout)
			d.wake()
			d.fail(Inspect, 0, Temporary)
		}, WhyRetry, "stopped by you; stopping web failed 2 times, last error: fault", "podtask tries again"},
		{"stopping the pod", one, func(d *driver) { d.upTo(Stop); d.end(0, 3) },
			WhyOperation, "essential container web exited with code 3; podtask is stopping its pod", ""},
		{"stopping the pod again", one, func(d *driver) { d.upTo(Stop); d.end(0, 3); d.fail(Halt, -1, Temporary) },
			WhyRetry, "essential container web exited with code 3; stopping its pod failed once, error: fault", "podtask tries again"},
		{"removing", one, func(d *driver) { d.upTo(Stop); d.do(RemoveRequested{By: "you"}); d.see(Stop, 0, Exited, 143) },
			WhyOperation, "stopped by you; podtask is removing it", ""},
		{"removing again", one, func(d *driver) {
			d.upTo(Stop)
			d.do(RemoveRequested{By: "you"})
			d.see(Stop, 0, Exited, 143)
			d.fail(Remove, -1, Temporary)
		}, WhyRetry, "stopped by you; removing it failed once, error: fault", "podtask tries again"},
		{"leaving the queue", []taskdef.Container{container("web", hungry)}, func(d *driver) {
			d.answer(Admit, -1, Failure{}, Result{Queue: Queue{For: "room"}})
			d.do(StopRequested{By: "you"})
			d.answer(Resolve, 0, Failure{Class: Canceled}, Result{})
		}, WhyOperation, "stopped by you; it was queued and waited for room; podtask is releasing its CPU, memory and ports", ""},
		{"giving back fails", []taskdef.Container{container("web", hungry)}, func(d *driver) {
			d.answer(Admit, -1, Failure{}, Result{Queue: Queue{For: "room"}})
			d.do(StopRequested{By: "you"})
			d.answer(Resolve, 0, Failure{Class: Canceled}, Result{})
			d.fail(Release, -1, Temporary)
		}, WhyRetry, "stopped by you; it was queued and waited for room; releasing its CPU, memory and ports failed once, error: fault", "podtask tries again"},
		{"refused a share", []taskdef.Container{container("web", hungry)}, func(d *driver) {
			d.answer(Admit, -1, Failure{Class: Permanent, Message: "asks for 9 vCPU, there are 2"}, Result{})
			d.answer(Resolve, 0, Failure{Class: Canceled}, Result{})
			d.answer(Release, -1, Failure{}, Result{})
		}, WhyEnded, "ResourceInitializationError: asks for 9 vCPU, there are 2", ""},
		{"the essential container exited", one, func(d *driver) { d.upTo(Stop); d.end(0, 3); d.answer(Halt, -1, Failure{}, Result{}) },
			WhyEnded, "essential container web exited with code 3", ""},
		{"a user stopped it", one, func(d *driver) {
			d.upTo(Stop)
			d.do(StopRequested{By: "podtask stop"})
			d.see(Stop, 0, Exited, 143)
			d.answer(Halt, -1, Failure{}, Result{})
		}, WhyEnded, "stopped by podtask stop; web exited with code 143 (SIGTERM)", ""},
		{"it did not exit in time", one, func(d *driver) {
			d.upTo(Stop)
			d.do(StopRequested{By: "podtask stop"})
			d.at = d.at.Add(10 * time.Second)
			d.see(Stop, 0, Exited, 137)
			d.answer(Halt, -1, Failure{}, Result{})
		}, WhyEnded, "stopped by podtask stop; web did not exit within 10s of its stop signal and was killed (code 137)", ""},
		{"a user killed it", one, func(d *driver) {
			d.upTo(Stop)
			d.do(StopRequested{By: "podtask stop", Force: true})
			d.see(Stop, 0, Exited, 137)
			d.answer(Halt, -1, Failure{}, Result{})
		}, WhyEnded, "stopped by podtask stop; web exited with code 137 (SIGKILL)", ""},
		{"it could not start", one, func(d *driver) {
			d.upTo(Create)
			d.fail(Create, 0, Permanent)
			d.see(Inspect, 0, Absent)
			d.answer(Halt, -1, Failure{}, Result{})
		}, WhyEnded, "essential container web could not start: CannotCreateContainerError: fault", ""},
		{"removed", one, func(d *driver) {
			d.do(RemoveRequested{By: "you"})
			d.answer(Resolve, 0, Failure{Class: Canceled}, Result{})
		}, WhyEnded, "removed; before that: stopped by you", ""},
	}
	for _, c := range tests {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			d := drive(t, Options{}, c.cs...)
			c.to(d)
			got := d.s.Explain()
			if got[0].Code != c.code || got[0].Text != c.text || got[0].Then != c.then || (c.then == "") != got[0].Until.IsZero() {
				t.Errorf("got %+v\nwant %s: %q, then %q", got, c.code, c.text, c.then)
			}
		})
	}
}

// The reasons behind the first are of the containers that wait for others.
func TestExplainListsWhatElseWaits(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("a", pinned), container("b"), container("c", after(0, taskdef.Start)))
	d.answer(Resolve, 2, Failure{}, Result{Digest: "sha256:d"})
	var got []string
	for _, r := range d.s.Explain() {
		got = append(got, r.Code+": "+r.Text)
	}
	wantLines(t, got, []string{
		"operation: podtask is asking the registry for the digest of example.com/b:1 for b",
		"digests: a waits for the digest of the image of b",
		"digests: c waits for the digest of the image of b",
	})

	d = drive(t, Options{}, container("db"), container("web", after(0, taskdef.Start)))
	d.upTo(Stop)
	d.do(StopRequested{By: "you"})
	got = nil
	for _, r := range d.s.Explain() {
		got = append(got, r.Code+": "+r.Text)
	}
	wantLines(t, got, []string{
		"operation: stopped by you; web got its stop signal and has 10s to exit",
		"stop-order: db stops after the containers that depend on it",
	})
}

// A container in a restart back-off waits for its policy, and a restart that failed is
// tried again.
func TestExplainRestart(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("web", restarting(taskdef.RestartPolicy{BackOff: time.Minute, AttemptPeriod: 5 * time.Minute})))
	d.upTo(Stop)
	d.end(0, 3)
	want := Reason{Code: WhyRestart, Container: "web", Text: "web exited with code 3", Since: d.s.Containers[0].FinishedAt, Until: d.s.Containers[0].RestartAt, Then: "podtask restarts it"}
	if got := d.s.Explain(); len(got) != 1 || got[0] != want || want.Until.IsZero() {
		t.Errorf("in the back-off: %+v\nwant %+v", got, want)
	}
	d.wake()
	d.fail(Start, 0, Temporary)
	d.answer(Inspect, 0, Failure{}, Result{Seen: Observed{Presence: Exited, ID: "id", StartedAt: d.started[0], FinishedAt: d.s.Containers[0].FinishedAt, ExitCode: 3}})
	if got := d.s.Explain()[0]; got.Code != WhyRetry || got.Text != "restarting web failed once, error: fault" {
		t.Errorf("after a restart that failed: %+v", got)
	}
}

// An inspection that failed and then worked leaves no reason behind.
func TestExplainForgetsARetryThatWorked(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("web"))
	d.upTo(Stop)
	d.do(Hinted{})
	d.fail(Inspect, 0, Temporary)
	d.wake()
	d.see(Inspect, 0, Running, 0)
	if got := d.s.Explain()[0]; got.Code != WhyRunning {
		t.Errorf("it runs, but: %+v", got)
	}
}

// A dependency is as unsatisfied for users as it is for the start of its dependants.
func TestUnsatisfiedDependencies(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("db", checked, slow), container("web", after(0, taskdef.Healthy)))
	d.upTo(Stop)
	d.wake()
	d.answer(Probe, 0, Failure{}, Result{Probe: ProbeResult{Healthy: true}})
	s := clone(d.s)
	s.Containers[1].StartedAt = time.Time{}
	if got := s.Unsatisfied(1); len(got) != 0 {
		t.Errorf("db is healthy, but: %v", got)
	}
	s.Containers[0].Stale = true
	if got := s.Unsatisfied(1); len(got) != 1 {
		t.Errorf("the health of db is unknown, but its dependants wait for %v", got)
	}
}
