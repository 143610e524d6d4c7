package loop_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podtask/podtask/internal/engine/decide/driver"
	"github.com/podtask/podtask/internal/engine/decide/loop"
	"github.com/podtask/podtask/pkg/transient"
)

// decision is a counter's.
type decision struct{ outcome driver.Outcome[int] }

func (d decision) Outcome() driver.Outcome[int] { return d.outcome }

// tick is what a counter is sent by its timer.
const tick = 1000

// counter adds up what it is sent. It settles when it is sent 0. A negative number comes
// first after a step was undone, a tick is forgotten, and a negative sum lowers.
type counter struct {
	sum     int
	settled bool
	timer   time.Time
	before  *counter
}

func (c *counter) Step(_ time.Time, batch []int) (decision, error) {
	before := *c
	c.before = &before
	for _, n := range batch {
		c.sum += n
	}
	c.settled = c.settled || slices.Contains(batch, 0)
	o := driver.Outcome[int]{State: c.sum, Record: fmt.Append(nil, c.sum), Timer: c.timer, Settled: c.settled, Lowers: c.sum < 0}
	return decision{o}, nil
}

func (c *counter) Undo(batch []int) []int {
	*c = *c.before
	slices.Sort(batch)
	return slices.DeleteFunc(batch, func(n int) bool { return n == tick })
}

func (c *counter) Unsaved() {}

func (c *counter) Tick(time.Time) []int {
	c.timer = time.Time{}
	return []int{tick}
}

// actor writes down what it is to do.
type actor struct {
	loop   *loop.Loop[int, int, decision]
	did    []string
	errs   []error // of Save, one after the other
	atRest func()  // called before Rest returns
}

func (a *actor) note(format string, args ...any) { a.did = append(a.did, fmt.Sprintf(format, args...)) }

func (a *actor) Save(record []byte) error {
	var err error
	if len(a.errs) > 0 {
		err, a.errs = a.errs[0], a.errs[1:]
	}
	a.note("save %s, shown %d", record, a.loop.State())
	return err
}

func (a *actor) Publish(_ context.Context, d decision) {
	a.note("publish %d, shown %d", d.outcome.State, a.loop.State())
}

func (a *actor) Act(_ context.Context, d decision) {
	a.note("act on %d, shown %d", d.outcome.State, a.loop.State())
}

func (a *actor) Rest(_ decision, arrived []int) ([]int, driver.End) {
	if a.atRest != nil {
		a.atRest()
		a.atRest = nil
	}
	if len(arrived) > 0 {
		return arrived, driver.Continue
	}
	return nil, driver.Stopped
}

func (a *actor) Finish(_ context.Context, d decision, end driver.End) error {
	a.note("finish with %d", d.outcome.State)
	return nil
}

func newLoop() (*loop.Loop[int, int, decision], *actor) {
	l := loop.New[int, int, decision](0)
	return l, &actor{loop: l}
}

func wantDid(t *testing.T, a *actor, want ...string) {
	t.Helper()
	if !slices.Equal(a.did, want) {
		t.Errorf("it did %q, want %q", a.did, want)
	}
}

func TestItSavesThenShowsThenActsThenPublishes(t *testing.T) {
	t.Parallel()
	l, a := newLoop()
	for n := range 3 {
		if !l.Send(t.Context(), n+1) { // one save serves all of them and the first batch
			t.Fatal("it takes nothing")
		}
	}
	l.Send(t.Context(), 0)
	if err := l.Run(t.Context(), &counter{}, a, 100); err != nil {
		t.Fatal(err)
	}
	wantDid(t, a, "save 106, shown 0", "act on 106, shown 106", "publish 106, shown 106", "finish with 106")
	if l.Send(t.Context(), 1) {
		t.Error("a loop that has ended takes an event")
	}
}

func TestWhatArrivesBeforeTheEndIsStillDone(t *testing.T) {
	t.Parallel()
	l, a := newLoop()
	a.atRest = func() {
		for range 2 {
			l.Send(t.Context(), 0) // after the mailbox was looked into
		}
	}
	if err := l.Run(t.Context(), &counter{}, a, 5, 0); err != nil {
		t.Fatal(err)
	}
	if n := len(a.did); a.did[n-1] != "finish with 5" || n < 7 {
		t.Errorf("it did %q, want a second round before the end", a.did)
	}
}

