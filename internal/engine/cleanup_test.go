package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/testing/enginetest"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// stopped runs a task to its end, attending to it, and returns its id.
func (r *resources) stopped(remove bool) string {
	r.t.Helper()
	task := r.task(nil, members{"name": "app", "command": "exit 3"})
	s, err := r.host.Creator.Create(r.t.Context(), task, "", lifecycle.Options{Pull: lifecycle.PullNever, Limits: "off", Remove: remove})
	if err != nil {
		r.t.Fatal(err)
	}
	o, err := r.host.Owners.Own(s.ID)
	if err != nil {
		r.t.Fatal(err)
	}
	leave, err := r.host.Tasks.LockForeground(s.ID)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := errors.Join(o.Run(r.t.Context()), o.Close()); err != nil {
		r.t.Fatal(err)
	}
	r.leave = leave
	return s.ID
}

// cleanUp cleans up as of a time from now on.
func (r *resources) cleanUp(in time.Duration) {
	r.host.Expired.Remove(r.t.Context(), time.Now().Add(in), time.Hour)
}

// left lists what is left of a task: its record, its containers.
func (r *resources) left(id string) string {
	what := r.podman.Left(id)
	if _, err := r.host.Tasks.Find(id); err == nil {
		what = append(what, "record")
	}
	return strings.Join(what, " ")
}

func TestCleanUpRemovesStoppedTasks(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]bool{"kept": false, "run --rm that was killed": true} {
		r := newResources(t)
		id := r.stopped(remove)
		early, late := 55*time.Minute, 65*time.Minute
		if remove { // not while a foreground process may read its logs, and then at once
			early, late = 70*time.Minute, 72*time.Minute
		}
		r.cleanUp(early)
		if s, err := r.host.Tasks.Find(id); err != nil || s.ExitCode() != 3 {
			t.Fatalf("%s: too early: %v", name, err)
		}
		if err := r.leave(); err != nil {
			t.Fatal(err)
		}
		r.cleanUp(late)
		if left := r.left(id); left != "" {
			t.Errorf("%s: left: %s", name, left)
		}
	}
}

func TestCleanUpGoesOnWithARemovalThatWasCutOff(t *testing.T) {
	t.Parallel()
	r := newResources(t)
	id := r.stopped(false)
	r.podman.Fail(func(c enginetest.Call) enginetest.Fault {
		return enginetest.Fault{Moment: enginetest.Before, Class: libpod.Unavailable}
	})
	o, err := r.host.Owners.Own(id)
	if err != nil {
		t.Fatal(err)
	}
	o.Send(lifecycle.RemoveRequested{By: "user"})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- o.Run(ctx) }()
	err = o.Watch(t.Context(), func(s lifecycle.State) bool { return s.Sandbox.Retry.Persist == 0 })
	cancel()
	<-done
	if err := errors.Join(err, o.Close()); err != nil {
		t.Fatal(err)
	}
	r.podman.Fail(nil)
	r.cleanUp(0)
	if left := r.left(id); left != "" {
		t.Errorf("left: %s", left)
	}
}

func TestCleanUpLeavesOwnedTasksAlone(t *testing.T) {
	t.Parallel()
	r := newResources(t)
	id := r.stopped(false)
	o, err := r.host.Owners.Own(id)
	if err != nil {
		t.Fatal(err)
	}
	r.cleanUp(2 * time.Hour)
	if left := r.left(id); !strings.Contains(left, "record") {
		t.Errorf("left: %q", left)
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestCleanUpLooksOnceAMinute(t *testing.T) {
	t.Parallel()
	r := newResources(t)
	r.cleanUp(2 * time.Hour)
	id := r.stopped(false)
	r.cleanUp(2*time.Hour + 30*time.Second)
	if left := r.left(id); !strings.Contains(left, "record") {
		t.Error("a second look within the minute")
	}
	r.cleanUp(90 * time.Minute) // the clock was set back since
	if left := r.left(id); left != "" {
		t.Errorf("left after the clock was set back: %s", left)
	}
}
