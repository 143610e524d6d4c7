package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// Event is one transition of one task, as GET /v1/events returns it.
type Event struct {
	// Seq numbers the events of this host, without gaps while the log keeps them.
	Seq    uint64    `json:"seq"`
	At     time.Time `json:"at"`
	Task   string    `json:"task"`
	Name   string    `json:"name,omitempty"`
	Family string    `json:"family"`
	// Container is empty for the task itself and "~infra" for the pod's infra container.
	Container string `json:"container,omitempty"`
	// Status is an ECS status or, after a health check, HEALTHY or UNHEALTHY.
	Status   string    `json:"status"`
	Digest   string    `json:"digest,omitempty"`
	ExitCode *ExitCode `json:"exitCode,omitempty"`
	Reason   string    `json:"reason,omitempty"`
}

// EventQuery selects events. The zero value selects all events in the log.
type EventQuery struct {
	// After skips events up to this number: an interrupted stream is continued with the
	// last one seen.
	After uint64
	// Task selects the events of one task, by its full ID; empty: all.
	Task string
	// Follow continues with new events.
	Follow bool
}

// LogLine is a line that a container wrote.
type LogLine struct {
	Container string `json:"container"`
	// Stream is stdout or stderr.
	Stream string `json:"stream"`
	// Time is the time at which it was written, to the second.
	Time time.Time `json:"time"`
	// Text has no line feed; a line of a terminal ends in a carriage return. Bytes that are not UTF-8 are replaced.
	Text string `json:"text"`
}

// LogQuery selects log lines. The zero value, with a negative Tail, selects all.
type LogQuery struct {
	// Container is a name; empty: all.
	Container string
	// Since skips older lines; zero: none.
	Since time.Time
	// Until skips newer lines; zero: none. Not with Follow.
	Until time.Time
	// Tail is the number of last lines of each container (before Until) to begin with;
	// negative: all.
	Tail int
	// Follow continues until the containers have ended.
	Follow bool
}

// Publisher is a Backend with events and logs. Fn is never called concurrently; its
// error ends the call and is returned.
type Publisher interface {
	Events(ctx context.Context, q EventQuery, fn func(Event) error) error
	Logs(ctx context.Context, id string, q LogQuery, fn func(LogLine) error) error
}

func (s *Server) serveEvents(w http.ResponseWriter, r *http.Request) error {
	values := r.URL.Query()
	q := EventQuery{Follow: values.Get("follow") == "true"}
	var err error
	if text := values.Get("after"); text != "" {
		if q.After, err = strconv.ParseUint(text, 10, 64); err != nil {
			return Failed(BadRequest, "after is the number of an event, not %q", text)
		}
	}
	if ref := values.Get("task"); ref != "" {
		t, err := s.backend.Task(r.Context(), ref)
		if err != nil {
			return err
		}
		q.Task = t.ID
	}
	p, err := backendAs[Publisher](s.backend, "this process does not publish events")
	if err != nil {
		return err
	}
	return serveLines(w, r, func(ctx context.Context, fn func(Event) error) error { return p.Events(ctx, q, fn) })
}

func (h taskHandler) serveLogs(w http.ResponseWriter, r *http.Request, t Task) error {
	values := r.URL.Query()
	q := LogQuery{Container: values.Get("container"), Follow: values.Get("follow") == "true", Tail: -1}
	var err error
	for _, p := range []struct {
		name string
		to   *time.Time
	}{{"since", &q.Since}, {"until", &q.Until}} {
		if text := values.Get(p.name); text != "" {
			if *p.to, err = time.Parse(time.RFC3339Nano, text); err != nil {
				return Failed(BadRequest, "%s is a time as RFC 3339 has it, not %q", p.name, text)
			}
		}
	}
	if q.Follow && !q.Until.IsZero() {
		return Failed(BadRequest, "follow continues until the containers have ended, and until ends before: give one of them")
	}
	if text := values.Get("tail"); text != "" {
		if q.Tail, err = strconv.Atoi(text); err != nil {
			return Failed(BadRequest, "tail is a number of lines, not %q", text)
		}
	}
	if q.Container != "" && !t.has(q.Container) {
		return Failed(NotFound, "task %s has no container %q", t.ID, q.Container)
	}
	p, err := backendAs[Publisher](h.backend, "this process does not read logs")
	if err != nil {
		return err
	}
	return serveLines(w, r, func(ctx context.Context, fn func(LogLine) error) error { return p.Logs(ctx, t.ID, q, fn) })
}

func (t Task) has(container string) bool {
	return slices.ContainsFunc(t.Containers, func(c Container) bool { return c.Name == container })
}

// serveLines answers with JSON Lines. It returns an error before the first line;
// later ones abort the connection, since the status has been sent.
func serveLines[T any](w http.ResponseWriter, r *http.Request, run func(context.Context, func(T) error) error) error {
	lines, flush := json.NewEncoder(w), http.NewResponseController(w)
	begun := false
	begin := func() {
		if !begun {
			w.Header().Set("Content-Type", "application/jsonl")
			w.WriteHeader(http.StatusOK)
			begun = true
		}
	}
	if r.URL.Query().Get("follow") == "true" { // clients that follow need to know that the request is accepted
		begin()
		_ = flush.Flush()
	}
	err := run(r.Context(), func(v T) error {
		begin()
		if err := lines.Encode(v); err != nil {
			return err
		}
		return flush.Flush()
	})
	switch {
	case err == nil:
		begin()
	case begun || r.Context().Err() != nil:
		panic(http.ErrAbortHandler)
	}
	return err
}

// Events calls fn for each event that q selects, in order, until none are left,
// fn returns an error (which is returned) or ctx ends. When the server died the error
// wraps io.ErrUnexpectedEOF; the number of the last event seen continues the stream.
func (c *Client) Events(ctx context.Context, q EventQuery, fn func(Event) error) error {
	values := url.Values{"after": {strconv.FormatUint(q.After, 10)}}
	if q.Task != "" {
		values.Set("task", q.Task)
	}
	if q.Follow {
		values.Set("follow", "true")
	}
	return readLines(ctx, c.connection, "events?"+values.Encode(), fn)
}

// Logs calls fn for each line that q selects; those of one container come in order. It
// ends as Events does.
func (c *Client) Logs(ctx context.Context, id string, q LogQuery, fn func(LogLine) error) error {
	values := url.Values{}
	if q.Container != "" {
		values.Set("container", q.Container)
	}
	for name, at := range map[string]time.Time{"since": q.Since, "until": q.Until} {
		if !at.IsZero() {
			values.Set(name, at.Format(time.RFC3339Nano))
		}
	}
	if q.Tail >= 0 {
		values.Set("tail", strconv.Itoa(q.Tail))
	}
	if q.Follow {
		values.Set("follow", "true")
	}
	return readLines(ctx, c.connection, taskPath(id)+"/logs?"+values.Encode(), fn)
}

// readLines asks for JSON Lines and calls fn for each.
func readLines[T any](ctx context.Context, c *connection, path string, fn func(T) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := c.do(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	for lines := json.NewDecoder(resp.Body); ; {
		var v T
		switch err := lines.Decode(&v); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read %s: %w", path, errors.Join(context.Cause(ctx), err))
		}
		if err := fn(v); err != nil {
			return err
		}
	}
}
