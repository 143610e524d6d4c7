package kubenode

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
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

// end ends the Pods of a node by shutDown if its host shuts down, and returns when the API server knows.
func (s Shutdown) end(ctx context.Context, n *node, client kubernetes.Interface, shutDown func(context.Context, time.Duration)) {
	if s.Begun == nil || !s.Begun(ctx) {
		return
	}
	n.log.Info("the host shuts down: Pods end", "within", s.Limit.String())
	ctx, cancel := context.WithTimeout(ctx, s.Limit+reportWithin)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { n.shutDown(ctx, client) })
	shutDown(ctx, s.Limit)
	wg.Wait()
}

// shutDown tells the API server at once that the node takes no more Pods.
func (n *node) shutDown(ctx context.Context, client kubernetes.Interface) {
	n.mu.Lock()
	n.ending = true
	n.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	ready := n.update(ctx).Status.Conditions[:1]
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": ready}})
	if err == nil {
		_, err = client.CoreV1().Nodes().PatchStatus(ctx, n.identity.Name, patch)
	}
	if err != nil {
		n.log.Warn("cannot report the shutdown to the API server", "error", err)
	}
}
