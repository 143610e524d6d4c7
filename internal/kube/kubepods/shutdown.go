package kubepods

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/kube/podadmission"
	"github.com/podtask/podtask/internal/kube/podstatus"
	"github.com/podtask/podtask/internal/sleep"
)

// Reason and message of a Pod that comes while the host shuts down, as the kubelet has them (nodeshutdown).
const (
	reasonShutdown  = "NodeShutdown"
	messageShutdown = "Pod was rejected as the node is shutting down."
)

// ShutDown ends the Pods because their host shuts down, and returns when the API server knows. They have limit for it,
// a quarter of which is for critical ones alone. Other Pods are rejected from now on.
func (p *Pods) ShutDown(ctx context.Context, limit time.Duration) {
	p.mu.Lock()
	p.shut = true
	p.mu.Unlock()
	until := time.Now().Add(limit)
	p.terminate(ctx, false, until.Add(-limit/4))
	p.terminate(ctx, true, until)
}

// terminate ends the Pods that are critical, or those that are not.
func (p *Pods) terminate(ctx context.Context, critical bool, until time.Time) {
	p.mu.Lock()
	all := slices.Clone(p.all)
	p.mu.Unlock()
	var wg sync.WaitGroup
	for _, w := range all {
		if podadmission.Critical(w.latest()) == critical {
			wg.Go(func() { w.terminate(ctx, until) })
		}
	}
	wg.Wait()
}

// terminate ends the task of the Pod within its grace period, at the latest then, and
// returns when the API server knows. A Pod without a task is left as it is: it can begin
// when the host is back.
func (w *podWorker) terminate(ctx context.Context, until time.Time) {
	if w.ctx.Err() != nil { // it is ending anyway
		select {
		case <-w.ended:
		case <-ctx.Done():
		}
		return
	}
	for w.taskID() != "" && ctx.Err() == nil {
		_, grace := w.terminationRequest()
		if w.stopWithin(ctx, podstatus.ByShutdown, false, max(min(grace, time.Until(until)), 0)) {
			break
		}
		sleep.For(ctx, w.pods.config.Pace.Steady)
	}
	w.report.Settle(ctx)
}

// closing reports whether the host shuts down.
func (w *podWorker) closing() bool {
	w.pods.mu.Lock()
	defer w.pods.mu.Unlock()
	return w.pods.shut
}
