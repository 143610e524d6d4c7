//go:build e2e

package agent

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/podtask/podtask/internal/faults"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/test/testbed"
)

// TestNetworkOfTheHostComesLater lets Podman fail as it does early at boot, when no
// interface has an address yet: the task waits, says what for, and runs in the end.
func TestNetworkOfTheHostComesLater(t *testing.T) {
	needBed(t)
	t.Parallel()
	app := func() container { return container{"name": "app", "command": "exit 3"} }
	other := container{"name": "other", "command": "sleep forever", "stopTimeout": 1}
	for _, tt := range []struct {
		name       string
		containers []container
		fails      string // where the network begins
		times      int
	}{
		{"of a pod", []container{app()}, "-infra/start$", 5},
		{"of a container", []container{app(), other}, "-app/(init|start)$", 5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if len(tt.containers) > 1 {
				testbed.NeedBridge(t)
			}
			waitForNetwork(t, tt.fails, tt.times, tt.containers)
		})
	}
}

func waitForNetwork(t *testing.T, fails string, times int, containers []container) {
	w := newWorld(t, faults.Start(t, bed.service.Socket()))
	w.create("boot", containers...)
	const cause = "pasta failed with exit code 1: External interface not usable"
	boot := w.proxy.Fault(faults.Match{Method: "POST", Path: fails, Times: times}, faults.Status(500, cause, cause))
	o := w.own()
	var why []lifecycle.Reason
	var wg sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), testbed.Patience)
	wg.Go(func() {
		_ = o.Watch(ctx, func(s lifecycle.State) bool {
			why = append(why, s.Explain()...)
			return true
		})
	})
	s := w.run(o)
	cancel()
	wg.Wait()
	if got := codes(s); s.Status() != lifecycle.StatusStopped || !strings.HasPrefix(got, "app=3") || boot.Hits() != times {
		t.Errorf("%s: %s after %d failures", s.Status(), got, boot.Hits())
	}
	told := false
	for _, r := range why {
		told = told || r.Code == lifecycle.WhyRetry && strings.Contains(r.Text, "External interface not usable")
	}
	if !told {
		t.Errorf("why never told: %+v", why)
	}
}
