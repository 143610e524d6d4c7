package enginehost

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/engine/act/observe"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/engine/run/owner"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// Process is the owner of a task, which runs in a goroutine as if it were a process of its own.
type Process struct {
	Owner *owner.Owner
	ID    string
	// Ended receives the error of the owner's end.
	Ended <-chan error

	t      testing.TB
	cancel context.CancelFunc
}

// Own starts an owner of a task.
func (h *Host) Own(e *Engine, id string) *Process {
	h.t.Helper()
	o, err := e.Owners.Own(id)
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		err := o.Run(ctx)
		ended <- errors.Join(err, o.Close())
	}()
	h.t.Cleanup(cancel)
	return &Process{Owner: o, ID: id, Ended: ended, t: h.t, cancel: cancel}
}

// Start creates a task with a reservation and starts its owner on an engine of its own.
func (h *Host) Start(task taskdef.Task, name string) *Process {
	h.t.Helper()
	e := h.Open()
	return h.Own(e, h.Create(e, task, name, Admitted).ID)
}

// StartSleeper starts a task with that many CPU units that runs, once admitted, until it is stopped.
func (h *Host) StartSleeper(cpu int, name string) *Process {
	h.t.Helper()
	return h.Start(h.Box(cpu, 0, "sleep", "forever"), name)
}

// RunSleeper is StartSleeper that waits until the task runs.
func (h *Host) RunSleeper(cpu int, name string) *Process {
	h.t.Helper()
	p := h.StartSleeper(cpu, name)
	p.UntilRunning()
	return p
}

// Until waits for a state. What describes it.
func (p *Process) Until(what string, fits func(lifecycle.State) bool) lifecycle.State {
	p.t.Helper()
	found := false
	if err := p.Owner.Watch(p.t.Context(), func(s lifecycle.State) bool { found = fits(s); return !found }); err != nil || !found {
		p.t.Fatalf("%s is not %s: %s (%v)", p.ID, what, p.Owner.State().Status(), err)
	}
	return p.Owner.State()
}

// UntilRunning waits until the task runs.
func (p *Process) UntilRunning() {
	p.t.Helper()
	p.Until("running", IsRunning)
}

// UntilQueued waits until the task is in the queue, and returns what it waits for.
func (p *Process) UntilQueued() string {
	p.t.Helper()
	return p.Until("queued", lifecycle.State.Queued).Sandbox.Queue
}

// Wait waits until the owner ends by itself.
func (p *Process) Wait() {
	p.t.Helper()
	if err := <-p.Ended; err != nil {
		p.t.Fatal(err)
	}
}

// Kill ends the owner and leaves the task as it is.
func (p *Process) Kill() {
	p.cancel()
	<-p.Ended
}

// Stop stops the task by force and waits for the end of the owner.
func (p *Process) Stop() {
	p.t.Helper()
	p.Owner.Send(lifecycle.StopRequested{By: "test", Force: true})
	p.Wait()
}

// Finish owns a task, sends it events and runs it until it has settled.
func Finish(t testing.TB, e *Engine, id string, events ...lifecycle.Event) lifecycle.State {
	t.Helper()
	o, err := e.Owners.Own(id)
	if err != nil {
		t.Fatal(err)
	}
	for _, ev := range events {
		o.Send(ev) // the mailbox holds them until Run
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := o.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if err := o.Close(); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return o.State()
}

// Published returns the events of a task in the event log as "CONTAINER STATUS", and checks that
// they are in order.
func Published(t testing.TB, e *Engine, id string) (lines []string) {
	t.Helper()
	last := uint64(0)
	err := e.Events.Read(t.Context(), 0, false, func(ev record.Event) error {
		if ev.Task == id {
			if ev.TaskSeq != last+1 {
				t.Errorf("event %d of the task follows %d", ev.TaskSeq, last)
			}
			last = ev.TaskSeq
			lines = append(lines, strings.TrimSpace(ev.Container+" "+ev.Status))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// Output returns the lines "CONTAINER: TEXT" that the containers of a task have printed, sorted.
func Output(t testing.TB, e *Engine, s lifecycle.State) (lines []string) {
	t.Helper()
	err := e.Logs.Read(t.Context(), s, "", observe.LogOptions{Tail: -1}, func(l observe.LogLine) error {
		lines = append(lines, l.Container+": "+l.Text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(lines)
	return lines
}
