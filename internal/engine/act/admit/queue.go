package admit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/config"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/pkg/admission"
	"github.com/podtask/podtask/pkg/cgroups"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/netns"
	"github.com/podtask/podtask/pkg/ports"
)

// Queue admits tasks as far as the budget allows.
type Queue struct {
	Log      *slog.Logger
	Root     fs.FS // the host's files
	Settings *config.Settings
	Podman   func(context.Context) (Lister, error)
	Tasks    *record.Tasks
	Ledger   *Ledger
	// GPUs returns the devices that CDI knows by the names of kinds and devices; nil for none.
	GPUs func(names []string) ([]string, error)

	mu        sync.Mutex // guards askedIdle
	askedIdle time.Time  // when Podman was last asked about tasks without an owner
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
	b.Quotas = quotasOf(s, root, uid)
	return b
}

// Budget returns what all tasks together may use.
func (q *Queue) Budget() admission.Budget {
	b := budgetOf(q.Settings, q.Root, os.Getuid(), runtime.NumCPU())
	b.Starting = q.starting()
	if q.GPUs == nil {
		return b
	}
	b.GPUsFrom = "CDI devices " + strings.Join(q.Settings.Budget.GPUs, ", ")
	var err error
	if b.GPUs, err = q.GPUs(q.Settings.Budget.GPUs); err != nil {
		b.GPUsFrom += ": " + err.Error()
	}
	return b
}

// starting returns Budget.Starting, which reads the record of a task at most once.
func (q *Queue) starting() func(task string) bool {
	var mu sync.Mutex
	known := make(map[string]bool)
	return func(task string) bool {
		mu.Lock()
		defer mu.Unlock()
		is, found := known[task]
		if found {
			return is
		}
		if data, err := q.Tasks.Store.Get(task); err == nil {
			s, err := record.Decode(data)
			is = err == nil && s.Status() < lifecycle.StatusRunning
		}
		known[task] = is
		return is
	}
}

// Admit requests a task's reservation. It does not wait.
func (q *Queue) Admit(ctx context.Context, s lifecycle.State, e lifecycle.AdmitTask) (lifecycle.Result, error) {
	if e.Begun {
		var v admission.Verdict
		err := q.Ledger.Change(ctx, func(l *Content) { l.Queue, v = l.Queue.Take(entryOf(s), time.Now().UTC()) })
		return resultOf(v), markTransient(err)
	}
	budget := q.Budget()
	if err := budget.Refuse(s.Need()); err != nil {
		return lifecycle.Result{}, err
	}
	// A waiting task checks before it takes the lock: all waiting tasks wake up together.
	if v, waits := q.mustWait(budget, s); waits {
		return q.resultFor(s, v), nil
	}
	v, err := q.ask(ctx, budget, s, nil)
	if err != nil || v.Admitted {
		return resultOf(v), markTransient(err)
	}
	if idle := q.idle(ctx, s.ID); len(idle) > 0 {
		v, err = q.ask(ctx, budget, s, idle)
	}
	return q.resultFor(s, v), markTransient(err)
}

// resultFor is resultOf for a task that may give up: it says which host port another task keeps. One that stops gives its ports
// back by itself.
func (q *Queue) resultFor(s lifecycle.State, v admission.Verdict) lifecycle.Result {
	r := resultOf(v)
	if !s.Options.GiveUp || v.Admitted {
		return r
	}
	l, err := q.Ledger.Read()
	if err != nil {
		return r
	}
	for _, p := range s.Need().Ports {
		holder, held := l.Queue.Holder(p)
		if !held || holder.Task == s.ID {
			continue
		}
		if other, err := q.Tasks.Get(holder.Task); err == nil && other.Goal == lifecycle.Up {
			r.Queue.Kept = fmt.Sprintf("the host port %d/%s is in use by task %s", p.Number, p.Protocol, other.DisplayName())
			return r
		}
	}
	return r
}

func resultOf(v admission.Verdict) lifecycle.Result {
	return lifecycle.Result{Admitted: v.Admitted, Queue: lifecycle.Queue{For: v.String(), Ahead: v.Ahead}, GPUs: v.GPUs}
}

// mustWait reports whether a task that has asked before still has to wait, as far as the ledger
// shows without its lock. Only the first task in the queue looks for reservations of dead owners,
// because that reads the record of every task.
func (q *Queue) mustWait(b admission.Budget, s lifecycle.State) (admission.Verdict, bool) {
	l, err := q.Ledger.Read()
	if err != nil {
		return admission.Verdict{}, false
	}
	e, asked := l.Queue.Find(s.ID)
	if !asked || !e.Need.Equal(s.Need()) {
		return admission.Verdict{}, false
	}
	v := l.Queue.Judge(b, s.ID, time.Now(), q.Tasks.Owned)
	if v.Admitted {
		return v, false
	}
	behind := b.Overtake == 0 && l.Queue.Behind(s.ID, q.Tasks.Owned)
	return v, behind || len(q.stale(l.Queue, s.ID)) == 0
}

