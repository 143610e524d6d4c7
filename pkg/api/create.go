package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
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
	// ClientToken makes the request safe to repeat, in the way of the clientToken of RunTask: it is the query parameter
	// clientToken, of up to 255 characters. The ID of the task follows from it (TaskID), so that the request that has it
	// again gets the same task, also if that has ended or was made of another definition. Once the task has run and was
	// removed, the answer is Gone for a week. An agent of before this member ignores it. Empty: each request is a new task.
	ClientToken string `json:"-"`
	// GiveUp: a task that cannot start ends as on ECS, instead of waiting: a digest may take a minute, a pull is tried five times,
	// and a host port that another task keeps ends it at once. It is the query parameter giveUp; an older agent ignores it.
	GiveUp bool `json:"-"`
	TaskSettings
	TaskOptions
}

// MaxClientToken is the length of the longest client token in bytes.
const MaxClientToken = 255

// TaskID is the ID of the task that an agent makes of requests with the token.
func TaskID(clientToken string) string {
	sum := sha256.Sum256([]byte("podtask client token\n" + clientToken))
	return hex.EncodeToString(sum[:16])
}

// Creator is a Backend that runs new tasks: an agent.
type Creator interface {
	// Create returns the task when it is recorded and owned by the server's process. The
	// error is BadRequest with all problems for an invalid definition, and Conflict if
	// the host cannot run the task or the name is in use. For a client token whose task has run and was removed it
	// is Gone, and Busy while another request with the token is carried out.
	Create(ctx context.Context, t NewTask) (Task, error)
	// Void has no task made of requests with the token for a week: they are answered with Gone. It is for a client that no
	// longer wants a task and does not know what became of its request. If the task exists, the error is Conflict; while a
	// request with the token is carried out, Busy.
	Void(ctx context.Context, clientToken string) error
}

func (h taskHandler) creator() (Creator, error) {
	return backendAs[Creator](h.backend, "this process owns one task and runs no other: `podtask agent` does")
}

func (h taskHandler) serveCreate(w http.ResponseWriter, r *http.Request) error {
	c, err := h.creator()
	if err != nil {
		return err
	}
	var t NewTask
	// The request contains a definition of at most 1 MiB.
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, 2*maxBody))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&t); err != nil {
		return Failed(BadRequest, "read the new task: %v", err)
	}
	if len(t.Definition) == 0 {
		return Failed(BadRequest, "there is no definition: give an ECS task definition")
	}
	if t.ClientToken, err = clientToken(r); err != nil {
		return err
	}
	t.GiveUp = r.URL.Query().Get("giveUp") == "true"
	made, err := c.Create(r.Context(), t)
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/v1/tasks/"+made.ID)
	writeJSON(w, http.StatusCreated, made)
	return nil
}

// clientToken returns the token of a request.
func clientToken(r *http.Request) (string, error) {
	token := r.URL.Query().Get("clientToken")
	if len(token) > MaxClientToken {
		return "", Failed(BadRequest, "clientToken has more than %d characters", MaxClientToken)
	}
	return token, nil
}

func (h taskHandler) serveVoid(w http.ResponseWriter, r *http.Request) error {
	c, err := h.creator()
	if err != nil {
		return err
	}
	token, err := clientToken(r)
	if err != nil {
		return err
	}
	if token == "" {
		return Failed(BadRequest, "clientToken is missing: a task is removed with DELETE /v1/tasks/TASK")
	}
	return finish(w, http.StatusNoContent, c.Void(r.Context(), token))
}

// Void has an agent make no task of a client token any more, for a week. The error of an agent of before this call is
// Unsupported.
func (c *Client) Void(ctx context.Context, clientToken string) error {
	return c.call(ctx, http.MethodDelete, "tasks?"+url.Values{"clientToken": {clientToken}}.Encode(), nil, nil)
}

// Create asks an agent to run a task and returns it when it is recorded; Watch
// reports what happens to it.
func (c *Client) Create(ctx context.Context, t NewTask) (Task, error) {
	body, err := json.Marshal(t)
	if err != nil {
		return Task{}, err
	}
	path, query := "tasks", url.Values{}
	if t.ClientToken != "" {
		query.Set("clientToken", t.ClientToken)
	}
	if t.GiveUp {
		query.Set("giveUp", "true")
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	var made Task
	return made, c.call(ctx, http.MethodPost, path, body, &made)
}
