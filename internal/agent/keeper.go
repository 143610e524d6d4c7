package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/service"
	"github.com/podtask/podtask/pkg/taskdef"
)

// keeper drives one service, as an Owner drives a task: it steps, saves, shows, acts.
type keeper struct {
	loop
	all      *Services
	mailbox  chan message
	snapshot atomic.Pointer[service.State]
	over     chan struct{} // closed when run has ended

	mu      sync.Mutex
	changed chan struct{} // closed and replaced when snapshot changes

	// The rest belongs to run.
	wg      sync.WaitGroup
	watches map[string]context.CancelFunc // of tasks, by id
	saved   []byte
}

// message is a fact, or a request that becomes one.
type message struct {
	fact    service.Input
	request func(service.State) (service.Input, error)
	reply   chan<- error
}

func newKeeper(a *Services, s service.State) *keeper {
	k := &keeper{all: a, mailbox: make(chan message, 64), over: make(chan struct{}), changed: make(chan struct{}), watches: map[string]context.CancelFunc{}}
	k.snapshot.Store(&s)
	return k
}

// send is false when nothing will come of the message.
func (k *keeper) send(ctx context.Context, m message) bool {
	select {
	case k.mailbox <- m:
		return true
	case <-k.over:
	case <-ctx.Done():
	}
	return false
}

func (k *keeper) awaitChange() <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.changed
}

func (k *keeper) show(s service.State) {
	k.snapshot.Store(&s)
	k.mu.Lock()
	defer k.mu.Unlock()
	close(k.changed)
	k.changed = make(chan struct{})
}

// run keeps the service until the context ends or nothing is left of it.
func (k *keeper) run() {
	ctx, cancel := context.WithCancel(k.all.ctx)
	defer close(k.over)
	defer k.asleep()
	defer k.wg.Wait()
	defer cancel()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		m := message{fact: service.TimerFired{}}
		k.asleep()
		select {
		case m = <-k.mailbox:
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		k.busy()
		if err := k.take(ctx, m); err != nil {
			k.all.host.log.Error("the service stands still", "service", k.snapshot.Load().Name, "error", err)
			return
		}
		s := *k.snapshot.Load()
		if s.Gone() {
			err := k.all.forget(s)
			if err == nil {
				return
			}
			k.all.host.log.Error("the service is not removed yet", "service", s.Name, "error", err)
			timer.Reset(noSpacePause)
			continue
		}
		timer.Stop()
		if wake := s.Wake(time.Now()); !wake.IsZero() {
			timer.Reset(time.Until(wake))
		}
	}
}

// take steps, saves and begins what comes of it.
func (k *keeper) take(ctx context.Context, m message) error {
	s := *k.snapshot.Load()
	if m.request != nil {
		in, err := m.request(s)
		if err != nil {
			m.reply <- err
			return nil
		}
		m.fact = in
	}
	s, effects := service.Step(s, time.Now().UTC(), m.fact)
	err := k.save(ctx, s)
	if err == nil {
		k.show(s)
		for _, e := range effects {
			k.begin(ctx, s, e)
		}
		k.watch(ctx, s)
	}
	if m.reply != nil {
		m.reply <- err
	}
	return err
}

// noSpacePause is how long is waited for space on a full disk.
const noSpacePause = 2 * time.Second

// save makes the state durable. Without that nothing goes on: it is tried again until
// the context ends.
func (k *keeper) save(ctx context.Context, s service.State) error {
	data, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encode service %s: %w", s.Name, err)
	}
	for !bytes.Equal(data, k.saved) {
		err := k.all.store.Put(s.ID, data)
		if err == nil {
			k.saved = data
			break
		}
		k.all.host.log.Error("the service stands still until it can be recorded", "service", s.Name, "error", err)
		k.asleep()
		select {
		case <-time.After(noSpacePause):
		case <-ctx.Done():
			return ctx.Err()
		}
		k.busy()
		if _, err := k.all.store.Get(s.ID); err != nil { // settles a write in doubt
			k.all.host.log.Debug("the record cannot be read", "service", s.Name, "error", err)
		}
	}
	return nil
}

// begin starts an effect, whose answer comes as a message.
func (k *keeper) begin(ctx context.Context, s service.State, e service.Effect) {
	k.wg.Go(func() {
		answer := k.do(ctx, s, e)
		if ctx.Err() == nil {
			k.send(ctx, message{fact: answer})
		}
	})
}

