package agent

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/podtask/podtask/pkg/admission"
	"github.com/podtask/podtask/pkg/cgroups"
	"github.com/podtask/podtask/pkg/config"
	"github.com/podtask/podtask/pkg/libpod"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/netns"
	"github.com/podtask/podtask/pkg/ports"
	"github.com/podtask/podtask/pkg/state"
)

// ledger is what all owners share, as it is stored.
type ledger struct {
	Queue admission.Queue `json:"queue,omitzero"`
	Drain *Drain          `json:"drain,omitempty"`
	// SweptAt is when somebody last looked for what dead owners have left behind.
	SweptAt time.Time `json:"sweptAt,omitzero"`
	// SuspectUntil: until then a dead owner's pod may still come into being.
	SuspectUntil time.Time `json:"suspectUntil,omitzero"`
}

// budgetOf returns what all tasks together may use: what is configured, otherwise what the
// host or the user's slice has.
func budgetOf(s *config.Settings, root fs.FS, uid, cpus int) admission.Budget {
	b := admission.Budget{Reserved: s.Budget.ReservedPorts, Overtake: s.Budget.Overtake}
	if s.Budget.CPU == nil || s.Budget.Memory == nil {
		room := cgroups.RoomFor(root, uid, cpus)
		b.CPU, b.CPUFrom, b.Memory, b.MemoryFrom = room.CPU, room.CPUFrom, room.Memory, room.MemoryFrom
	}
	if reserved := s.Budget.ReservedMemory; reserved > 0 && b.Memory != admission.Unlimited {
		b.Memory, b.MemoryFrom = max(0, b.Memory-reserved), b.MemoryFrom+" less "+s.Origin("reserved-memory")
	}
	if s.Budget.CPU != nil {
		b.CPU, b.CPUFrom = *s.Budget.CPU, s.Origin("budget-cpu")
	}
	if s.Budget.Memory != nil {
		b.Memory, b.MemoryFrom = *s.Budget.Memory, s.Origin("budget-memory")
	}
	return b
}

// Budget returns what all tasks together may use.
func (q *Queue) Budget() admission.Budget {
	return budgetOf(q.settings, hostRoot, os.Getuid(), runtime.NumCPU())
}

// Read reads what owners share; it may be changing.
func (l *Ledger) Read() (ledger, error) {
	data, err := l.store.Read()
	if err != nil || data == nil {
		return ledger{}, err
	}
	var c ledger
	err = json.Unmarshal(data, &c)
	return c, err
}

// Change changes what owners share. When there is none, or it was damaged, it
// is made of the records first; where all is new there is nothing to sweep yet.
func (l *Ledger) Change(ctx context.Context, change func(*ledger)) error {
	return l.store.Update(ctx, func(old []byte) ([]byte, error) {
		var c ledger
		if old == nil || json.Unmarshal(old, &c) != nil {
			c = ledger{Queue: l.rebuildQueue(), SweptAt: time.Now().UTC()}
		}
		change(&c)
		return json.Marshal(c)
	})
}

// rebuildQueue makes a queue of the records: those who are in are in, and those who wait
// ask again.
func (l *Ledger) rebuildQueue() admission.Queue {
	var q admission.Queue
	all, _ := l.tasks.States()
	for _, s := range all {
		if s.Sandbox.Reservation == lifecycle.ReservationGranted && s.Status() != lifecycle.StatusStopped {
			q = q.Take(entry(s), s.CreatedAt)
		}
	}
	return q
}

func entry(s lifecycle.State) admission.Entry {
	name := s.Name
	if name == "" {
		name = s.Task.Family
	}
	return admission.Entry{Task: s.ID, Name: name, Need: s.Need()}
}

// Owned: somebody owns the task.
func (t *Tasks) Owned(id string) bool {
	_, held := t.Holder(id)
	return held
}

// Admit asks for a task's share. It does not wait.
func (q *Queue) Admit(ctx context.Context, s lifecycle.State, e lifecycle.AdmitTask) (lifecycle.Result, error) {
	if e.Begun {
		err := q.ledger.Change(ctx, func(l *ledger) { l.Queue = l.Queue.Take(entry(s), time.Now().UTC()) })
		return lifecycle.Result{Admitted: true}, passing(err)
	}
	budget := q.Budget()
	if err := budget.Refuse(s.Need()); err != nil {
		return lifecycle.Result{}, err
	}
	// One that waits looks before it takes the lock: all who wait are woken together.
	if l, err := q.ledger.Read(); err == nil && len(q.stale(l.Queue, s.ID)) == 0 {
		if e, asked := l.Queue.Find(s.ID); asked && e.Need.Equal(s.Need()) {
			if v := l.Queue.Judge(budget, s.ID, q.tasks.Owned); !v.Admitted {
				return lifecycle.Result{Queue: v.String()}, nil
			}
		}
	}
	v, err := q.ask(ctx, budget, s, nil)
	if err != nil || v.Admitted {
		return lifecycle.Result{Admitted: v.Admitted}, passing(err)
	}
	if idle := q.idle(ctx, s.ID); len(idle) > 0 {
		v, err = q.ask(ctx, budget, s, idle)
	}
	return lifecycle.Result{Admitted: v.Admitted, Queue: v.String()}, passing(err)
}

