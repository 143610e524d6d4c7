package connect

import (
	"testing"
	"time"

	"github.com/podtask/podtask/pkg/api"
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
		{"running, though it has stopped since", UntilRunning, api.Task{Status: "STOPPED", StartedAt: started}, true, false},
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
