package watch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/notice"
	"github.com/podtask/podtask/internal/notice/settings"
	"github.com/podtask/podtask/internal/state"
)

// Watcher tells people. All fields but Looks and Kill are required.
type Watcher struct {
	Log    *slog.Logger
	Rules  []settings.Rule
	Store  *Store
	Events Events
	// About returns the subject of an event.
	About func(record.Event) notice.About
	// Looks returns the conditions that are no events; nil: none is looked at.
	Looks func(context.Context) []notice.Look
	// Send sends a message once. The error may be a *deliver.Error.
	Send func(context.Context, settings.Rule, notice.Message) error
	// Failure returns the meaning of an error of Send.
	Failure func(error) notice.Failure
	Now     func() time.Time
	// Spread is random, from 0 to 1.
	Spread func() float64
	// Kill, for tests, is called at the places where a kill of the process matters.
	Kill func(place string)

	unsaved bool // the state is not in the record
}

// Events is the event log.
type Events interface {
	ReadAll(ctx context.Context, after uint64, follow bool, fn func(record.Event) error) error
	Last(context.Context) uint64
}

const (
	// lookEvery is the time between two looks at conditions that are no events.
	lookEvery = time.Minute
	// batch is the limit of events of one step.
	batch = 256
	// lateTime is the age up to which Drain tells an event without a record, as on a host without an agent.
	lateTime = 5 * time.Minute
)

// Run tells people until the context ends. It waits while another process does.
func (w *Watcher) Run(ctx context.Context) error {
	lock, err := w.Store.Lock(ctx, true)
	if err != nil {
		return ended(ctx, err)
	}
	defer lock.Unlock()
	s, err := w.begin(ctx, func() uint64 { return w.Events.Last(ctx) })
	if err != nil {
		return err
	}
	events := make(chan record.Event, batch)
	var wg sync.WaitGroup
	defer wg.Wait()
	following, stop := context.WithCancel(ctx)
	defer stop()
	failed, from := make(chan error, 1), s.Cursor
	wg.Go(func() {
		failed <- w.Events.ReadAll(following, from, true, func(e record.Event) error {
			select {
			case events <- e:
				return nil
			case <-following.Done():
				return following.Err()
			}
		})
	})
	timer := time.NewTimer(0)
	defer timer.Stop()
	var looked time.Time
	for {
		if now := w.Now(); w.Looks != nil && (now.Sub(looked) >= lookEvery || now.Before(looked)) {
			looked = now
			s = w.save(s, notice.Observe(settings.Notices(w.Rules), s, now, w.Looks(ctx)))
		}
		s = w.deliver(ctx, s)
		timer.Reset(w.pause(s, looked))
		select {
		case e := <-events:
			s = w.step(s, e, events)
		case <-timer.C:
			s = w.step(s, record.Event{}, events)
		case err := <-failed:
			return ended(ctx, err)
		case <-ctx.Done():
			return nil
		}
	}
}

// ended is nil if the context has ended.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// Drain tells people of the events so far, and returns when nothing can be done now, with an error if a notice waits. It does nothing if another process tells.
func (w *Watcher) Drain(ctx context.Context) error {
	lock, err := w.Store.Lock(ctx, false)
	if errors.Is(err, state.ErrLocked) {
		return nil
	}
	if err != nil {
		return err
	}
	defer lock.Unlock()
	s, err := w.begin(ctx, func() uint64 { return w.recent(ctx) })
	if err != nil {
		return err
	}
	var all []record.Event
	if err := w.Events.ReadAll(ctx, s.Cursor, false, func(e record.Event) error {
		all = append(all, e)
		return nil
	}); err != nil {
		return err
	}
	s = w.save(s, notice.Step(settings.Notices(w.Rules), s, w.Now(), w.read(all)))
	s = w.deliver(ctx, s)
	for _, m := range s.Outbox {
		if text := s.Rules[m.Rule].Error; text != "" {
			return errors.New("notices wait to be delivered to " + m.Rule + ": " + text)
		}
	}
	for rule, r := range s.Rules {
		if r.Held > 0 {
			return fmt.Errorf("%d notices of %s are held back, because many came in a short time", r.Held, rule)
		}
	}
	return nil
}

// begin returns the recorded state. Without one nothing is told of what happened before the event first.
func (w *Watcher) begin(_ context.Context, first func() uint64) (notice.State, error) {
	s, found, err := w.Store.Get()
	if err != nil {
		w.Log.Error("notices begin anew", "error", err)
	}
	if !found {
		s = notice.State{Cursor: first()}
		return s, w.Store.Put(s)
	}
	return s, nil
}