func (k *keeper) do(ctx context.Context, s service.State, e service.Effect) service.Input {
	done := func(id string, err error) service.Input {
		d := service.Done{ID: id}
		if err != nil {
			d.Refused = err.Error()
		}
		return d
	}
	gone := func(err error) bool { return errors.As(err, new(*NotFoundError)) }
	switch e := e.(type) {
	case service.StartTask:
		return done(e.ID, k.start(ctx, s, e.ID))
	case service.StopTask:
		by := fmt.Sprintf("service %s: %s", s.Name, e.Cause)
		err := k.all.fleet.Send(ctx, e.ID, lifecycle.StopRequested{By: by})
		if gone(err) {
			return service.Vanished{ID: e.ID}
		}
		return done(e.ID, err)
	case service.RemoveTask:
		err := k.remove(ctx, e.ID, "service "+s.Name)
		if gone(err) {
			err = nil
		}
		return done(e.ID, err)
	default:
		panic(fmt.Sprintf("agent: no service effect %T", e))
	}
}

// start makes a task, unless it has a record already.
func (k *keeper) start(ctx context.Context, s service.State, id string) error {
	h := k.all.host
	if _, err := h.Tasks.Get(id); !errors.As(err, new(*NotFoundError)) {
		return err
	}
	i := slices.IndexFunc(s.Tasks, func(t service.Task) bool { return t.ID == id })
	d, _ := s.Deployment(s.Tasks[i].Deployment)
	options := k.all.options
	options.Service, options.Deployment = s.Name, d.ID
	if err := h.Ledger.RefuseDraining(); err != nil {
		return err
	}
	if err := h.Preflight.Check(ctx, d.Task, options); err != nil {
		return err
	}
	owner, err := h.Creator.CreateNamed(ctx, id, d.Task, s.TaskName(s.Tasks[i]), options)
	if err != nil {
		return err
	}
	return owner.Close() // the fleet takes it
}

// CreateNamed is createAs that does without a name that somebody else's task has.
func (c *Creator) CreateNamed(ctx context.Context, id string, t taskdef.Task, name string, o lifecycle.Options) (*Owner, error) {
	owner, err := c.CreateAs(ctx, id, t, name, o)
	if errors.Is(err, ErrNameTaken) {
		return c.CreateAs(ctx, id, t, "", o)
	}
	return owner, err
}

// remove returns when a task that has stopped is gone, with a *NotFoundError.
func (k *keeper) remove(ctx context.Context, id, by string) error {
	if err := k.all.fleet.Send(ctx, id, lifecycle.RemoveRequested{By: by}); err != nil {
		return err
	}
	if err := k.all.fleet.Follow(ctx, id, func(lifecycle.State) bool { return true }); err != nil {
		return err
	}
	return errors.New("its removal failed; `podtask why` tells more")
}

// watch keeps one watch for each task that may change, and none for others.
func (k *keeper) watch(ctx context.Context, s service.State) {
	wanted := map[string]bool{}
	for _, t := range s.Tasks {
		if t.Phase != service.Live && t.Phase != service.Stopping {
			continue
		}
		wanted[t.ID] = true
		if k.watches[t.ID] != nil {
			continue
		}
		watching, cancel := context.WithCancel(ctx)
		k.watches[t.ID] = cancel
		k.wg.Go(func() {
			defer cancel()
			k.observe(watching, t.ID)
		})
	}
	for id, cancel := range k.watches {
		if !wanted[id] {
			cancel()
			delete(k.watches, id)
		}
	}
}

// observe reports what becomes of a task.
func (k *keeper) observe(ctx context.Context, id string) {
	var last service.Observation
	told := false
	for ctx.Err() == nil {
		err := k.all.fleet.Follow(ctx, id, func(s lifecycle.State) bool {
			if seen := observation(s); !told || seen != last {
				told, last = true, seen
				return k.send(ctx, message{fact: service.Seen{ID: id, Observation: seen}})
			}
			return true
		})
		switch {
		case err == nil: // it has settled, and that was reported
			return
		case errors.As(err, new(*NotFoundError)):
			k.send(ctx, message{fact: service.Vanished{ID: id}})
			return
		case ctx.Err() == nil:
			k.all.host.log.Warn("a service does not see its task", "task", id, "error", err)
		}
		select {
		case <-time.After(noSpacePause):
		case <-ctx.Done():
		}
	}
}

// observation is what a service sees of a task.
func observation(s lifecycle.State) service.Observation {
	o := service.Observation{
		Running: s.Status() == lifecycle.StatusRunning && s.Goal == lifecycle.Up,
		Stopped: s.Status() == lifecycle.StatusStopped,
		ByUser:  s.Stop.Code == lifecycle.StopUserInitiated,
		Reason:  s.Stop.Reason,
		Health:  healthOf(s),
	}
	if s.Queued() {
		o.Queue = s.Sandbox.Queue
	}
	for _, t := range s.History {
		if t.Container == "" && t.Status == lifecycle.StatusRunning.String() {
			o.Since = t.At
		}
	}
	return o
}

func healthOf(s lifecycle.State) service.Health {
	if !slices.ContainsFunc(s.Task.Containers, func(c taskdef.Container) bool { return c.Essential && c.HealthCheck != nil }) {
		return service.Unchecked
	}
	return service.Health(s.Health().String())
}
