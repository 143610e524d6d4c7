package schedule

import (
	"encoding/json"
	"testing"
	"time"
)

// FuzzRecord: a record that was edited is refused, or decides as another one does: its list of runs stays bounded.
func FuzzRecord(f *testing.F) {
	for _, text := range []string{
		`{"id":"0123456789abcdef0123456789abcdef","name":"x","calendar":["daily"],"overlap":"forbid","decided":"9999-01-01T00:00:00Z"}`,
		`{"id":"0123456789abcdef0123456789abcdef","name":"x","calendar":["daily"],"overlap":"replace","catchUp":true,"within":-5,"runs":[{},{"due":"2026-03-01T00:00:00Z","status":"nonsense","missed":-9}]}`,
	} {
		f.Add([]byte(text))
	}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text []byte) {
		var s State
		if json.Unmarshal(text, &s) != nil || Check(s) != nil {
			return
		}
		at := s
		for i := range 5 {
			at, _ = Decide(at, now.Add(time.Duration(i)*time.Hour), Due{Latest: now, Count: i}, i%2 == 0)
		}
		if len(at.Runs) > max(maxRuns, len(s.Runs)) {
			t.Errorf("%d runs became %d", len(s.Runs), len(at.Runs))
		}
	})
}
