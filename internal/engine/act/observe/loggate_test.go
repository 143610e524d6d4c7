package observe

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podtask/podtask/pkg/taskdef"
)

// What containers have written before comes in the order of its times, although they send it one after the other; then
// lines come as they are written.
func TestOldLinesOfSeveralContainersComeInTheOrderOfTheirTimes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		got := ""
		g := newGate(nil, false, func(l LogLine) error {
			if !l.Time.IsZero() {
				t.Error("a line has a time that was not asked for")
			}
			got += l.Text
			return nil
		}, func(err error) { t.Error(err) })
		now := time.Now()
		send := func(text string, at time.Time) {
			t.Helper()
			if err := g.line(LogLine{Text: text, Time: at}); err != nil {
				t.Error(err)
			}
		}
		send("a", now.Add(-4*time.Second+time.Millisecond))
		send("d", now.Add(-time.Second+time.Millisecond))
		send("e", now.Add(time.Second)) // new
		send("b", now.Add(-3*time.Second+2*time.Millisecond))
		send("c", now.Add(-3*time.Second+3*time.Millisecond))
		g.mu.Lock() // as pass is called
		early := got
		g.mu.Unlock()
		if early != "" {
			t.Errorf("%q came before the rest", early)
		}
		<-time.After(settle) // of the bubble's clock
		synctest.Wait()
		send("f", now)
		if g.release(); got != "abcdef" {
			t.Errorf("the lines came as %q", got)
		}
	})
}

// Lines of a second of which the journal keeps no parts are in the order of the definition.
func TestOldLinesOfOneSecondAreInTheOrderOfTheDefinition(t *testing.T) {
	t.Parallel()
	got, at := "", time.Unix(1_800_000_000, 0)
	g := newGate([]taskdef.Container{{Name: "db"}, {Name: "web"}}, true, func(l LogLine) error { got += l.Text; return nil }, func(error) {})
	for _, l := range []LogLine{{Container: "web", Text: "c", Time: at}, {Container: "web", Text: "d", Time: at}, {Container: "db", Text: "a", Time: at.Add(2)}, {Container: "db", Text: "b", Time: at}} {
		if err := g.line(l); err != nil {
			t.Error(err)
		}
	}
	if g.release(); got != "abcd" {
		t.Errorf("the lines came as %q", got)
	}
}

// The journal has whole seconds: such a line is not before one of the same second that has parts of it.
func TestLinesOfOneSecond(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_800_000_000, 0)
	db, migrate := LogLine{Time: at.Add(time.Millisecond)}, LogLine{Time: at}
	if earlier(migrate, db) || earlier(db, migrate) || !earlier(db, LogLine{Time: at.Add(time.Second)}) || !earlier(db, LogLine{Time: at.Add(2 * time.Millisecond)}) {
		t.Error("lines of one second are put in an order that nobody knows")
	}
}

func TestAReaderThatGivesUpGetsNoMoreLines(t *testing.T) {
	t.Parallel()
	enough, n, failed := errors.New("enough"), 0, error(nil)
	g := newGate(nil, true, func(LogLine) error { n++; return enough }, func(err error) { failed = err })
	for range 3 {
		if err := g.line(LogLine{}); err != nil {
			t.Error(err)
		}
	}
	if g.release(); n != 1 || !errors.Is(failed, enough) {
		t.Errorf("%d lines, %v", n, failed)
	}
}
