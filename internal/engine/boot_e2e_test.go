//go:build e2e

//e2e:bed systemd

package engine

import (
	"context"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/podtask/podtask/internal/testing/faults"
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
		shared     bool
		containers []container
		fails      string // where the network begins
	}{
		{"of a pod", true, []container{app(), maps.Clone(other)}, "-infra/start$"},
		{"of a container", false, []container{app(), maps.Clone(other)}, "-app/(init|start)$"},
		{"of a container that is alone", false, []container{app()}, "-app/(init|start)$"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, faults.Start(t, bed.service.Socket()))
			createJoined(w, tt.shared, "boot", tt.containers...)
			waitForNetwork(w, tt.fails, 5)
		})
	}
}

func waitForNetwork(w *world, fails string, times int) {
	t := w.t
	t.Helper()
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
