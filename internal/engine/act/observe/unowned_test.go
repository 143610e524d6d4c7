package observe_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/engine/act/observe"
	"github.com/podtask/podtask/internal/engine/facts/taskspec"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// list is a Podman that counts how often it is asked.
type list struct {
	found []libpod.Found
	err   error
	asked int
}

func (l *list) Containers(context.Context) ([]libpod.Found, error) {
	l.asked++
	return l.found, l.err
}

// recordedTask is a task whose record says that both containers run.
func recordedTask(id string) lifecycle.State {
	started := time.Unix(1000, 5000)
	def := taskdef.Task{Family: "web", Containers: []taskdef.Container{
		{Name: "app", Image: "example.com/app:1", Essential: true}, {Name: "side", Image: "example.com/app:1"},
	}}
	s := lifecycle.New(strings.Repeat(id, 16), "", def, lifecycle.Options{}, started)
	s.Sandbox.Phase, s.Sandbox.Dirty, s.Sandbox.Reservation = lifecycle.SandboxReady, true, lifecycle.ReservationNone
	for i := range s.Containers {
		c := &s.Containers[i]
		c.Resolved, c.Pulled, c.Presence, c.StartedAt, c.FirstStartedAt = true, true, lifecycle.Running, started, started
	}
	return s
}

func TestTasksWithoutAnOwnerAreSeenAsTheyAre(t *testing.T) {
	t.Parallel()
	s, fresh := recordedTask("ab"), recordedTask("cd")
	fresh.Sandbox.Dirty = false
	l := &list{found: []libpod.Found{
		{Name: taskspec.ContainerName(s, 0), TaskID: s.ID, Status: libpod.Exited, ExitCode: 7, StartedAt: time.Unix(1000, 0), FinishedAt: time.Unix(1009, 0)},
		{Name: taskspec.ContainerName(s, 1), TaskID: s.ID, Status: libpod.Running, StartedAt: time.Unix(1000, 0)},
	}}
	u := observe.Unowned{Podman: func(context.Context) (observe.Lister, error) { return l, nil }}
	seen, err := u.Look(t.Context(), time.Unix(2000, 0), []lifecycle.State{s, fresh, s})
	if err != nil || len(seen) != 3 || l.asked != 1 {
		t.Fatalf("%d tasks, %v, asked %d times", len(seen), err, l.asked)
	}
	app, side := seen[0].Containers[0], seen[0].Containers[1]
	if !app.Ended || !app.HasExit || app.ExitCode != 7 || side.Ended || side.Presence != lifecycle.Running || side.Restarts != 0 {
		t.Errorf("app %+v, side %+v", app, side)
	}
	if got := seen[0].Stop.Code; got != lifecycle.StopEssentialContainerExited || len(seen[0].History) != len(s.History) {
		t.Errorf("stop code %s, %d events", got, len(seen[0].History))
	}
	if s.Containers[0].Ended {
		t.Error("what was recorded has changed")
	}
	if _, err := u.Look(t.Context(), time.Unix(2000, 0), []lifecycle.State{fresh}); err != nil || l.asked != 1 {
		t.Errorf("for a task without containers Podman is asked: %v", err)
	}
	l.err = errors.New("broken")
	if seen, err := u.Look(t.Context(), time.Unix(2000, 0), []lifecycle.State{s}); err == nil || len(seen) != 1 || seen[0].Containers[0].Ended {
		t.Errorf("without Podman: %v", err)
	}
}
