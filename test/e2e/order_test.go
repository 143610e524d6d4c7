//go:build e2e

//e2e:bed plain

package e2e

import (
	"strings"
	"testing"
)

func TestEssentialContainerEndsTheTask(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	r := b.want(3, "run", "--name", b.family, b.define(
		ctr{Name: "a", Command: words("term 41 -- print one -- serve 8001"), Essential: optional},
		ctr{Name: "b", Command: words("term 42 -- eprint two -- serve 8002"), Essential: optional, DependsOn: []on{{"a", "START"}}},
		ctr{Name: "c", Command: words("serve 8003"), Essential: optional, DependsOn: []on{{"b", "START"}}},
		ctr{Name: "main", Command: words("await http://a:8001/ -- await http://b:8002/ -- await http://c:8003/ -- print three -- exit 3"),
			DependsOn: []on{{"c", "START"}}},
	))
	inOrder(t, b.events(), "a RUNNING", "b RUNNING", "c RUNNING", "main STOPPED", "c STOPPED", "b STOPPED", "a STOPPED", "~infra STOPPED", "task STOPPED")
	got := b.inspect(b.family)
	if got.codes() != "a=41 b=42 c=143 main=3" || got.StopCode != "EssentialContainerExited" || *got.ExitCode != 3 {
		t.Errorf("%s %s %d", got.codes(), got.StopCode, *got.ExitCode)
	}
	for _, line := range []string{"a ", "one", "main ", "three"} {
		if !strings.Contains(r.out, line) {
			t.Errorf("%q is not on standard output:\n%s", line, r.out)
		}
	}
	if !strings.Contains(r.err, "two") || strings.Contains(r.out, "two") {
		t.Errorf("what a container writes to its standard error is not on ours:\n%s", r.err)
	}
	logs := b.want(0, "logs", b.family)
	if !strings.Contains(logs.out, "one") || !strings.Contains(logs.out, "three") {
		t.Errorf("logs afterwards: %s", logs.out)
	}
	if logs := b.want(0, "logs", b.family, "a"); strings.Contains(logs.out, "three") || !strings.Contains(logs.out, "one") {
		t.Errorf("logs of one container: %s", logs.out)
	}
}

func TestContainerThatIsNotEssentialMayEnd(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.want(0, "run", "--name", b.family, b.define(
		ctr{Name: "side", Command: words("exit 9"), Essential: optional},
		ctr{Name: "main", Command: words("print done"), DependsOn: []on{{"side", "COMPLETE"}}},
	))
	inOrder(t, b.events(), "side STOPPED", "main RUNNING", "main STOPPED")
	if got := b.inspect(b.family).codes(); got != "side=9 main=0" {
		t.Error(got)
	}
}

func TestDependencyThatCanNoMoreBeMet(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name      string
		dep       ctr
		condition string
		want      string // in the reason
	}{
		{"SUCCESS of a failure", ctr{Command: words("exit 1")}, "SUCCESS", "exited with code 1"},
		{"SUCCESS too late", ctr{Command: words("sleep forever"), StartTimeout: 2}, "SUCCESS", "startTimeout"},
		{"COMPLETE too late", ctr{Command: words("sleep forever"), StartTimeout: 2}, "COMPLETE", "startTimeout"},
		{"HEALTHY too late", ctr{Command: words("sleep forever"), StartTimeout: 2, Health: healthyIf("exists /never")}, "HEALTHY", "startTimeout"},
		{"HEALTHY of one that ended", ctr{Command: words("sleep 1s"), Health: healthyIf("exists /never")}, "HEALTHY", "stopped before it was healthy"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			tc.dep.Name, tc.dep.Essential = "first", optional
			r := b.want(125, "run", "--name", b.family, b.define(
				tc.dep,
				ctr{Name: "second", Command: words("print never"), DependsOn: []on{{"first", tc.condition}}},
				ctr{Name: "third", Command: words("print never"), Essential: optional, DependsOn: []on{{"second", "START"}}},
			))
			got := b.inspect(b.family)
			reason := got.Containers[1].Reason
			for _, want := range []string{"CannotStartContainerError", "first", tc.condition, tc.want} {
				if !strings.Contains(reason, want) {
					t.Errorf("the reason does not name %q: %s", want, reason)
				}
			}
			if !strings.Contains(r.err, "first") || strings.Contains(r.out, "never") {
				t.Errorf("it printed\n%s%s", r.out, r.err)
			}
			list := b.events()
			if count(list, "second RUNNING")+count(list, "third RUNNING") > 0 {
				t.Errorf("a dependant ran:\n%s", describe(list))
			}
			inOrder(t, list, "first RUNNING", "second STOPPED", "task STOPPED")
			if got.StopCode != "TaskFailedToStart" || *got.Containers[1].ExitCode != 143 {
				t.Errorf("%s, %s", got.StopCode, got.codes())
			}
		})
	}
}