// ask asks under the lock, after it has dropped stale reservations. Idle are tasks of
// which nothing runs; those that still have no owner lose their reservation.
func (q *Queue) ask(ctx context.Context, b admission.Budget, s lifecycle.State, idle []string) (v admission.Verdict, err error) {
	err = q.Ledger.Change(ctx, func(l *Content) {
		for _, id := range q.stale(l.Queue, s.ID) {
			l.Queue = l.Queue.PassOn(id, time.Now().UTC())
		}
		for _, id := range idle {
			if !q.Tasks.Owned(id) {
				l.Queue = l.Queue.Release(id)
			}
		}
		l.Queue, v = l.Queue.Ask(b, entryOf(s), time.Now().UTC(), q.Tasks.Owned)
	})
	return v, err
}

// stale returns the other tasks of the queue that have stopped or were removed without
// releasing their reservation, because their owners died.
func (q *Queue) stale(present admission.Queue, except string) []string {
	var ids []string
	for _, e := range present.Entries {
		if e.Task == except || q.Tasks.Owned(e.Task) || isKept(e) {
			continue
		}
		data, err := q.Tasks.Store.Get(e.Task)
		if errors.Is(err, fs.ErrNotExist) {
			ids = append(ids, e.Task)
			continue
		}
		if err != nil {
			continue // unknown
		}
		if s, err := record.Decode(data); err == nil && s.Status() == lifecycle.StatusStopped {
			ids = append(ids, e.Task)
		}
	}
	return ids
}

// idlePace is the time for which a process waits between two requests to Podman about tasks without
// an owner.
const idlePace = 10 * time.Second

// idle returns the tasks that have a reservation but no owner, and of which nothing runs,
// as after a reboot. The next owner of such a task asks again.
func (q *Queue) idle(ctx context.Context, except string) []string {
	l, err := q.Ledger.Read()
	if err != nil {
		return nil
	}
	var orphans []string
	for _, e := range l.Queue.Entries {
		if e.Held && e.Task != except && !q.Tasks.Owned(e.Task) && !isKept(e) {
			orphans = append(orphans, e.Task)
		}
	}
	if len(orphans) == 0 || !q.mayAskIdle() {
		return nil
	}
	podman, err := q.Podman(ctx)
	if err != nil {
		return nil
	}
	found, err := podman.List(ctx)
	if err != nil {
		q.Log.Debug("cannot list running containers", "error", err)
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

// heirLimit bounds the time that a reservation is kept for a task that is about to be created.
const heirLimit = time.Minute

// isKept reports whether a reservation waits for a task that is about to be created.
func isKept(e admission.Entry) bool { return e.Inherited && time.Since(e.Since) < heirLimit }

// Release releases a task's reservation, or removes the task from the queue. The reservation of a task that is
// replaced is its heir's from now on.
func (q *Queue) Release(ctx context.Context, id string) error {
	return markTransient(q.Ledger.Change(ctx, func(l *Content) { l.Queue = l.Queue.PassOn(id, time.Now().UTC()) }))
}

// Bequeath has a task that is about to be created inherit the reservation of one that it replaces; "" for none.
func (q *Queue) Bequeath(ctx context.Context, id, heir string) error {
	return markTransient(q.Ledger.Change(ctx, func(l *Content) { l.Queue = l.Queue.Bequeath(id, heir) }))
}

// Waiting returns what each task in the queue waits for, by ID.
func (q *Queue) Waiting() map[string]admission.Verdict {
	waiting := map[string]admission.Verdict{}
	l, err := q.Ledger.Read()
	if err != nil || len(l.Queue.Entries) == 0 {
		return waiting
	}
	budget := q.Budget()
	for _, e := range l.Queue.Entries {
		if !e.Held {
			waiting[e.Task] = l.Queue.Judge(budget, e.Task, time.Now(), q.Tasks.Owned)
		}
	}
	return waiting
}

// Reservations returns the IDs of the tasks that are admitted or wait, in the order of
// their requests.
func (q *Queue) Reservations() []string {
	l, err := q.Ledger.Read()
	if err != nil {
		return nil
	}
	var ids []string
	for _, e := range l.Queue.Entries {
		ids = append(ids, e.Task)
	}
	return ids
}

// PortIsTaken reports whether a port is in use by something other than a task. If a task
// uses it, the next one waits.
func (q *Queue) PortIsTaken() func(protocol, ip string, port uint16) bool {
	l, err := q.Ledger.Read()
	return func(protocol, ip string, port uint16) bool {
		if err == nil {
			if _, ours := l.Queue.Holder(ports.HostPort{Number: port, Protocol: protocol, HostIP: ip}); ours {
				return false
			}
		}
		return netns.InUse(protocol, ip, port)
	}
}

// Lister lists what belongs to tasks.
type Lister interface {
	// List returns all objects with the label libpod.TaskLabel.
	List(ctx context.Context) ([]libpod.Found, error)
}
