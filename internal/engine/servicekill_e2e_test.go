//go:build e2e

//e2e:bed systemd

package engine

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/podtask/podtask/internal/engine/run/owner"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/testing/faults"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/test/testbed"
)

// TestPodmanServiceIsKilledWhileATaskRuns kills the real service with -9 and
// starts it again, once while containers start and once while they run. The first kill may
// come after the start of the container and before Podman recorded it: then the task fails
// with an error that says so.
func TestPodmanServiceIsKilledWhileATaskRuns(t *testing.T) {
	needBed(t)
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), testbed.Patience)
	defer cancel()
	service, err := startPodman(ctx, strings.TrimSuffix(bed.service.Socket(), ".sock")+"-2.sock")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(service.Kill)
	w := newWorld(t, faults.Start(t, service.Socket()))
	w.shop()
	restart := func(*owner.Owner) {
		service.Kill()
		w.ops.awaitFailures(ctx, 1)
		if err := service.Start(ctx); err != nil {
			t.Error(err)
		}
	}
	var wg sync.WaitGroup
	o := w.own()
	starting := w.proxy.Fault(faults.Match{Method: "POST", Path: "-init/start$", Times: 1}, faults.Lose())
	restarted := make(chan struct{})
	waiting := w.proxy.Fault(faults.Match{Method: "GET", Path: "-app/healthcheck$", Times: 1}, faults.Hang(restarted))
	wg.Go(func() {
		for _, rule := range []*faults.Rule{starting, waiting} {
			select {
			case <-rule.Arrived():
				restart(o)
				if rule == waiting {
					close(restarted)
				}
			case <-ctx.Done():
			}
		}
	})
	s := w.run(o)
	cancel()
	wg.Wait()
	if strings.Contains(fmt.Sprint(s.Containers[0].Failures), libpod.UnrecordedStart) {
		t.Log("the start was not recorded")
		if s.Stop.Code != lifecycle.StopTaskFailedToStart {
			t.Errorf("the task stopped with %s", s.Stop.Code)
		}
		return
	}
	w.checkShop(s)
	if got := fmt.Sprint(starting.Hits(), waiting.Hits()); got != "1 1" {
		t.Errorf("hits: %s", got)
	}
}
