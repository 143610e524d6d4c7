package kubenode

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/podtask/podtask/pkg/api"
)

// Words of a shutdown, as the kubelet has them (nodeshutdown).
const (
	reasonTerminated  = "Terminated"
	messageTerminated = "Pod was terminated in response to imminent node shutdown."
	reasonShutdown    = "NodeShutdown"
	messageShutdown   = "Pod was rejected as the node is shutting down."
)

var errShutdown = errors.New("node is shutting down")

// Shutdown configures the end of a node with its host.
type Shutdown struct {
	// Begun reports whether the host shuts down; nil: it never does.
	Begun func(context.Context) bool
	// Limit bounds the stop of all Pods; a quarter of it is for critical ones alone.
	Limit time.Duration
}

// reportWithin bounds the time after the limit in which statuses are sent to the API server.
const reportWithin = 10 * time.Second

// end ends the Pods of a node if its host shuts down, and returns when the API server knows.
func (s Shutdown) end(ctx context.Context, n *node, p *Pods) {
	if s.Begun == nil || !s.Begun(ctx) {
		return
	}
	p.Log.Info("the host shuts down: Pods end", "within", s.Limit.String())
	p.mu.Lock()
	p.shut = true
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, s.Limit+reportWithin)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { n.shutDown(ctx, p.Client) })
	until := time.Now().Add(s.Limit)
	terminateAll(ctx, p, false, until.Add(-s.Limit/4))
	terminateAll(ctx, p, true, until)
	wg.Wait()
}

// terminateAll ends the Pods that are critical, or those that are not.
func terminateAll(ctx context.Context, p *Pods, which bool, until time.Time) {
	p.mu.Lock()
	all := append([]*podWorker(nil), p.all...)
	p.mu.Unlock()
	var wg sync.WaitGroup
	for _, k := range all {
		if critical(k.latest()) == which {
			wg.Go(func() { k.terminate(ctx, until) })
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
		if w.stopWithin(ctx, ShutDown, max(min(grace, time.Until(until)), 0)) {
			break
		}
		sleep(ctx, w.pods.Pace.Steady)
	}
	w.report.settle(ctx)
}

// closing reports whether the host shuts down.
func (w *podWorker) closing() bool {
	w.pods.mu.Lock()
	defer w.pods.mu.Unlock()
	return w.pods.shut
}

// shutDown tells the API server at once that the node takes no more Pods.
func (n *node) shutDown(ctx context.Context, client kubernetes.Interface) {
	n.mu.Lock()
	n.ending = true
	n.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	ready := n.look(ctx).Status.Conditions[:1]
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": ready}})
	if err == nil {
		_, err = client.CoreV1().Nodes().PatchStatus(ctx, n.identity.Name, patch)
	}
	if err != nil {
		n.log.Warn("cannot report the shutdown to the API server", "error", err)
	}
}

// stopUserInitiated is the stop code of a task that was stopped by a request.
const stopUserInitiated = "UserInitiated"

// stoppedStatus makes the status of a Pod whose task has ended that of one that its host
// ended, unless Kubernetes asked for it: at a shutdown, or by hand. The exit codes of its
// containers then do not say whether it succeeded.
func stoppedStatus(s *corev1.PodStatus, t api.Task) {
	switch {
	case t.StopCode != stopUserInitiated || t.StoppedReason == "stopped by "+byKubernetes || t.Goal == goalGone:
	case t.StoppedReason == "stopped by "+byShutdown:
		disrupted(s, reasonTerminated, messageTerminated)
	default:
		disrupted(s, reasonTerminated, "Pod was "+t.StoppedReason+" on its node.")
	}
}
