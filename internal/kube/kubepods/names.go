package kubepods

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podtask/podtask/internal/kube/podnames"
	"github.com/podtask/podtask/internal/sleep"
	"github.com/podtask/podtask/pkg/api"
)

// nameSync gives the agent the names under which the Pods of the node reach each other.
type nameSync struct {
	pods    *Pods
	changed chan struct{} // has room for one

	mu   sync.Mutex
	sent []byte // what the agent has; nil if that is not known
}

// wake starts another computation of the names.
func (n *nameSync) wake() {
	select {
	case n.changed <- struct{}{}:
	default: // they will be
	}
}

// run keeps the agent informed until ctx ends.
func (n *nameSync) run(ctx context.Context) {
	for {
		select {
		case <-n.changed:
		case <-ctx.Done():
			return
		}
		for pause := n.pods.config.Pace.Steady; !n.send(ctx); pause = min(2*pause, n.pods.config.Pace.Most) {
			if !sleep.For(ctx, pause) {
				return
			}
		}
	}
}

// send sends the agent the names as they are now, if it does not have them; false to try again.
func (n *nameSync) send(ctx context.Context) bool {
	if n.pods.config.Services == nil {
		return true
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	all, err := n.pods.config.Services(ctx, metav1.NamespaceAll)
	if err != nil {
		n.pods.config.Log.Debug("the names of Services are not known", "error", err)
		return false
	}
	names, complete := podnames.Of(all, n.pods.targets())
	text, err := json.Marshal(names)
	if err != nil || bytes.Equal(text, n.sent) {
		return true
	}
	switch err := n.pods.config.Agent.SetNames(ctx, n.pods.config.Node, names); {
	case api.Is(err, api.NotFound), api.Is(err, api.Unsupported), api.Is(err, api.BadRequest):
		n.pods.config.Log.Warn("the agent does not take the names of Services: Pods do not reach them", "error", err)
	case err != nil:
		n.pods.config.Log.Debug("the agent does not know the names of Services yet", "error", err)
		return false
	}
	if !complete {
		n.pods.config.Log.Warn("Pods do not reach all Services by name: there are more ports than listeners on this node")
	}
	n.sent = text
	return true
}

// targets returns the Pods of the node that have not ended.
func (p *Pods) targets() (out []podnames.Pod) {
	p.mu.Lock()
	all := slices.Clone(p.all)
	p.mu.Unlock()
	for _, w := range all {
		if !w.report.Ended() && w.ctx.Err() == nil {
			out = append(out, podnames.Pod{Pod: w.latest(), Task: w.taskID(), Ready: w.report.Ready()})
		}
	}
	return out
}
