package cleanup_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/engine/run/owner"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/testing/enginehost"
	"github.com/podtask/podtask/internal/testing/enginetest"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// finished is a host with a task that has stopped, and that a foreground process still shows.
type finished struct {
	host  *enginehost.Host
	e     *enginehost.Engine
	id    string
	leave func() error // ends the foreground process
}

// finish runs a task to its end.
func finish(t *testing.T, remove bool) *finished {
	t.Helper()
	host := enginehost.New(t)
	f := &finished{host: host, e: host.Open()}
	f.again(t, remove)
	return f
}

// again runs another task to its end.
func (f *finished) again(t *testing.T, remove bool) {
	t.Helper()
	options := enginehost.Unlimited
	options.Remove = remove
	f.id = f.host.Create(f.e, f.host.Task(nil, enginehost.Fields{"name": "app", "command": "exit 3"}), "", options).ID
	var err error
	if f.leave, err = f.e.Tasks.LockForeground(f.id); err != nil {
		t.Fatal(err)
	}
	enginehost.Finish(t, f.e, f.id)
}

// removeExpired removes tasks that have expired by a time from now on.
func removeExpired(t *testing.T, e *enginehost.Engine, in time.Duration) {
	e.Expired.Remove(t.Context(), time.Now().Add(in), time.Hour)
}

// left lists what exists of the task: its containers and its record.
func (f *finished) left() string {
	what := f.host.Podman.Left(f.id)
	if _, err := f.e.Tasks.Find(f.id); err == nil {
		what = append(what, "record")
	}
	return strings.Join(what, " ")
}

func TestCleanUpRemovesStoppedTasks(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]bool{"kept": false, "run --rm that was killed": true} {
		f := finish(t, remove)
		early, late := 55*time.Minute, 65*time.Minute
		if remove { // not while a foreground process may read its logs, and then at once
			early, late = 70*time.Minute, 72*time.Minute
		}
		removeExpired(t, f.e, early)
		if s, err := f.e.Tasks.Find(f.id); err != nil || s.ExitCode() != 3 {
			t.Fatalf("%s: too early: %v", name, err)
		}
		if err := f.leave(); err != nil {
			t.Fatal(err)
		}
		removeExpired(t, f.e, late)
		if left := f.left(); left != "" {
			t.Errorf("%s: left: %s", name, left)
		}
	}
}

func TestCleanUpGoesOnWithARemovalThatWasCutOff(t *testing.T) {
	t.Parallel()
	f := finish(t, false)
	f.host.Podman.Fail(func(c enginetest.Call) enginetest.Fault {
		return enginetest.Fault{Moment: enginetest.Before, Class: libpod.Other}
	})
	o, err := f.e.Owners.Own(f.id)
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
	f.host.Podman.Fail(nil)
	removeExpired(t, f.e, 0)
	if left := f.left(); left != "" {
		t.Errorf("left: %s", left)
	}
}

func TestCleanUpLeavesOwnedTasksAlone(t *testing.T) {
	t.Parallel()
	f := finish(t, false)
	o, err := f.e.Owners.Own(f.id)
	if err != nil {
		t.Fatal(err)
	}
	removeExpired(t, f.e, 2*time.Hour)
	if left := f.left(); !strings.Contains(left, "record") {
		t.Errorf("left: %q", left)
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestCleanUpLooksOnceAMinute(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	f := &finished{host: host, e: host.Open()}
	removeExpired(t, f.e, 2*time.Hour)
	f.again(t, false)
	removeExpired(t, f.e, 2*time.Hour+30*time.Second)
	if left := f.left(); !strings.Contains(left, "record") {
		t.Error("a second look within the minute")
	}
	removeExpired(t, f.e, 90*time.Minute) // the clock was set back since
	if left := f.left(); left != "" {
		t.Errorf("left after the clock was set back: %s", left)
	}
}

// A temporary task whose process was killed is removed even though it runs, by the first clean-up that finds it; one that has an owner is not.
func TestCleanUpRemovesTemporaryTasks(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	e, other := host.Open(), host.Open()
	options := enginehost.Unlimited
	options.Temporary = true
	o, err := e.Creator.Record(t.Context(), owner.Launch{Task: host.Task(nil, enginehost.Fields{"name": "app", "command": "serve"}), Options: options})
	if err != nil {
		t.Fatal(err)
	}
	ctx, kill := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- o.Run(ctx) }()
	host.Await(e, o.ID(), enginehost.IsRunning)
	removeExpired(t, other, 0)
	if s, err := e.Tasks.Get(o.ID()); err != nil || !enginehost.IsRunning(s) {
		t.Fatalf("it has an owner: %v", err)
	}
	kill()
	<-ended
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	removeExpired(t, other, 2*time.Minute)
	if left := host.Podman.Left(o.ID()); len(left) > 0 {
		t.Errorf("left: %s", left)
	}
	if _, err := e.Tasks.Get(o.ID()); err == nil {
		t.Error("its record is left")
	}
}
