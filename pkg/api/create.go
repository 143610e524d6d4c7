package api

import (
	"context"
	"encoding/json"
	"net/http"
)

// NewTask is a task that an agent is asked to run: the body of POST /v1/tasks.
type NewTask struct {
	// Definition is an ECS task definition, as given to RegisterTaskDefinition.
	Definition json.RawMessage `json:"definition"`
	// Name is the name of the task; empty: none.
	Name string `json:"name,omitempty"`
	// Lenient: unknown members of the definition are ignored instead of refused.
	Lenient bool `json:"lenient,omitempty"`
	// Remove removes the task when it has stopped.
	Remove bool `json:"remove,omitempty"`
	// Namespace is that of the names by which the task reaches services; empty: as the definition has it.
	Namespace string `json:"namespace,omitempty"`
	TaskSettings
	TaskOptions
}

// Creator is a Backend that runs new tasks: an agent.
type Creator interface {
	// Create returns the task when it is recorded and owned by the server's process. The
	// error is BadRequest with all problems for an invalid definition, and Conflict if
	// the host cannot run the task or the name is in use.
	Create(ctx context.Context, t NewTask) (Task, error)
}

func (h taskHandler) serveCreate(w http.ResponseWriter, r *http.Request) {
	c, ok := h.backend.(Creator)
	if !ok {
		writeFailure(w, Failed(Unsupported, "this process owns one task and runs no other: `podtask agent` does"))
		return
	}
	var t NewTask
	// The request contains a definition of at most 1 MiB.
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, 2*maxBody))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&t); err != nil {
		writeFailure(w, Failed(BadRequest, "read the new task: %v", err))
		return
	}
	if len(t.Definition) == 0 {
		writeFailure(w, Failed(BadRequest, "there is no definition: give an ECS task definition"))
		return
	}
	made, err := c.Create(r.Context(), t)
	if err != nil {
		writeFailure(w, err)
		return
	}
	w.Header().Set("Location", "/v1/tasks/"+made.ID)
	writeJSON(w, http.StatusCreated, made)
}

// Create asks an agent to run a task and returns it when it is recorded; Watch
// reports what happens to it.
func (c *Client) Create(ctx context.Context, t NewTask) (Task, error) {
	body, err := json.Marshal(t)
	if err != nil {
		return Task{}, err
	}
	var made Task
	return made, c.call(ctx, http.MethodPost, "tasks", body, &made)
}
