package owner

import (
	"testing"
	"time"

	"github.com/podtask/podtask/internal/engine/act/leftover"
	"github.com/podtask/podtask/pkg/lifecycle"
)

func TestCutOffBefore(t *testing.T) {
	t.Parallel()
	made := time.Date(2026, 11, 1, 10, 0, 0, 0, time.UTC)
	at := func(d time.Duration) time.Time { return made.Add(d) }
	state := func(change func(*lifecycle.State)) lifecycle.State {
		s := lifecycle.State{CreatedAt: made, Goal: lifecycle.Up, Containers: []lifecycle.Container{{Presence: lifecycle.Running}, {Presence: lifecycle.Created}}}
		s.Sandbox.Dirty = true
		s.History = []lifecycle.Transition{{At: at(time.Second)}, {At: at(10 * time.Minute)}}
		change(&s)
		return s
	}
	for name, c := range map[string]struct {
		change func(*lifecycle.State)
		now    time.Duration
		want   *leftover.Window
	}{
		"a start":                {func(*lifecycle.State) {}, 11 * time.Minute, &leftover.Window{Began: at(6 * time.Minute), Ended: at(11 * time.Minute)}},
		"a start long ago":       {func(*lifecycle.State) {}, 20 * time.Hour, &leftover.Window{Began: at(6 * time.Minute), Ended: at(14 * time.Minute)}},
		"the first minutes":      {func(s *lifecycle.State) { s.History = s.History[:1] }, time.Minute, &leftover.Window{Began: made, Ended: at(time.Minute)}},
		"no sign of life":        {func(s *lifecycle.State) { s.History = nil }, time.Minute, &leftover.Window{Began: made, Ended: at(time.Minute)}},
		"a removal":              {func(s *lifecycle.State) { s.Goal, s.Containers = lifecycle.Gone, nil }, 11 * time.Minute, &leftover.Window{Began: at(6 * time.Minute), Ended: at(11 * time.Minute)}},
		"nothing was made":       {func(s *lifecycle.State) { s.Sandbox.Dirty = false }, 11 * time.Minute, nil},
		"everything runs":        {func(s *lifecycle.State) { s.Containers = s.Containers[:1] }, 11 * time.Minute, nil},
		"everything has ended":   {func(s *lifecycle.State) { s.Containers = []lifecycle.Container{{Ended: true}} }, 11 * time.Minute, nil},
		"a stop, starts nothing": {func(s *lifecycle.State) { s.Goal = lifecycle.Down }, 11 * time.Minute, nil},
	} {
		got, ok := cutOffBefore(state(c.change), at(c.now))
		if ok != (c.want != nil) || ok && got != *c.want {
			t.Errorf("%s: %v, %t; want %v", name, got, ok, c.want)
		}
	}
}
