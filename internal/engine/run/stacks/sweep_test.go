package stacks

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/engine/decide/stack"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/images/imageage"
)

// fixed is a store. Follow calls later when it is followed, and fn after it.
type fixed struct {
	all   []stack.State
	later func()
}

func (f *fixed) All() ([]stack.State, error) {
	return slices.Clone(f.all), errors.New("another record is damaged")
}

func (f *fixed) Follow(ctx context.Context, fn func(bool)) error {
	if f.later != nil {
		f.later()
		fn(true)
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

func (f *fixed) Recount(name string, now imageage.Moment) error {
	for i, s := range f.all {
		if s.Name == name {
			f.all[i].Preview = s.Preview.Ending(s.Preview.Left(now), now)
		}
	}
	return nil
}

func (f *fixed) remove(name string) {
	f.all = slices.DeleteFunc(f.all, func(s stack.State) bool { return s.Name == name })
}

// at is the reading of clocks that are right, in the first run of the host, which has run for an hour at the start.
func at(passed time.Duration) imageage.Moment {
	return imageage.Moment{Wall: start.Add(passed), Boot: "1", Up: time.Hour + passed}
}

var start = time.Unix(1_800_000_000, 0).UTC()

func preview(name string, ttl time.Duration) stack.State {
	return stack.State{Name: name, Preview: stack.Preview{Of: "shop", Name: name}.Ending(ttl, at(0))}
}

// A preview is removed at its end and not before, and again if that failed; other stacks stay.
func TestPreviewsEndByTheClock(t *testing.T) {
	t.Parallel()
	store := &fixed{all: []stack.State{{Name: "shop"}, preview("pr-1", 25*time.Second), preview("pr-2", time.Minute)}}
	var passed time.Duration
	var waits []time.Duration
	var removed []string
	ctx, cancel := context.WithCancel(t.Context())
	w := Sweeper{Store: store, Now: func() imageage.Moment { return at(passed) }, Log: slog.New(slog.DiscardHandler)}
	w.Remove = func(_ context.Context, name string) error {
		removed = append(removed, name)
		if len(removed) == 1 {
			return errors.New("Podman does not answer")
		}
		if store.remove(name); name == "pr-2" {
			cancel()
		}
		return nil
	}
	w.After = func(d time.Duration) <-chan time.Time {
		waits = append(waits, d)
		passed += d
		c := make(chan time.Time, 1)
		c <- start
		return c
	}
	if err := w.Run(ctx); err != nil {
		t.Error(err)
	}
	if !slices.Equal(removed, []string{"pr-1", "pr-1", "pr-2"}) {
		t.Errorf("removed: %v", removed)
	}
	if want := []time.Duration{25 * time.Second, tryAgain, 15 * time.Second}; !slices.Equal(waits, want) {
		t.Errorf("it waited %v, not %v", waits, want)
	}
}

// Without a preview no timer is set; one that is made later gets the time until its end.
func TestNoTimerWithoutPreviews(t *testing.T) {
	t.Parallel()
	store := &fixed{all: []stack.State{{Name: "shop"}}}
	ctx, cancel := context.WithCancel(t.Context())
	w := Sweeper{Store: store, Now: func() imageage.Moment { return at(0) }, Log: slog.New(slog.DiscardHandler)}
	var waits []time.Duration
	w.After = func(d time.Duration) <-chan time.Time {
		waits = append(waits, d)
		cancel()
		return nil
	}
	looked := make(chan struct{})
	w.Store = lookedAt{store, looked}
	store.later = func() {
		<-looked // the first look found none
		store.all = append(store.all, preview("pr-1", time.Minute))
	}
	if err := w.Run(ctx); err != nil {
		t.Error(err)
	}
	if !slices.Equal(waits, []time.Duration{time.Minute}) {
		t.Errorf("it waited %v", waits)
	}
}

// lookedAt is a store that sends when All has been called for the first time.
type lookedAt struct {
	*fixed
	looked chan struct{}
}

func (l lookedAt) All() ([]stack.State, error) {
	all, err := l.fixed.All()
	select {
	case <-l.looked:
	default:
		close(l.looked)
	}
	return all, err
}

const day, year = 24 * time.Hour, 365 * 24 * time.Hour

// machine is a host with a clock: at passed, which is the time since the start, what happens to it.
type machine struct {
	passed  time.Duration
	changes []event
}

// event sets the clock, by the difference to the right time, and starts the host again if off is not 0, which is how long it was off.
type event struct {
	at, clock, off time.Duration
}

// moment reads the clocks of the host.
func (m machine) moment() imageage.Moment {
	now, boot := at(m.passed), 1
	for _, c := range m.changes {
		if c.at > m.passed {
			break
		}
		now.Wall = start.Add(m.passed + c.clock)
		if c.off > 0 {
			boot++
			now.Boot, now.Up = strconv.Itoa(boot), m.passed-c.at
		}
	}
	return now
}

// live lets an agent run on the host until the time has come, or no preview is left. It starts again with the host, and returns when
// the first preview was removed; 0 if none was.
func (m *machine) live(t *testing.T, store *fixed, until time.Duration) (removed time.Duration) {
	t.Helper()
	for _, e := range append(slices.Clone(m.changes), event{at: until}) {
		end := e.at - e.off
		if e.off == 0 && e.at != until {
			continue
		}
		ctx, cancel := context.WithCancel(t.Context())
		w := Sweeper{Store: store, Now: func() imageage.Moment { return m.moment() }, Log: slog.New(slog.DiscardHandler)}
		w.Remove = func(_ context.Context, name string) error {
			store.remove(name)
			removed = m.passed
			cancel()
			return nil
		}
		w.After = func(d time.Duration) <-chan time.Time {
			if m.passed+d > end {
				cancel()
				return nil
			}
			m.passed += d
			c := make(chan time.Time, 1)
			c <- start
			return c
		}
		if err := w.Run(ctx); err != nil {
			t.Error(err)
		}
		cancel()
		if removed > 0 {
			break
		}
		m.passed = e.at
	}
	return removed
}

// A preview of a day ends a day after it was made: no clock that is set ends it, or keeps it. Over a restart of the host its clock
// counts, once it has had ten minutes to be set, and if it can be right. At most the time in which the host is off is not counted.
func TestNoClockEndsAPreview(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		changes  []event
		from, to time.Duration // when it is removed
	}{
		"right":                        {nil, day, day},
		"ahead when it is made":        {[]event{{0, 20 * year, 0}, {time.Minute, 0, 0}}, day, day},
		"behind when it is made":       {[]event{{0, -56 * year, 0}, {time.Hour, 0, 0}}, day, day},
		"ahead for two hours":          {[]event{{time.Hour, 20 * year, 0}, {3 * time.Hour, 0, 0}}, day, day},
		"ahead for good":               {[]event{{time.Hour, 20 * year, 0}}, day, day},
		"behind for good":              {[]event{{time.Hour, -20 * year, 0}}, day, day},
		"off for two hours":            {[]event{{5 * time.Hour, 0, 2 * time.Hour}}, day, day},
		"off for two days":             {[]event{{60 * time.Hour, 0, 2 * day}}, 60*time.Hour + grace, 60*time.Hour + grace},
		"ahead for nine minutes, boot": {[]event{{5 * time.Hour, 2 * day, time.Hour}, {5*time.Hour + 9*time.Minute, 0, 0}}, day, day},
		"years ahead from a boot on":   {[]event{{5 * time.Hour, 20 * year, time.Hour}}, day, day + 2*time.Hour},
		"years behind from a boot on":  {[]event{{5 * time.Hour, -56 * year, time.Hour}}, day, day + 2*time.Hour},
		"behind until after the boot":  {[]event{{5 * time.Hour, -56 * year, time.Hour}, {8 * time.Hour, 0, 0}, {10 * time.Hour, 0, time.Hour}}, day, day + 3*time.Hour},
		"ahead, made so, and a boot":   {[]event{{0, 20 * year, 0}, {time.Minute, 0, 0}, {5 * time.Hour, 0, time.Hour}}, day, day + 2*time.Hour},
	} {
		m := machine{changes: tt.changes}
		store := &fixed{all: []stack.State{{Name: "pr-1", Preview: stack.Preview{Of: "shop", Name: "pr-1"}.Ending(day, m.moment())}}}
		if got := m.live(t, store, 10*day); got < tt.from || got > tt.to {
			t.Errorf("%s: it is removed after %v", name, got)
		}
	}
}

// A host whose clock begins anew at each start, and which is started again and again, removes a preview when it was there for long enough.
func TestAHostWithoutAClockRemovesPreviews(t *testing.T) {
	t.Parallel()
	var m machine
	for i := time.Duration(1); i < 20; i++ {
		m.changes = append(m.changes, event{i * 8 * time.Hour, -56*year - i*8*time.Hour, time.Hour})
	}
	store := &fixed{all: []stack.State{preview("pr-1", day)}}
	if got := m.live(t, store, 10*day); got < day || got > 2*day {
		t.Errorf("it is removed after %v", got)
	}
}

// What is written down of the end of a preview is what it has left by the clock of now, unless another process changes the stack.
func TestTheEndOfAPreviewIsCountedAgain(t *testing.T) {
	t.Parallel()
	store, err := Open(t.TempDir(), state.OS{})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Put(preview("pr-1", day)); err != nil {
		t.Fatal(err)
	}
	later := at(time.Hour)
	later.Wall = later.Wall.Add(-20 * year)
	lock, err := store.Lock("pr-1")
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Recount("pr-1", later); !errors.Is(err, state.ErrLocked) {
		t.Errorf("while another process changes it: %v", err)
	}
	if err := errors.Join(lock.Unlock(), store.Recount("pr-1", later)); err != nil {
		t.Fatal(err)
	}
	s, err := store.Get("pr-1")
	if err != nil || !s.Preview.Until.Equal(later.Wall.Add(23*time.Hour)) || s.Preview.Left(later) != 23*time.Hour {
		t.Errorf("%+v, %v", s.Preview, err)
	}

	// A record of an earlier version says when it ends and no more.
	old := preview("pr-2", day)
	old.Preview.At = imageage.Moment{}
	now := at(time.Hour)
	if err := errors.Join(store.Put(old), store.Recount("pr-2", now)); err != nil {
		t.Fatal(err)
	}
	if s, err := store.Get("pr-2"); err != nil || s.Preview.Left(now) != 23*time.Hour || s.Preview.At.Boot != now.Boot {
		t.Errorf("%+v, %v", s.Preview, err)
	}
}
