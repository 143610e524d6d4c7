//go:build nightly

package sim

import (
	"testing"
	"time"

	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// nightStates bounds a case of the nightly run: about 3 GB of memory.
const nightStates = 6_000_000

// TestModelNightly explores what is too large for every day: three containers, a
// removal that fails at every step, and restarts with several things going wrong.
func TestModelNightly(t *testing.T) {
	one := task(container("a", true))
	again := task(restarting(container("a", true)))
	chain := task(
		restarting(container("a", false)),
		checked(container("b", true, on(0, taskdef.Start))),
		container("c", true, on(0, taskdef.Success), on(1, taskdef.Healthy)))
	chain.Containers[0].Restart = &taskdef.RestartPolicy{IgnoredExitCodes: []int{0}, AttemptPeriod: time.Minute, BackOff: time.Second, MaxCount: 1}
	plain := task(container("a", true), container("b", true, on(0, taskdef.Start)), container("c", true, on(1, taskdef.Start)))
	for _, c := range []modelCase{
		{name: "three in a chain", task: plain, Budget: Budget{Faults: 1, Exits: 1, Requests: 1}},
		{name: "three in a chain, crashes", task: plain, Budget: Budget{Crashes: 1, Exits: 1, Faults: 1}},
		{name: "three with SUCCESS, HEALTHY and a restart", task: chain, Budget: Budget{Faults: 1, Exits: 3}},
		{name: "one, removed against resistance", task: one, Budget: Budget{Faults: 17, Requests: 1}},
		{name: "one that restarts, many faults", task: again, Budget: Budget{Faults: 2, Crashes: 1, Exits: 2, Lates: 1, Requests: 1, Meddles: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, err := New(c.task, lifecycle.Options{}, c.Budget)
			if err != nil {
				t.Fatal(err)
			}
			r, err := w.Explore(nightStates)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d states, %d moves", r.States, r.Moves)
		})
	}
}