// ask asks under the lock, after having dropped what nobody needs any more. Idle
// are tasks of which nothing runs; those still without an owner lose their share.
func (q *Queue) ask(ctx context.Context, b admission.Budget, s lifecycle.State, idle []string) (v admission.Verdict, err error) {
	err = q.ledger.Change(ctx, func(l *ledger) {
		for _, id := range q.stale(l.Queue, s.ID) {
			l.Queue = l.Queue.Release(id)
		}
		for _, id := range idle {
			if !q.tasks.Owned(id) {
				l.Queue = l.Queue.Release(id)
			}
		}
		l.Queue, v = l.Queue.Ask(b, entry(s), time.Now().UTC(), q.tasks.Owned)
	})
	return v, err
}

// stale are the other tasks of the queue that have stopped, or are no more, without
// having given their share back: their owners have died in between.
func (q *Queue) stale(present admission.Queue, except string) []string {
	var ids []string
	for _, e := range present.Entries {
		if e.Task == except || q.tasks.Owned(e.Task) {
			continue
		}
		data, err := q.tasks.Store.Get(e.Task)
		if errors.Is(err, fs.ErrNotExist) {
			ids = append(ids, e.Task)
			continue
		}
		if err != nil {
			continue // nobody knows
		}
		if s, err := decode(data); err == nil && s.Status() == lifecycle.StatusStopped {
			ids = append(ids, e.Task)
		}
	}
	return ids
}

// idlePace is how long a process lets pass between two questions to Podman about
// tasks without an owner.
const idlePace = 10 * time.Second

// idle are the tasks that are in, have no owner, and of which nothing runs, as
// after a reboot. Whoever owns such a task next asks anew.
func (q *Queue) idle(ctx context.Context, except string) []string {
	l, err := q.ledger.Read()
	if err != nil {
		return nil
	}
	var orphans []string
	for _, e := range l.Queue.Entries {
		if e.Held && e.Task != except && !q.tasks.Owned(e.Task) {
			orphans = append(orphans, e.Task)
		}
	}
	if len(orphans) == 0 || !q.mayAskIdle() {
		return nil
	}
	podman, err := q.podman(ctx)
	if err != nil {
		return nil
	}
	found, err := podman.List(ctx)
	if err != nil {
		q.log.Debug("what runs is not known", "error", err)
		return nil
	}
	return slices.DeleteFunc(orphans, func(id string) bool {
		return slices.ContainsFunc(found, func(f libpod.Found) bool { return f.TaskID == id && f.Status == libpod.Running })
	})
}

func (q *Queue) mayAskIdle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if time.Since(q.askedIdle) < idlePace {
		return false
	}
	q.askedIdle = time.Now()
	return true
}

// Release gives a task's share back, or takes it out of the queue.
func (q *Queue) Release(ctx context.Context, id string) error {
	return passing(q.ledger.Change(ctx, func(l *ledger) { l.Queue = l.Queue.Release(id) }))
}

// passing makes a failure of the ledger one that may pass: the disk is full, say.
func passing(err error) error {
	if err == nil || errors.Is(err, state.ErrFuture) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &passingError{err}
}

type passingError struct{ cause error }

func (e *passingError) Error() string { return e.cause.Error() }
func (e *passingError) Unwrap() error { return e.cause }

// Waiting is what each task in the queue waits for, by id.
func (q *Queue) Waiting() map[string]admission.Verdict {
	waiting := map[string]admission.Verdict{}
	l, err := q.ledger.Read()
	if err != nil || len(l.Queue.Entries) == 0 {
		return waiting
	}
	budget := q.Budget()
	for _, e := range l.Queue.Entries {
		if !e.Held {
			waiting[e.Task] = l.Queue.Judge(budget, e.Task, q.tasks.Owned)
		}
	}
	return waiting
}

// Reservations are the ids of the tasks that are in or wait, in the order in which they
// asked.
func (q *Queue) Reservations() []string {
	l, err := q.ledger.Read()
	if err != nil {
		return nil
	}
	var ids []string
	for _, e := range l.Queue.Entries {
		ids = append(ids, e.Task)
	}
	return ids
}

// PortIsTaken tells whether a port is in use by somebody else than a task: for a
// task's the next one waits.
func (q *Queue) PortIsTaken() func(protocol, ip string, port uint16) bool {
	l, err := q.ledger.Read()
	return func(protocol, ip string, port uint16) bool {
		if err == nil {
			if _, ours := l.Queue.Holder(ports.HostPort{Number: port, Protocol: protocol, HostIP: ip}); ours {
				return false
			}
		}
		return netns.InUse(protocol, ip, port)
	}
}
