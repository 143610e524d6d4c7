package api

import (
	"context"
	"encoding/json"
	"net/http"
)

// PodShower is a Backend that shows a task as a Kubernetes Pod.
type PodShower interface {
	// Pod returns the v1 Pod with its status: the one that the task was created from, or
	// one that represents it.
	Pod(ctx context.Context, id string) (json.RawMessage, error)
}

// servePodStatus serves the Pods of a backend that is a PodShower.
func servePodStatus(b Backend) func(http.ResponseWriter, *http.Request, Task) {
	return func(w http.ResponseWriter, r *http.Request, t Task) { writePod(w, r, b, t) }
}

func writePod(w http.ResponseWriter, r *http.Request, b Backend, t Task) {
	p, ok := b.(PodShower)
	if !ok {
		writeFailure(w, Failed(Unsupported, "this process shows no Pods"))
		return
	}
	pod, err := p.Pod(r.Context(), t.ID)
	if err != nil {
		writeFailure(w, err)
		return
	}
	writeJSON(w, http.StatusOK, pod)
}

// PodStatus returns a task as a Kubernetes Pod.
func PodStatus(ctx context.Context, c *Client, id string) (json.RawMessage, error) {
	var pod json.RawMessage
	return pod, c.call(ctx, http.MethodGet, taskPath(id)+"/podstatus", nil, &pod)
}