// recent is the number of the last event that is not recent.
func (w *Watcher) recent(ctx context.Context) (seq uint64) {
	since := w.Now().Add(-lateTime)
	_ = w.Events.ReadAll(ctx, 0, false, func(e record.Event) error { // on an error more is told
		if e.At.Before(since) {
			seq = e.Seq
		}
		return nil
	})
	return seq
}

// step takes in an event and those that follow at once.
func (w *Watcher) step(s notice.State, first record.Event, more <-chan record.Event) notice.State {
	var all []record.Event
	if first.Seq > 0 {
		all = append(all, first)
	}
	for len(all) < batch {
		select {
		case e := <-more:
			all = append(all, e)
			continue
		default:
		}
		break
	}
	return w.save(s, notice.Step(settings.Notices(w.Rules), s, w.Now(), w.read(all)))
}

func (w *Watcher) read(all []record.Event) (events []notice.Event) {
	for _, e := range all {
		events = append(events, notice.Event{Seq: e.Seq, At: e.At, About: w.About(e), Status: statusOf(e), Reason: reasonOf(e), ExitCode: e.ExitCode})
	}
	return events
}

// lazily is the number of events without a meaning after which the cursor is saved: they may be read again.
const lazily = 1000

// save saves the next state if it differs from the one before. Nothing is sent while that fails.
func (w *Watcher) save(before, next notice.State) notice.State {
	same := next
	same.Cursor = before.Cursor
	if !w.unsaved && sameState(same, before) && next.Cursor < before.Cursor+lazily && next.Cursor/lazily == before.Cursor/lazily {
		return next
	}
	if err := w.Store.Put(next); err != nil {
		w.Log.Error("notices wait until their record can be saved", "error", err)
		w.unsaved = true
		return next
	}
	w.unsaved = false
	return next
}

func sameState(a, b notice.State) bool {
	return len(a.Open) == len(b.Open) && len(a.Outbox) == len(b.Outbox) && len(a.Log) == len(b.Log) &&
		(len(a.Open) == 0 || reflect.DeepEqual(a.Open, b.Open)) && (len(a.Rules) == 0 && len(b.Rules) == 0 || reflect.DeepEqual(a.Rules, b.Rules)) &&
		(len(a.Restarts) == 0 && len(b.Restarts) == 0 || reflect.DeepEqual(a.Restarts, b.Restarts))
}

// deliver sends what is due, for all rules at the same time, until nothing is due any more.
func (w *Watcher) deliver(ctx context.Context, s notice.State) notice.State {
	for ctx.Err() == nil && !w.unsaved {
		due := notice.Due(s, w.Now())
		if len(due) == 0 {
			return s
		}
		w.kill("saved")
		errs := make([]error, len(due))
		var wg sync.WaitGroup
		for i, m := range due {
			wg.Go(func() { errs[i] = w.send(ctx, m) })
		}
		wg.Wait()
		if ctx.Err() != nil {
			return s // what was interrupted is no failure
		}
		w.kill("sent")
		next := s
		for i, m := range due {
			switch err := errs[i]; {
			case err == nil:
				next = notice.Delivered(next, m.ID, w.Now())
			default:
				w.Log.Warn("a notice is not delivered", "rule", m.Rule, "id", m.ID, "error", err)
				next = notice.NotDelivered(next, m.ID, w.Now(), w.Failure(err), w.Spread())
			}
		}
		w.unsaved = true
		s = w.save(s, next)
	}
	return s
}

// send sends a message of a rule, if the configuration still has the rule.
func (w *Watcher) send(ctx context.Context, m notice.Message) error {
	for _, r := range w.Rules {
		if r.Name == m.Rule {
			return w.Send(ctx, r, m)
		}
	}
	return errGone
}

var errGone = errors.New("the configuration has no [[notify]] of this name any more")

func (w *Watcher) kill(place string) {
	if w.Kill != nil {
		w.Kill(place)
	}
}

// unsavedPause is between two attempts to save.
const unsavedPause = 5 * time.Second

// pause is the longest wait for an event.
func (w *Watcher) pause(s notice.State, looked time.Time) time.Duration {
	next := notice.Next(s)
	if look := looked.Add(lookEvery); w.Looks != nil && (next.IsZero() || look.Before(next)) {
		next = look
	}
	switch {
	case w.unsaved:
		return unsavedPause
	case next.IsZero():
		return time.Hour
	}
	return max(next.Sub(w.Now()), 50*time.Millisecond)
}
