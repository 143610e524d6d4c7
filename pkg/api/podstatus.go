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

func (h taskHandler) servePod(w http.ResponseWriter, r *http.Request, t Task) error {
	p, err := backendAs[PodShower](h.backend, "this process shows no Pods")
	if err != nil {
		return err
	}
	pod, err := p.Pod(r.Context(), t.ID)
	return reply(w, pod, err)
}

// PodStatus returns a task as a Kubernetes Pod.
func PodStatus(ctx context.Context, c *Client, id string) (json.RawMessage, error) {
	var pod json.RawMessage
	return pod, c.call(ctx, http.MethodGet, taskPath(id)+"/podstatus", nil, &pod)
}
