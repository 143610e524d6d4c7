package record

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// Tasks are the records of all tasks, and the locks that say who owns a task.
type Tasks struct {
	// Store holds the records, Locks the lock of each task.
	Store *state.Store
	Locks *state.Locks
	// foreground holds a lock for each task that a process shows to a user.
	Foreground *state.Locks
	// Removed has the IDs of tasks that must not be created a second time (Options.Once). Nil: none.
	Removed *state.Traces
}

// agentKey is the lock of the one agent that a state directory has.
const agentKey = "00000000000000000000000000000001"

// LockAgent makes this process the agent of the state directory. While another one
// lives the error is state.ErrLocked and names it.
func (t *Tasks) LockAgent() (unlock func() error, err error) {
	lock, err := t.Locks.Lock(agentKey)
	if held, ok := errors.AsType[*state.LockedError](err); ok && held.Holder.PID != 0 && errors.Is(syscall.Kill(held.Holder.PID, 0), syscall.ESRCH) {
		ctx, cancel := context.WithTimeout(context.Background(), deadHolderLimit)
		defer cancel()
		if late, waitErr := t.Locks.LockWait(ctx, agentKey); waitErr == nil {
			lock, err = late, nil
		}
	}
	if err != nil {
		return nil, err
	}
	return lock.Unlock, nil
}

// Agent returns the process that is the agent of the state directory; alive is false if there is none. Unlike a
// connection to the agent's socket, it starts none.
func (t *Tasks) Agent() (h state.Holder, alive bool) {
	h, alive, err := t.Locks.Holder(agentKey)
	return h, alive && err == nil
}

// deadHolderLimit bounds the time that a lock may outlive a process that was killed while it started another one, which
// has a copy of the lock's file until it runs its program.
const deadHolderLimit = 5 * time.Second

// ErrSeen ends a watch that has seen what it waits for.
var ErrSeen = errors.New("seen")

// Owned reports whether a process owns the task.
func (t *Tasks) Owned(id string) bool {
	_, held := t.Holder(id)
	return held
}