func TestNothingIsDoneWhileItCannotBeSaved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, a := newLoop()
		full := fmt.Errorf("%w: the disk is full", transient.Err)
		a.errs = []error{full, full}
		began := time.Now()
		var unsaved []bool
		var watch sync.WaitGroup
		watch.Go(func() {
			_ = l.Watch(t.Context(), func(int) bool {
				if n := len(unsaved); n == 0 || unsaved[n-1] != l.Unsaved() {
					unsaved = append(unsaved, l.Unsaved())
				}
				return true
			})
		})
		synctest.Wait()
		if err := l.Run(t.Context(), &counter{}, a, 7, 0); err != nil {
			t.Fatal(err)
		}
		watch.Wait()
		if want := []bool{false, true, false}; !slices.Equal(unsaved, want) {
			t.Errorf("watchers see unsaved states %v, want %v", unsaved, want)
		}
		wantDid(t, a, "save 7, shown 0", "save 1007, shown 0", "save 1007, shown 0", "act on 1007, shown 1007", "publish 1007, shown 1007", "finish with 1007")
		if took := time.Since(began); took < time.Second {
			t.Errorf("three attempts took %s: there is no pause", took)
		}
	})
}

// What was due and could not be saved is done when it can be, without another event.
func TestATimerThatWasUndoneFiresAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, a := newLoop()
		a.errs = []error{fmt.Errorf("%w: the disk is full", transient.Err)}
		done := make(chan error)
		go func() { done <- l.Run(t.Context(), &counter{}, a, tick) }()
		<-time.After(time.Minute) // of the bubble: every pause is over
		synctest.Wait()
		wantDid(t, a, "save 1000, shown 0", "save 1000, shown 0", "act on 1000, shown 1000", "publish 1000, shown 1000")
		l.Send(t.Context(), 0)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestWhatLowersIsDoneWithoutASave(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, a := newLoop()
		full := fmt.Errorf("%w: the disk is full", transient.Err)
		a.errs = []error{full, full, full}
		began := time.Now()
		var run sync.WaitGroup
		run.Go(func() {
			if err := l.Run(t.Context(), &counter{}, a, 7); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		l.Send(t.Context(), -10) // it is tried at once
		synctest.Wait()
		if took := time.Since(began); took > 0 || l.State() != -3 || !l.Unsaved() {
			t.Errorf("after %s the state is %d, unsaved %t", took, l.State(), l.Unsaved())
		}
		l.Send(t.Context(), 0) // the end waits for a save
		run.Wait()
		wantDid(t, a, "save 7, shown 0",
			"save -3, shown 0", "act on -3, shown -3",
			"save -3, shown -3", "act on -3, shown -3",
			"save 997, shown -3", "act on 997, shown 997", "publish 997, shown 997", "finish with 997")
	})
}

func TestAnErrorThatDoesNotPassEndsIt(t *testing.T) {
	t.Parallel()
	l, a := newLoop()
	broken := errors.New("broken")
	a.errs = []error{broken}
	if err := l.Run(t.Context(), &counter{}, a, 7); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	wantDid(t, a, "save 7, shown 0")
}

func TestTheTimerAndTheContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, a := newLoop()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began := time.Now()
		if err := l.Run(ctx, &counter{timer: began.Add(time.Minute)}, a, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if got := l.State(); got != 1001 {
			t.Errorf("state %d: the timer fired %d times", got, got/1000)
		}
	})
}

func TestBusyOnlyWhileItWorks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, a := newLoop()
		a.atRest = func() {
			<-time.After(time.Minute)
			if got := l.Busy(time.Now()); got != time.Minute {
				t.Errorf("busy for %s", got)
			}
		}
		go func() { _ = l.Run(t.Context(), &counter{}, a, 1, 0) }()
		<-time.After(time.Hour)
		if got := l.Busy(time.Now()); got != 0 {
			t.Errorf("busy for %s after the end", got)
		}
	})
}

func TestAFullMailboxBlocksUntilThereIsRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, a := newLoop()
		for l.Send(expired(t), 1) {
		}
		go func() { _ = l.Run(t.Context(), &counter{}, a) }()
		if !l.Send(t.Context(), 0) {
			t.Error("an event is lost")
		}
		var last int
		if err := l.Watch(t.Context(), func(sum int) bool { last = sum; return true }); err != nil {
			t.Error(err)
		}
		if last != 64 {
			t.Errorf("the last state that watchers see is %d", last)
		}
	})
}

// expired is a context with which a full mailbox is not waited for.
func expired(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func TestJobs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var jobs loop.Jobs[string]
		var ended []string
		start := func(key, name string) {
			jobs.Start(t.Context(), key, func(ctx context.Context) {
				<-ctx.Done()
				ended = append(ended, name)
			})
			synctest.Wait()
		}
		start("a", "first")
		start("b", "second")
		start("a", "third") // takes the place of the first
		jobs.Cancel("a")
		synctest.Wait()
		jobs.Cancel("a")
		jobs.Cancel("none")
		jobs.Cancel("b")
		jobs.Wait()
		if want := []string{"first", "third", "second"}; !slices.Equal(ended, want) {
			t.Errorf("ended %v, want %v", ended, want)
		}
	})
}