// A migration that fails is no success of the task, whatever the containers beside it return.
func TestTaskWithAFailedMigrationFails(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	def := b.define(
		ctr{Name: "db", Command: words("term 0 -- sleep forever")},
		ctr{Name: "migrate", Command: words("exit 1"), Essential: optional, DependsOn: []on{{"db", "START"}}},
		ctr{Name: "web", Command: words("print never"), DependsOn: []on{{"migrate", "SUCCESS"}}},
	)
	b.want(125, "run", "--name", b.family, def)
	if got := b.want(0, "wait", b.family).out; got != "125\n" {
		t.Errorf("wait printed %q", got)
	}
	if got := b.want(0, "ps", "--all", "--format", "{{.State}}", "--filter", "name="+b.family).out; got != "failed (migrate exited 1)\n" {
		t.Errorf("ps printed %q", got)
	}
	if got := b.inspect(b.family); got.StopCode != "TaskFailedToStart" || *got.ExitCode != 125 || *got.Containers[0].ExitCode != 0 {
		t.Errorf("%s, %d, %s", got.StopCode, *got.ExitCode, got.codes())
	}
	b.want(0, "rm", b.family)
}

// An essential container that ends well before the one that waits for it was kept from its start.
func TestTaskThatEndsBeforeAnotherContainerStartsFails(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	r := b.want(125, "run", "--quiet", "--rm", b.define(
		ctr{Name: "a", Command: words("print one"), Health: healthyIf("exists /never")},
		ctr{Name: "b", Command: words("print two"), DependsOn: []on{{"a", "HEALTHY"}}},
	))
	if !strings.Contains(r.err, "dependency a (HEALTHY) stopped before it was healthy") {
		t.Errorf("it says %q", r.err)
	}
}

func TestHealthIsReported(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	id := b.detach("--wait=healthy", b.define(
		ctr{Name: "app", Command: words("print up -- wait /tmp/go"), Health: healthyIf("exists /testbox")}))
	if got := b.inspect(id); got.Health != "HEALTHY" || got.Status != "RUNNING" {
		t.Errorf("%s %s", got.Health, got.Status)
	}
	b.tell(id, "app", "/tmp/go")
	if r := b.want(0, "wait", id); strings.TrimSpace(r.out) != "0" {
		t.Errorf("wait printed %q", r.out)
	}
	inOrder(t, b.events(), "app RUNNING", "app HEALTHY", "app STOPPED")
}

func TestStopTimeouts(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	// Each of the chain has its own limit, and the one who ignores
	// the signal does not take the others' time.
	id := b.detach(b.define(
		ctr{Name: "store", Command: words("term 0 -- serve 8001"), StopTimeout: 60},
		ctr{Name: "deaf", Command: words("term ignore -- serve 8002"), StopTimeout: 2, DependsOn: []on{{"store", "START"}}},
		ctr{Name: "web", Command: words("serve 8003"), DependsOn: []on{{"deaf", "START"}}},
		ctr{Name: "probe", Essential: optional, Command: words("await http://store:8001/ -- await http://deaf:8002/ -- await http://web:8003/")},
	))
	b.await("probe STOPPED")
	b.want(0, "stop", id)
	inOrder(t, b.events(), "web STOPPED", "deaf STOPPED", "store STOPPED", "task STOPPED")
	if got := b.inspect(id); got.codes() != "store=0 deaf=137 web=143 probe=0" || got.StopCode != "UserInitiated" {
		t.Errorf("%s %s", got.codes(), got.StopCode)
	}
}

func TestSignalThatIsHandledInsideDoesNotStopTheTask(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	id := b.detach("--wait=running", b.define(ctr{Name: "app", Command: words("term ignore -- write /tmp/ready -- wait /tmp/go -- exit 42")}))
	container := b.inspect(id).Containers[0].RuntimeID
	b.podman("exec", container, "/testbox", "wait", "/tmp/ready")
	b.podman("kill", "--signal", "TERM", container)
	if got := b.inspect(id).Status; got != "RUNNING" {
		t.Errorf("status %s after a signal that the container ignores", got)
	}
	b.tell(id, "app", "/tmp/go")
	if r := b.want(0, "wait", id); strings.TrimSpace(r.out) != "42" {
		t.Errorf("wait printed %q", r.out)
	}
}
