package services

import (
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// The error of a pull that is tried again is seen, until the task runs.
func TestObservationOfATaskThatCannotPull(t *testing.T) {
	t.Parallel()
	task := taskdef.Task{Family: "web", Containers: []taskdef.Container{{Name: "app", Image: "i", Essential: true}}}
	s := lifecycle.New(strings.Repeat("a", 32), "web-1", task, lifecycle.Options{}, time.Unix(1000, 0))
	s.Containers[0].Retry.Last = "registry example.com is busy"
	if o := observation(s); o.Failing != "registry example.com is busy" {
		t.Errorf("%+v", o)
	}
	s.Containers[0].Presence, s.Reported = lifecycle.Running, lifecycle.StatusRunning
	if o := observation(s); o.Failing != "" {
		t.Errorf("while it runs: %+v", o)
	}
	s.Goal = lifecycle.Down
	s.Sandbox.Retry.Last = "Podman does not answer"
	if o := observation(s); o.Failing != "" {
		t.Errorf("while it stops: %+v", o)
	}
}

// A task whose container may have ended is not confirmed to run.
func TestObservationOfATaskInDoubt(t *testing.T) {
	t.Parallel()
	task := taskdef.Task{Family: "web", Containers: []taskdef.Container{{Name: "app", Image: "i", Essential: true}}}
	s := lifecycle.New(strings.Repeat("a", 32), "web-1", task, lifecycle.Options{}, time.Unix(1000, 0))
	s.Containers[0].Presence, s.Reported = lifecycle.Running, lifecycle.StatusRunning
	if o := observation(s); !o.Running || o.Unconfirmed {
		t.Errorf("%+v", o)
	}
	s.Containers[0].Stale = true
	if o := observation(s); !o.Running || !o.Unconfirmed {
		t.Errorf("with a hint that the container has ended: %+v", o)
	}
}
