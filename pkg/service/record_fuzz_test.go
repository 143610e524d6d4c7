package service

import (
	"encoding/json"
	"testing"
	"time"
)

// FuzzRecord: a record that was edited is refused, or steps and explains itself as another one does.
func FuzzRecord(f *testing.F) {
	w := newWorld(2, drowsy, spec(1))
	text, err := json.Marshal(w.state)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Fuzz(func(t *testing.T, text []byte) {
		var s State
		if json.Unmarshal(text, &s) != nil || Check(s) != nil || s.DesiredCount > 100 {
			return
		}
		at := w.now
		for _, in := range []Input{TimerFired{}, Used{Busy: true}, ClockChanged{By: -time.Hour}, TimerFired{}} {
			at = at.Add(time.Hour)
			s, _ = Step(s, at, in)
			s.Explain(at)
		}
	})
}
