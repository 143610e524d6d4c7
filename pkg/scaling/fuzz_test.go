package scaling

import (
	"encoding/json"
	"testing"
	"time"
)

// FuzzRecord: a record that was edited is refused, or decides within its bounds.
func FuzzRecord(f *testing.F) {
	for _, text := range []string{
		`{"config":{"min":1,"max":4,"policies":[{"name":"a","metric":"cpu","target":1e-300}]},"out":"9999-01-01T00:00:00Z","before":-5}`,
		`{"config":{"min":0,"max":1000,"policies":[{"name":"a","metric":"memory","target":100,"inCooldown":86400000000000}]},"before":9223372036854775807}`,
		`{"config":{"max":1,"actions":[{"name":"a","calendar":["x"],"min":1}]},"activities":[{"number":9223372036854775807}]}`,
	} {
		f.Add([]byte(text), 1e308, 9)
		f.Add([]byte(`{"config":{"min":1,"max":9,"policies":[{"name":"a","metric":"cpu","steps":["..5=-9999%","5..=+9999%"],"minAdjustment":1000}]}}`), 5.0, 9)
		f.Add([]byte(text), 0.0, 1)
	}
	f.Fuzz(func(t *testing.T, text []byte, value float64, copies int) {
		var s State
		if json.Unmarshal(text, &s) != nil || s.Config.Check() != nil || copies < 0 || copies > MaxCopies {
			return
		}
		now, rows := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Rows{}
		facts := Facts{Desired: max(copies, 1)}
		for i := range 60 {
			sample := Sample{At: now.Add(time.Duration(i) * Interval), Copies: copies, Desired: facts.Desired, Values: map[Metric]float64{CPU: value, Memory: value}}
			rows = rows.Observe(s.Config, sample)
			s, _ = s.Mend(sample.At)
			s, facts.Desired, _ = Decide(s, facts, rows, sample, s.Config.Actions)
			if facts.Desired < min(s.Config.Min, copies) || facts.Desired > max(s.Config.Max, copies) {
				t.Fatalf("%d copies of %d to %d", facts.Desired, s.Config.Min, s.Config.Max)
			}
		}
	})
}
