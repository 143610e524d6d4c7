package lifecycle

import (
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/pkg/taskdef"
)

// A task is a success only if no essential container was kept from its start by a dependency.
func TestTaskWithAnEssentialContainerThatNeverStartedFails(t *testing.T) {
	t.Parallel()
	// Container first ends with a code while web waits for it, beside db, which runs until it is stopped.
	for _, tt := range []struct {
		rule      string
		condition taskdef.Condition
		first     []func(*taskdef.Container)
		code      int
		stop      string
		want      string
	}{
		{"SUCCESS of an optional one that failed", taskdef.Success, []func(*taskdef.Container){optional}, 1, StopTaskFailedToStart, "first exited 1"},
		{"HEALTHY of an optional one that ended", taskdef.Healthy, []func(*taskdef.Container){optional, checked}, 0, StopTaskFailedToStart, "web waited for first"},
		{"HEALTHY of an essential one that ended", taskdef.Healthy, []func(*taskdef.Container){checked}, 0, StopEssentialContainerExited, "web waited for first"},
	} {
		for _, webFirst := range []bool{false, true} {
			t.Run(tt.rule+map[bool]string{true: ", defined later"}[webFirst], func(t *testing.T) {
				t.Parallel()
				first, web, db := 0, 1, 2
				cs := []taskdef.Container{container("first", tt.first...), container("web", after(0, tt.condition)), container("db")}
				if webFirst {
					first, web = 1, 0
					cs[0], cs[1] = container("web", after(1, tt.condition)), cs[0]
				}
				d := drive(t, Options{}, cs...)
				d.upTo(Start)
				d.see(Start, first, Running)
				d.see(Start, db, Running)
				d.at = d.at.Add(time.Second)
				d.end(first, tt.code)
				d.endDown(db, 0)
				if d.s.Stop.Code != tt.stop {
					t.Errorf("stop code %s, want %s", d.s.Stop.Code, tt.stop)
				}
				if got := d.s.ExitCode(); got != 125 {
					t.Errorf("exit code %d, want 125", got)
				}
				if got := d.s.FailedStart(); got != tt.want {
					t.Errorf("failed: %q, want %q", got, tt.want)
				}
				for _, text := range []string{d.s.Stop.Reason, d.s.Explain()[0].Text} {
					if !strings.Contains(text, "web could not start: CannotStartContainerError: dependency first ("+string(tt.condition)+")") || strings.Count(text, "CannotStart") != 1 {
						t.Errorf("it says %q", text)
					}
				}
				if c := d.s.Containers[web]; !c.HasExit || c.ExitCode != exitDependency {
					t.Errorf("the container is %+v", c)
				}
			})
		}
	}
}

// A third container on which another one waits when the task ends.
func TestTaskThatEndsWhileAContainerWaitsFails(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("job"), container("seed", optional), container("web", after(1, taskdef.Success)))
	d.upTo(Start)
	d.see(Start, 0, Running)
	d.see(Start, 1, Running)
	d.at = d.at.Add(time.Second)
	d.end(0, 0)
	d.endDown(1, 143)
	if code, why := d.s.ExitCode(), d.s.FailedStart(); code != 125 || why != "web waited for seed" {
		t.Errorf("%d, %q", code, why)
	}
	if !strings.Contains(d.s.Stop.Reason, "web could not start: CannotStartContainerError: dependency seed (SUCCESS) was not fulfilled") {
		t.Errorf("it says %q", d.s.Stop.Reason)
	}
}

// What has nothing to do with dependencies of essential containers leaves a success one.
func TestTaskThatDidItsWorkSucceeds(t *testing.T) {
	t.Parallel()
	t.Run("an optional container never started", func(t *testing.T) {
		t.Parallel()
		d := drive(t, Options{}, container("job", checked), container("side", optional, checked, after(0, taskdef.Healthy)))
		d.upTo(Start)
		d.see(Start, 0, Running)
		d.end(0, 0)
		if code, why := d.s.ExitCode(), d.s.FailedStart(); code != 0 || why != "" {
			t.Errorf("%d, %q", code, why)
		}
	})
	t.Run("it ended before another one was started, which waited for nothing", func(t *testing.T) {
		t.Parallel()
		d := drive(t, Options{}, container("job"), container("other"))
		d.upTo(Start)
		d.see(Start, 0, Running)
		d.end(0, 0)
		if code, why := d.s.ExitCode(), d.s.FailedStart(); code != 0 || why != "" {
			t.Errorf("%d, %q", code, why)
		}
	})
	t.Run("a user stopped it before all had started", func(t *testing.T) {
		t.Parallel()
		d := drive(t, Options{}, container("db", checked), container("web", after(0, taskdef.Healthy)))
		d.upTo(Start)
		d.see(Start, 0, Running)
		d.do(StopRequested{By: "test"})
		d.endDown(0, 0)
		if code, why := d.s.ExitCode(), d.s.FailedStart(); code != 0 || why != "" {
			t.Errorf("%d, %q", code, why)
		}
	})
}

// A failure that was that of an essential container stays the task's.
func TestExitCodeOfAFailureComesBeforeThatOfAStart(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("web", after(1, taskdef.Healthy)), container("db", checked))
	d.upTo(Start)
	d.see(Start, 1, Running)
	d.end(1, 3)
	if code, stop := d.s.ExitCode(), d.s.Stop.Code; code != 3 || stop != StopEssentialContainerExited {
		t.Errorf("%d, %s", code, stop)
	}
}

// A task that was stopped because something failed has failed, also if its containers end well.
func TestTaskThatIsStoppedForAFailureFails(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]int{
		StopServiceScheduler: 125, StopInfrastructureHealth: 125, StopDeadlineExceeded: 124, StopTaskFailedToStart: 125,
		StopUserInitiated: 0, StopEssentialContainerExited: 0,
	} {
		d := drive(t, Options{}, container("app"))
		d.upTo(Start)
		d.see(Start, 0, Running)
		d.end(0, 0)
		d.s.Stop.Code = code
		if got := d.s.ExitCode(); got != want {
			t.Errorf("%s: %d, want %d", code, got, want)
		}
	}
}

// endDown ends a container of a task that is stopping.
func (d *driver) endDown(i, code int) {
	d.t.Helper()
	d.at = d.at.Add(time.Second)
	if op := d.op(i); op.Busy() {
		d.see(op.Kind, i, Exited, code)
		return
	}
	d.end(i, code)
}
