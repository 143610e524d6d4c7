package api

import (
	"context"
	"encoding/json"
	"net/http"
)

// PodResources are changes of what containers of a Pod may use and request.
type PodResources struct {
	// Containers has the new member resources of containers, by their names. Those of others stay.
	Containers map[string]json.RawMessage `json:"containers,omitempty"`
	// Pod is the new member resources of the Pod itself, which stays without it.
	Pod json.RawMessage `json:"pod,omitempty"`
}

// PodResizer is a Backend that changes the resources of tasks that were made from Pods.
type PodResizer interface {
	// Resize returns when the record has the resources and the kernel applies them. A container whose
	// resizePolicy says so has been stopped then, and is started again. The error is a
	// Failure: BadRequest and Unsupported if they cannot be applied on this host, Conflict if they
	// cannot be applied now.
	Resize(ctx context.Context, id string, r PodResources) error
}

func (h taskHandler) serveResize(w http.ResponseWriter, r *http.Request, t Task) error {
	b, err := backendAs[PodResizer](h.backend, "this process changes no resources")
	if err != nil {
		return err
	}
	var to PodResources
	if err := readBody(w, r, "resources", &to); err != nil {
		return err
	}
	return finish(w, http.StatusNoContent, b.Resize(r.Context(), t.ID, to))
}

// Resize changes the resources of a task that was made from a Pod; see PodResizer.
func Resize(ctx context.Context, c *Client, id string, r PodResources) error {
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return c.call(ctx, http.MethodPut, taskPath(id)+"/resources", body, nil)
}
