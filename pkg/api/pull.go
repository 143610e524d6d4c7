package api

import (
	"context"
	"net/http"
)

// Pull is a step of the pull of an image, as GET /v1/tasks/{task}/pulls returns it.
type Pull struct {
	// Image is the name in the task, normalized.
	Image string `json:"image"`
	// Phase is waiting (for another pull), pulling, done or failed.
	Phase string `json:"phase"`
	// Layer is the beginning of a digest; Current and Total are its bytes.
	Layer   string `json:"layer,omitempty"`
	Current int64  `json:"current,omitempty"`
	Total   int64  `json:"total,omitempty"`
	// Done: the layer is complete, or was there already (Existed).
	Done    bool `json:"done,omitempty"`
	Existed bool `json:"existed,omitempty"`
	// Text is a message of Podman before 4.8, which reports no bytes.
	Text string `json:"text,omitempty"`
}

// PullWatcher is a Backend that reports the progress of the pulls of a task's images, if
// the serving process pulls them. Fn is never called concurrently; its error ends the call
// and is returned.
type PullWatcher interface {
	// Pulls reports the pulls in progress and, with follow, continues until ctx ends.
	Pulls(ctx context.Context, id string, follow bool, fn func(Pull) error) error
}

func (h taskHandler) servePulls(w http.ResponseWriter, r *http.Request, t Task) error {
	p, err := backendAs[PullWatcher](h.backend, "this process does not tell of pulls")
	if err != nil {
		return err
	}
	follow := r.URL.Query().Get("follow") == "true"
	return serveLines(w, r, func(ctx context.Context, fn func(Pull) error) error { return p.Pulls(ctx, t.ID, follow, fn) })
}

// Pulls calls fn with the progress of the pulls of a task's images and, with follow, with
// each later step, until fn returns an error (which is returned), ctx ends or the server dies.
func (c *Client) Pulls(ctx context.Context, id string, follow bool, fn func(Pull) error) error {
	path := taskPath(id) + "/pulls"
	if follow {
		path += "?follow=true"
	}
	return readLines(ctx, c.connection, path, fn)
}
