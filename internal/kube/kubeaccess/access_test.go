package kubeaccess

import (
	"testing"
	"time"

	"github.com/podtask/podtask/internal/kube/kubeserve"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// TestARunBeginsWithTheEndOfTheOneBefore: on a busy host a container has written lines before Podman
// notes its start, in an earlier second.
func TestARunBeginsWithTheEndOfTheOneBefore(t *testing.T) {
	t.Parallel()
	at := func(seconds float64) time.Time {
		return time.Unix(1000, 0).Add(time.Duration(seconds * float64(time.Second)))
	}
	run := func(from, to float64) lifecycle.Run { return lifecycle.Run{StartedAt: at(from), FinishedAt: at(to)} }
	running := func(start float64, runs ...lifecycle.Run) lifecycle.Container {
		return lifecycle.Container{StartedAt: at(start), Runs: runs}
	}
	waiting := running(20, run(10, 11))
	waiting.FinishedAt, waiting.RestartAt = at(21), at(30)
	for what, c := range map[string]struct {
		container   lifecycle.Container
		previous    bool
		from, until time.Time
	}{
		"the first run":                           {container: running(10.01)},
		"the second run":                          {container: running(20, run(10, 11.5)), from: at(11.5)},
		"the first run after another one":         {container: running(20, run(10, 11.5)), previous: true, until: at(11.5)},
		"the second run after another one":        {container: running(20, run(10, 11), run(12, 13)), previous: true, from: at(11), until: at(13)},
		"a run whose start was noted at its end":  {container: running(20, run(11, 11)), previous: true, until: at(20).Add(-time.Nanosecond)},
		"a run that is to be followed by another": {container: waiting, previous: true, from: at(11), until: at(22)},
	} {
		from, until, err := period(c.container, kubeserve.LogQuery{Previous: c.previous})
		if err != nil || !from.Equal(c.from) || !until.Equal(c.until) {
			t.Errorf("%s: from %v until %v, %v", what, from, until, err)
		}
	}
}
