package forward

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// Of any 100 connections in a row, each of two sets gets its weight, up to one more or less,
// also while copies come and go.
func TestSharesOfAnyHundred(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		green := rapid.IntRange(0, 1000).Draw(t, "green") // in tenths of a percent
		sizes := rapid.SliceOfN(rapid.IntRange(1, 4), 1, 8).Draw(t, "sizes")
		var sets []*share
		var got []bool // the connection is green
		for _, size := range sizes {
			var targets []Target
			for i := range size {
				targets = append(targets, Target{ID: fmt.Sprint(i)})
			}
			sets, _ = reroute(sets, []Set{{"blue", 1000 - green, targets}, {"green", green, targets}})
			for range rapid.IntRange(1, 150).Draw(t, "connections") {
				got = append(got, choose(sets, "").ID == "green")
			}
		}
		for from := range max(0, len(got)-99) {
			n := 0
			for _, is := range got[from : from+100] {
				if is {
					n++
				}
			}
			if d := n*10 - green; d < -10 || d > 10 {
				t.Fatalf("of the connections from %d on %d are green, want %.1f", from, n, float64(green)/10)
			}
		}
	})
}

// More than two sets share over the whole round exactly.
func TestSharesOfARound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.IntRange(0, 20), 1, 5).Draw(t, "weights")
		var sets []Set
		sum := 0
		for i, w := range weights {
			sets = append(sets, Set{ID: fmt.Sprint(i), Weight: w, Targets: []Target{{ID: "t"}}})
			sum += w
		}
		shares, _ := reroute(nil, sets)
		got := make(map[string]int)
		for range sum {
			got[choose(shares, "").ID]++
		}
		for _, s := range sets {
			if got[s.ID] != s.Weight {
				t.Errorf("set %s got %d of %d, want %d", s.ID, got[s.ID], sum, s.Weight)
			}
		}
	})
}

func TestReroute(t *testing.T) {
	t.Parallel()
	one, two := []Target{{ID: "1"}}, []Target{{ID: "2"}}
	first, changed := reroute(nil, []Set{{"b", 3, one}, {"g", 1, two}})
	if !changed {
		t.Error("new sets are no change")
	}
	choose(first, "")
	if _, changed := reroute(first, []Set{{"b", 3, one}, {"g", 1, two}}); changed {
		t.Error("the same sets are a change")
	}
	if next, changed := reroute(first, []Set{{"b", 3, two}, {"g", 1, two}}); !changed || next[0].credit != first[0].credit {
		t.Errorf("other targets: %v, credit %d, want %d", changed, next[0].credit, first[0].credit)
	}
	if next, changed := reroute(first, []Set{{"b", 2, one}, {"g", 2, two}}); !changed || next[0].credit != 0 {
		t.Errorf("other weights: %v, credit %d", changed, next[0].credit)
	}
	if next, changed := reroute(first, []Set{{"b", 3, one}}); !changed || next[0].credit != 0 {
		t.Errorf("a set less: %v, credit %d", changed, next[0].credit)
	}
}
