package stack

import (
	"encoding/json"
	"testing"
	"time"
)

// FuzzRecord: a record that was edited is refused, or its change ends, whether its steps succeed or fail.
func FuzzRecord(f *testing.F) {
	m := service("web", "w1")
	for _, s := range []State{
		Start(State{Name: "shop"}, Change{Target: Revision{Members: before}}),
		Start(State{Name: "shop", Have: map[string]Had{"x": {Object: "y", Kind: Job, Run: -1}}}, Change{Remove: true, Volumes: true}),
		{Name: "shop", Change: &Change{Way: "sideways", Target: Revision{Members: []Member{m}}}},
		{Name: "shop", Current: Revision{Number: -5, Members: []Member{m}}, Change: &Change{Way: Back, Touched: map[string]Condition{"web": "x", "gone": Healthy}, Stuck: map[string]string{"": "x"}}},
		{Name: "shop", Change: &Change{Way: Forward, SkipJobs: true, Target: Revision{Members: []Member{job("m", "1")}}}},
	} {
		text, err := json.Marshal(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, uint(0))
		f.Add(text, uint(1))
		f.Add(text, uint(3))
	}
	f.Fuzz(func(t *testing.T, text []byte, fails uint) {
		var s State
		if json.Unmarshal(text, &s) != nil || Check(s) != nil || s.Change == nil {
			return
		}
		s = Resume(s)
		for i := uint(1); s.Change != nil; i++ {
			step := Next(s)
			if step.Verb == Stop {
				return
			}
			if i > 10_000 {
				t.Fatalf("it does not end: %+v", step)
			}
			s, step = Begin(s, step)
			o := Outcome{}
			if fails > 0 && i%fails == 0 {
				o.Failed = "it fails"
			}
			s = End(s, step, o, time.Unix(0, 0))
		}
	})
}