// States returns the recorded state of every task in the order of their
// creation, and beside it an error for each record that cannot be read.
func (t *Tasks) States() ([]lifecycle.State, []error) {
	var out []lifecycle.State
	var errs []error
	for r, err := range t.Store.All(t.Locks) {
		if err == nil {
			var s lifecycle.State
			if s, err = Decode(r.Data); err == nil {
				out = append(out, s)
				continue
			}
			err = fmt.Errorf("record %s: %w", r.Key, err)
		}
		errs = append(errs, err)
	}
	slices.SortStableFunc(out, func(a, b lifecycle.State) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return out, errs
}

// Aside returns an error for each damaged record that an earlier call of States, of any process, has moved aside. Call it before
// States, which itself returns an error for those that it moves.
func (t *Tasks) Aside() (errs []error) {
	keys, err := state.CorruptKeys(t.Store)
	if err != nil {
		return []error{err}
	}
	for _, key := range keys {
		errs = append(errs, fmt.Errorf("the record of task %s is damaged and was moved aside: its containers may still run; `podtask gc --corrupt` removes them and the record", lifecycle.ShortID(key)))
	}
	return errs
}

// Copies returns the copies of a service that have not stopped, the newest last; without any the latest one.
func (t *Tasks) Copies(service string) (copies []lifecycle.State) {
	if service == "" {
		return nil
	}
	all, _ := t.States() // what cannot be read is no copy
	all = slices.DeleteFunc(all, func(s lifecycle.State) bool { return s.Options.Service != service })
	for _, s := range all {
		if !s.Settled() {
			copies = append(copies, s)
		}
	}
	if len(copies) == 0 && len(all) > 0 {
		copies = all[len(all)-1:]
	}
	return copies
}

// NotFoundError means that no task matches the user's reference.
type NotFoundError struct {
	Ref string
	// Family has the beginnings of the ids of tasks without a name whose family is Ref.
	Family []string
}

func (e *NotFoundError) Error() string {
	if len(e.Family) > 0 {
		return fmt.Sprintf("no task has the name %q; without a name there is %s of that family: give an id", e.Ref, strings.Join(e.Family, ", "))
	}
	return fmt.Sprintf("no task %q: `podtask ps -a` lists tasks, `podtask service ps NAME` those of a service", e.Ref)
}

// AmbiguousError means that several tasks match.
type AmbiguousError struct {
	Ref string
	IDs []string
	// Pods are the Pods that Ref names, as NAMESPACE/NAME, in the order of IDs; nil where it
	// is the beginning of ids.
	Pods []string
	// Family: Ref is the family of tasks that have no names.
	Family bool
}

func (e *AmbiguousError) Error() string {
	if e.Pods != nil {
		all := make([]string, len(e.IDs))
		for i, id := range e.IDs {
			all[i] = e.Pods[i] + " (task " + id + ")"
		}
		return fmt.Sprintf("%q names %d Pods: %s: give NAMESPACE/NAME, the uid or the id of the task", e.Ref, len(all), strings.Join(all, ", "))
	}
	if e.Family {
		return fmt.Sprintf("%d tasks of the family %q have no name (%s): give the id of one", len(e.IDs), e.Ref, strings.Join(e.IDs, ", "))
	}
	return fmt.Sprintf("%q fits %d tasks (%s): give more of the id", e.Ref, len(e.IDs), strings.Join(e.IDs, ", "))
}

// FindToShow is Find for commands that change nothing: it also finds a task without a name by its family, by which ps
// shows it. Of several tasks the one that has not stopped counts, else the newest.
func (t *Tasks) FindToShow(ref string) (lifecycle.State, error) {
	s, err := t.Find(ref)
	if notFound := new(NotFoundError); errors.As(err, &notFound) && len(notFound.Family) > 0 {
		all, _ := t.States()
		return oneOfFamily(all, ref)
	}
	return s, err
}

// Find returns the task with the id, the name, the Pod (its NAMESPACE/NAME, name or uid) or
// the unique prefix of an id. Of several tasks of one name, and of several copies of one
// Pod, the one that has not stopped counts, else the newest. A family is no name: the unit web
// removes the task that is called web, and no other one.
func (t *Tasks) Find(ref string) (lifecycle.State, error) {
	if data, err := t.Store.Get(ref); err == nil {
		return Decode(data)
	} else if errors.Is(err, state.ErrCorrupt) || errors.Is(err, state.ErrFuture) {
		return lifecycle.State{}, err
	}
	all, _ := t.States()
	return choose(all, ref)
}

// choose is Find among the states of all tasks, oldest first.
func choose(all []lifecycle.State, ref string) (lifecycle.State, error) {
	var named, pods, prefixed []lifecycle.State
	for _, s := range slices.Backward(all) {
		if s.Name == ref && ref != "" {
			named = append(named, s)
		}
		if ref != "" && taskdef.PodRefOf(s.Task).Fits(ref) {
			pods = append(pods, s)
		}
		if strings.HasPrefix(s.ID, ref) && ref != "" {
			prefixed = append(prefixed, s)
		}
	}
	slices.SortStableFunc(named, func(a, b lifecycle.State) int { return stopped(a) - stopped(b) })
	switch {
	case len(named) > 0:
		return named[0], nil
	case len(pods) > 0:
		return onePod(ref, pods)
	case len(prefixed) == 1:
		return prefixed[0], nil
	case len(prefixed) > 1:
		e := &AmbiguousError{Ref: ref}
		for _, s := range prefixed {
			e.IDs = append(e.IDs, s.ID[:12])
		}
		return lifecycle.State{}, e
	}
	e := &NotFoundError{Ref: ref}
	for _, s := range all {
		if isOfFamily(s, ref) {
			e.Family = append(e.Family, s.ID[:12])
		}
	}
	return lifecycle.State{}, e
}

// isOfFamily reports whether a task without a name is of a family.
func isOfFamily(s lifecycle.State, family string) bool {
	return s.Name == "" && family != "" && s.Task.Family == family && taskdef.PodRefOf(s.Task).Name == ""
}

// oneOfFamily chooses among the tasks without a name, oldest first.
func oneOfFamily(all []lifecycle.State, family string) (lifecycle.State, error) {
	var last *lifecycle.State
	e := &AmbiguousError{Ref: family, Family: true}
	for i, s := range all {
		if !isOfFamily(s, family) {
			continue
		}
		if stopped(s) == 0 {
			e.IDs = append(e.IDs, s.ID[:12])
		}
		if last == nil || stopped(s) <= stopped(*last) {
			last = &all[i]
		}
	}
	switch {
	case last == nil:
		return lifecycle.State{}, &NotFoundError{Ref: family}
	case len(e.IDs) > 1:
		return lifecycle.State{}, e
	}
	return *last, nil
}

// onePod chooses among the tasks of the Pods that ref names, newest first.
func onePod(ref string, pods []lifecycle.State) (lifecycle.State, error) {
	if running := slices.DeleteFunc(slices.Clone(pods), func(s lifecycle.State) bool { return stopped(s) == 1 }); len(running) > 0 {
		pods = running
	} else if first := taskdef.PodRefOf(pods[0].Task).String(); !slices.ContainsFunc(pods, func(s lifecycle.State) bool { return taskdef.PodRefOf(s.Task).String() != first }) {
		pods = pods[:1]
	}
	if len(pods) == 1 {
		return pods[0], nil
	}
	e := &AmbiguousError{Ref: ref}
	for _, s := range pods {
		e.IDs, e.Pods = append(e.IDs, s.ID[:12]), append(e.Pods, taskdef.PodRefOf(s.Task).String())
	}
	return lifecycle.State{}, e
}

func stopped(s lifecycle.State) int {
	if s.Status() == lifecycle.StatusStopped {
		return 1
	}
	return 0
}

// ErrNameTaken means that a task of that name has not stopped yet.
var ErrNameTaken = errors.New("name is taken")

// Errors about the ID of a task that is to be created.
var (
	// ErrMade: there is a task with the ID.
	ErrMade = errors.New("the task was created before")
	// ErrRemoved: a task with the ID has run and was removed.
	ErrRemoved = errors.New("the task that this request has created ran and was removed: it is not run again")
)

// New returns ErrMade or ErrRemoved if a task has the ID, or had it. The caller holds the lock of the ID.
func (t *Tasks) New(id string) error {
	if _, found := t.Lookup(id); found {
		return ErrMade
	}
	return t.NotRemoved(id)
}

// NotRemoved returns ErrRemoved if a task with the ID has run and was removed.
func (t *Tasks) NotRemoved(id string) error {
	if t.Removed == nil {
		return nil
	}
	removed, err := t.Removed.Has(id)
	if err == nil && removed {
		err = ErrRemoved
	}
	return err
}

// Erase deletes the record of a task of which nothing is left. If the task was to be created once and has run, its ID is
// remembered. The caller holds the lock of the task.
func (t *Tasks) Erase(s lifecycle.State) error {
	ran := slices.ContainsFunc(s.Containers, func(c lifecycle.Container) bool { return !c.FirstStartedAt.IsZero() })
	if s.Options.Once && ran {
		if err := t.Leave(s.ID); err != nil {
			return err
		}
	}
	return t.Store.Delete(s.ID)
}

// Leave remembers an ID, so that no task is made with it for a week. The caller holds the lock of the ID.
func (t *Tasks) Leave(id string) error {
	if t.Removed == nil {
		return nil
	}
	return t.Removed.Leave(id, time.Now())
}

// AllTasks is the lock for what concerns all tasks: handing out names.
var AllTasks = strings.Repeat("0", 32)

// NewID returns a random ID for a task: 32 hexadecimal digits.
func NewID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails: crypto/rand aborts the program instead
	return hex.EncodeToString(b[:])
}

