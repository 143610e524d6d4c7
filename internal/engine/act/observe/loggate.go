package observe

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/podtask/podtask/pkg/taskdef"
)

const (
	// settle is the time after the last old line after which lines are passed on as they come.
	settle = 200 * time.Millisecond
	// mostHeld limits the lines that are held.
	mostHeld = 50_000
)

// gate puts the lines that several containers have written before a reading began in the order of their times. They come
// container by container, so all lines are held until no such line has come for a moment.
type gate struct {
	begun  time.Time
	stamps bool // lines keep their times
	// containers are in the order of lines of one second whose parts are not known.
	containers []taskdef.Container
	pass       func(LogLine) error
	fail       func(error)
	timer      *time.Timer

	mu   sync.Mutex // guards the rest, and makes calls of pass one after another
	held []LogLine
	open bool
}

// newGate begins to hold lines of containers; fail gets an error of pass.
func newGate(containers []taskdef.Container, stamps bool, pass func(LogLine) error, fail func(error)) *gate {
	g := &gate{begun: time.Now(), containers: containers, stamps: stamps, pass: pass, fail: fail}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.timer = time.AfterFunc(settle, g.release)
	return g
}

// line takes the next line of a container.
func (g *gate) line(l LogLine) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open {
		return g.send(l)
	}
	g.held = append(g.held, l)
	switch {
	case len(g.held) >= mostHeld:
		return g.sendHeld()
	case l.Time.Before(g.begun):
		g.timer.Reset(settle)
	}
	return nil
}

// release passes on what is held, and all lines from then on.
func (g *gate) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.timer.Stop()
	if err := g.sendHeld(); err != nil {
		g.fail(err)
	}
}

func (g *gate) sendHeld() error {
	held := g.held
	g.open, g.held = true, nil
	slices.SortStableFunc(held, func(a, b LogLine) int {
		return cmp.Or(a.Time.Truncate(time.Second).Compare(b.Time.Truncate(time.Second)), cmp.Compare(g.place(a), g.place(b)))
	})
	for from := 0; from < len(held); { // within a second, those of a driver that counts parts of it
		to := from + 1
		for to < len(held) && held[to].Time.Truncate(time.Second).Equal(held[from].Time.Truncate(time.Second)) {
			to++
		}
		if second := held[from:to]; !slices.ContainsFunc(second, wholeSecond) {
			slices.SortStableFunc(second, func(a, b LogLine) int { return a.Time.Compare(b.Time) })
		}
		from = to
	}
	for _, l := range held {
		if err := g.send(l); err != nil {
			return err
		}
	}
	return nil
}

// place returns the place of the container of a line in the definition.
func (g *gate) place(l LogLine) int {
	return slices.IndexFunc(g.containers, func(c taskdef.Container) bool { return c.Name == l.Container })
}

func (g *gate) send(l LogLine) error {
	if !g.stamps {
		l.Time = time.Time{}
	}
	return g.pass(l)
}

// wholeSecond reports whether the time of a line has no part of a second, as those of the journal.
func wholeSecond(l LogLine) bool { return l.Time.Nanosecond() == 0 }

// earlier reports whether a line comes before another one. Where one of them has no part of a second, seconds decide.
func earlier(a, b LogLine) bool {
	if wholeSecond(a) || wholeSecond(b) {
		return a.Time.Truncate(time.Second).Before(b.Time.Truncate(time.Second))
	}
	return a.Time.Before(b.Time)
}
