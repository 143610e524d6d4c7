package task

import (
	"testing"

	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// A wait for a restart ends when the container runs again, and when it never will.
func TestTheWaitForARestartEnds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		desired, status string
		restarts        int
		done, fails     bool
	}{
		"not yet":                    {"RUNNING", "RUNNING", 2, false, false},
		"started again":              {"RUNNING", "RUNNING", 3, true, false},
		"again, and then it stopped": {"STOPPED", "STOPPED", 3, true, false},
		"the task stops":             {"STOPPED", "RUNNING", 2, false, true},
		"it cannot be started":       {"RUNNING", "STOPPED", 2, false, true},
	} {
		done, err := restarted(api.Task{Name: "shop", DesiredStatus: test.desired, Containers: []api.Container{{Name: "web", Status: test.status, RestartCount: test.restarts}}}, 0, 2)
		if done != test.done || (err != nil) != test.fails {
			t.Errorf("%s: %t, %v", name, done, err)
		}
	}
}

// The next owner is not asked for what the one before had taken.
func TestARestartIsAskedForOnce(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		c    lifecycle.Container
		want bool
	}{
		"nothing was taken": {lifecycle.Container{Presence: lifecycle.Running, Restarts: 2}, false},
		"recorded":          {lifecycle.Container{Presence: lifecycle.Running, Restarts: 2, RestartRequested: true}, true},
		"between":           {lifecycle.Container{Presence: lifecycle.Exited, Restarts: 2}, true},
		"done":              {lifecycle.Container{Presence: lifecycle.Running, Restarts: 3}, true},
	} {
		if got := restarting(test.c, 2); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
