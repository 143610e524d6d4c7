package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"time"

	"github.com/podtask/podtask/pkg/lifecycle"
)

// maxBody is the largest request or failure in bytes that is read.
const maxBody = 1 << 20

// Backend is what a Server serves. Its methods are called concurrently. A
// *Failure crosses the wire as it is. Task takes a full id, a prefix or a name;
// the others get the full id that it returned.
type Backend interface {
	Tasks(ctx context.Context) ([]lifecycle.State, error)
	Task(ctx context.Context, ref string) (lifecycle.State, error)
	// Stop and Remove return when the request is taken.
	Stop(ctx context.Context, id, by string, force bool) error
	Remove(ctx context.Context, id, by string, force bool) error
	// Watch calls fn with the state at once and with each later one (some in
	// between may be left out), until fn returns false, ctx ends, or no change
	// can come any more.
	Watch(ctx context.Context, id string, fn func(lifecycle.State) bool) error
}

// Version is the reply to GET /v1/version.
type Version struct {
	// Version is that of the program, as built.
	Version string `json:"version"`
	// APIVersion is v1.
	APIVersion string `json:"apiVersion"`
	GoVersion  string `json:"goVersion"`
	OSArch     string `json:"osArch"`
	// PID is the process that serves.
	PID int `json:"pid,omitempty"`
}

// ThisVersion returns the Version of a program that calls itself version.
func ThisVersion(version string) Version {
	return Version{Version: version, APIVersion: "v1", GoVersion: runtime.Version(), OSArch: runtime.GOOS + "/" + runtime.GOARCH}
}

// Server serves a Backend.
type Server struct {
	backend Backend
	version Version
	http    http.Server
}

// NewServer returns a server for the tasks of b. Version.PID is the owner that
// the tasks are reported with.
func NewServer(b Backend, v Version) *Server {
	s := &Server{backend: b, version: v}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/version", s.serveVersion)
	mux.HandleFunc("GET /v1/tasks", s.serveTasks)
	mux.HandleFunc("GET /v1/tasks/{task}", s.withTask(s.serveTask))
	mux.HandleFunc("GET /v1/tasks/{task}/watch", s.withTask(s.serveWatch))
	mux.HandleFunc("POST /v1/tasks/{task}/stop", s.withTask(s.serveStop))
	mux.HandleFunc("DELETE /v1/tasks/{task}", s.withTask(s.serveRemove))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeFailure(w, Failed(NotFound, "there is no %s %s in this API", r.Method, r.URL.Path))
	})
	s.http = http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	return s
}

// drain is how long Serve lets requests come to their own end.
const drain = 2 * time.Second

// Serve serves on l until ctx ends. Requests under way, watches included, then
// have two seconds to end by themselves before they are cut off. It closes l and
// returns when nothing of it runs any more; the error is nil unless listening failed.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	base, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	s.http.BaseContext = func(net.Listener) context.Context { return base }
	failed := make(chan error, 1)
	go func() { failed <- s.http.Serve(l) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(base, drain)
	defer cancel()
	if s.http.Shutdown(grace) != nil {
		cut()
		_ = s.http.Close() // what is left are clients that do not read
	}
	<-failed
	return nil
}

func (s *Server) serveVersion(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, s.version)
}

func (s *Server) serveTasks(w http.ResponseWriter, r *http.Request) {
	states, err := s.backend.Tasks(r.Context())
	if err != nil {
		writeFailure(w, err)
		return
	}
	tasks := make([]Task, len(states))
	for i, st := range states {
		tasks[i] = s.task(st)
	}
	writeJSON(w, http.StatusOK, tasks)
}

// task is a state with this process as its owner.
func (s *Server) task(st lifecycle.State) Task {
	t := FromState(st)
	t.Owner = Owner{PID: s.version.PID, Alive: true}
	return t
}

// withTask finds the task of the path.
func (s *Server) withTask(serve func(http.ResponseWriter, *http.Request, lifecycle.State)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		st, err := s.backend.Task(r.Context(), r.PathValue("task"))
		if err != nil {
			writeFailure(w, err)
			return
		}
		serve(w, r, st)
	}
}

func (s *Server) serveTask(w http.ResponseWriter, _ *http.Request, st lifecycle.State) {
	writeJSON(w, http.StatusOK, s.task(st))
}

func (s *Server) serveWatch(w http.ResponseWriter, r *http.Request, st lifecycle.State) {
	w.Header().Set("Content-Type", "application/jsonl")
	lines, flush := json.NewEncoder(w), http.NewResponseController(w)
	err := s.backend.Watch(r.Context(), st.ID, func(st lifecycle.State) bool {
		return lines.Encode(s.task(st)) == nil && flush.Flush() == nil
	})
	if err != nil && r.Context().Err() == nil {
		// Too late for a status: a connection that breaks off is no orderly end.
		panic(http.ErrAbortHandler)
	}
}

// stopRequest is the body of POST stop.
type stopRequest struct {
	By    string `json:"by"`
	Force bool   `json:"force"`
}

func (s *Server) serveStop(w http.ResponseWriter, r *http.Request, st lifecycle.State) {
	var req stopRequest
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&req); err != nil && !errors.Is(err, io.EOF) {
		writeFailure(w, Failed(BadRequest, "read the request to stop: %v", err))
		return
	}
	if err := s.backend.Stop(r.Context(), st.ID, req.By, req.Force); err != nil {
		writeFailure(w, err)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

func (s *Server) serveRemove(w http.ResponseWriter, r *http.Request, st lifecycle.State) {
	query, force := r.URL.Query(), false
	if v := query.Get("force"); v != "" {
		var err error
		if force, err = strconv.ParseBool(v); err != nil {
			writeFailure(w, Failed(BadRequest, "force is true or false, not %q", v))
			return
		}
	}
	if err := s.backend.Remove(r.Context(), st.ID, query.Get("by"), force); err != nil {
		writeFailure(w, err)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		status, body = http.StatusInternalServerError, []byte(`{"error":{"code":"internal","message":"the reply cannot be written as JSON"}}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // a client that has gone needs no answer
}