// Holder returns the owner of the task, if it has one.
func (t *Tasks) Holder(id string) (state.Holder, bool) {
	holder, held, err := t.Locks.Holder(id)
	return holder, held && err == nil
}

// Decode reads a record, which may have been damaged or edited.
func Decode(data []byte) (lifecycle.State, error) {
	var s lifecycle.State
	if err := json.Unmarshal(data, &s); err != nil {
		return lifecycle.State{}, fmt.Errorf("record is not a task: %w", err)
	}
	if err := lifecycle.Check(s); err != nil {
		return lifecycle.State{}, fmt.Errorf("record is inconsistent: %w", err)
	}
	return s, nil
}

// LockForeground says, until leave is called or this process ends, however it ends, that it shows
// the task to a user. A task that is to be removed as soon as it has stopped
// (Options.Remove) is then left to this process, which first shows its logs; otherwise its
// owner or the clean-up removes it. Call it while the task is owned and before it runs.
func (t *Tasks) LockForeground(id string) (leave func() error, err error) {
	lock, err := t.Foreground.Lock(id)
	if err != nil {
		return nil, err
	}
	return lock.Remove, nil
}

// InForeground reports whether a process shows the task to a user.
func (t *Tasks) InForeground(id string) bool {
	_, held, err := t.Foreground.Holder(id)
	return held && err == nil
}

// ForgetForeground removes the file of a lock whose holder was killed.
func (t *Tasks) ForgetForeground(s lifecycle.State) {
	if !s.Options.Remove {
		return
	}
	if lock, err := t.Foreground.Lock(s.ID); err == nil {
		_ = lock.Remove() // an empty file, which the next one of that name would use
	}
}

// Get is a task as its record has it; without one the error is a *NotFoundError.
func (t *Tasks) Get(id string) (lifecycle.State, error) {
	data, err := t.Store.Get(id)
	if errors.Is(err, fs.ErrNotExist) {
		return lifecycle.State{}, &NotFoundError{Ref: id}
	}
	if err != nil {
		return lifecycle.State{}, err
	}
	return Decode(data)
}

// Watch calls fn with the recorded state of a task and with each later one, skipping some
// if they change fast, until fn returns false, ctx ends (its cause is returned) or the
// task has settled. Any process may own the task; what only the owner's memory contains is
// not in the state. A task that is gone gives a *NotFoundError.
func (t *Tasks) Watch(ctx context.Context, id string, fn func(lifecycle.State) bool) error {
	show := func() error {
		s, err := t.Get(id)
		if err != nil {
			return err
		}
		if !fn(s) || s.Settled() {
			return ErrSeen
		}
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	found := false
	err := t.Store.FollowRecords(ctx, func(key string) {
		if key != id || ctx.Err() != nil {
			return
		}
		found = true
		if err := show(); err != nil {
			cancel(err)
		}
	}, func() {
		if !found {
			cancel(&NotFoundError{Ref: id})
		}
	})
	if errors.Is(err, ErrSeen) {
		return nil
	}
	return err
}

// Lookup returns a task as its record has it, and whether there is one. A record that cannot be read is one of a
// task that has not ended.
func (t *Tasks) Lookup(id string) (s lifecycle.State, found bool) {
	s, err := t.Get(id)
	var notFound *NotFoundError
	return s, !errors.As(err, &notFound)
}
