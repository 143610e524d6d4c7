package connect

import (
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

func TestConditions(t *testing.T) {
	t.Parallel()
	started := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	sick := []api.Container{{Essential: true, Health: &api.Health{Status: "UNKNOWN"}}}
	well := []api.Container{{Essential: true, Health: &api.Health{Status: "HEALTHY"}}, {Essential: true}, {Health: &api.Health{Status: "UNHEALTHY"}}}
	tests := []struct {
		name   string
		what   Condition
		task   api.Task
		met    bool
		missed bool
	}{
		{"running: not yet", UntilRunning, api.Task{Status: "CREATED"}, false, false},
		{"running", UntilRunning, api.Task{Status: "RUNNING", StartedAt: started}, true, false},
		{"running, though it has failed since", UntilRunning, api.Task{Status: "STOPPED", StartedAt: started, StopCode: lifecycle.StopEssentialContainerExited, ExitCode: code(3)}, false, true},
		{"running, and done since", UntilRunning, api.Task{Status: "STOPPED", StartedAt: started, StopCode: lifecycle.StopEssentialContainerExited, ExitCode: code(0)}, true, false},
		{"running, and stopped by a user", UntilRunning, api.Task{Status: "STOPPED", StartedAt: started, StopCode: lifecycle.StopUserInitiated, ExitCode: code(0)}, false, true},
		{"running, and on its way down", UntilRunning, api.Task{Status: "RUNNING", Goal: "DOWN", StartedAt: started}, false, false},
		{"healthy: a job that is done", UntilHealthy, api.Task{Status: "STOPPED", StopCode: lifecycle.StopEssentialContainerExited, ExitCode: code(0), Containers: sick}, true, false},
		{"running: never", UntilRunning, api.Task{Status: "STOPPED"}, false, true},
		{"healthy: not yet", UntilHealthy, api.Task{Status: "RUNNING", Health: "UNKNOWN", Containers: sick}, false, false},
		{"healthy: all that are essential and have a check", UntilHealthy, api.Task{Status: "RUNNING", Health: "HEALTHY", Containers: well}, true, false},
		{"healthy: nothing is checked", UntilHealthy, api.Task{Status: "RUNNING", Health: "UNKNOWN", Containers: well[1:]}, true, false},
		{"healthy: running comes first", UntilHealthy, api.Task{Status: "CREATED", Containers: well}, false, false},
		{"healthy: never", UntilHealthy, api.Task{Status: "STOPPED", StartedAt: started, Containers: well}, false, true},
		{"stopped: not yet", UntilStopped, api.Task{Status: "RUNNING"}, false, false},
		{"stopped", UntilStopped, api.Task{Status: "STOPPED"}, true, false},
	}
	for _, tt := range tests {
		met, err := tt.what.Met(tt.task)
		if met != tt.met || (err != nil) != tt.missed {
			t.Errorf("%s: %v, %v", tt.name, met, err)
		}
	}
}

func code(n api.ExitCode) *api.ExitCode { return &n }

func TestSteadyCountsAfterASecond(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	checked := []api.Container{{Essential: true, Health: &api.Health{Status: "HEALTHY"}}}
	for _, tt := range []struct {
		name string
		what Condition
		task api.Task
		want time.Duration
	}{
		{"just started", UntilSteady, api.Task{Status: "RUNNING", StartedAt: now}, time.Second},
		{"half of it", UntilSteady, api.Task{Status: "RUNNING", StartedAt: now.Add(-600 * time.Millisecond)}, 400 * time.Millisecond},
		{"long ago", UntilSteady, api.Task{Status: "RUNNING", StartedAt: now.Add(-time.Hour)}, 0},
		{"a clock that was set back", UntilSteady, api.Task{Status: "RUNNING", StartedAt: now.Add(time.Hour)}, time.Second},
		{"running is at once", UntilRunning, api.Task{Status: "RUNNING", StartedAt: now}, 0},
		{"steady by a check", UntilSteady, api.Task{Status: "RUNNING", Health: "HEALTHY", StartedAt: now, Containers: checked}, 0},
		{"done", UntilSteady, api.Task{Status: "STOPPED", StartedAt: now}, 0},
		{"healthy by a check", UntilHealthy, api.Task{Status: "RUNNING", Health: "HEALTHY", StartedAt: now, Containers: checked}, 0},
		{"healthy without a check", UntilHealthy, api.Task{Status: "RUNNING", StartedAt: now, Containers: checked[:0]}, time.Second},
	} {
		if got := tt.what.unsteady(tt.task, now); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestUnhealthyEndsAWaitUnlessARestartMayHeal(t *testing.T) {
	t.Parallel()
	sick := api.Task{ID: "0123456789abcdef", Name: "web", Containers: []api.Container{{Name: "app", Essential: true, Health: &api.Health{Status: "UNHEALTHY", ExitCode: 7, FailingStreak: 3, Output: "no answer\n"}}}}
	st := lifecycle.State{Task: taskdef.Task{Containers: []taskdef.Container{{Name: "app", Essential: true}}}}
	err := unhealthyFor(st, sick)
	for _, want := range []string{"health check of app failed 3 times", "exit code 7", "no answer", "podtask logs web"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
	st.Task.Containers[0].Restart = &taskdef.RestartPolicy{}
	if err := unhealthyFor(st, sick); err != nil {
		t.Errorf("a restart may heal it: %v", err)
	}
	sick.Containers[0].Essential = false
	st.Task.Containers[0].Restart = nil
	if err := unhealthyFor(st, sick); err != nil {
		t.Errorf("it is not essential: %v", err)
	}
}
