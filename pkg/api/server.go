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
	"sync/atomic"
	"time"

	"github.com/podtask/podtask/pkg/api/connlimit"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// maxBody is the largest request or failure in bytes that is read.
const maxBody = 1 << 20

// Backend has the tasks that a Server serves. Its methods are called concurrently. A
// *Failure is sent to the client unchanged. Task takes a full ID, a prefix or a name; the
// other methods get the full ID that it returned.
type Backend interface {
	Tasks(ctx context.Context) ([]Task, error)
	Task(ctx context.Context, ref string) (Task, error)
	// Stop, Remove and Update return when the request is accepted; an agent answers the first two when it is recorded.
	Stop(ctx context.Context, id, by string, force bool) error
	Remove(ctx context.Context, id, by string, force bool) error
	// Update replaces the quota of the task's record; the caller applies it.
	Update(ctx context.Context, id string, q lifecycle.Quota) error
	// Pause pauses the running containers of a task, or resumes them; it returns when that
	// is done.
	Pause(ctx context.Context, id string, pause bool) error
	// RestartContainer stops a running container and starts it again; it returns when the request is accepted.
	RestartContainer(ctx context.Context, id, container string) error
	// Watch calls fn with the state at once and with each later one (some in
	// between may be skipped), until fn returns false, ctx ends, or no change can
	// follow.
	Watch(ctx context.Context, id string, fn func(Task) bool) error
}

// Adopter is a Backend that becomes the owner of existing tasks: an agent.
type Adopter interface {
	// Adopt makes the server's process own a task that is recorded and has no
	// living owner. It returns when the task is owned.
	Adopt(ctx context.Context, id string) error
}

// Version is the reply to GET /v1/version.
type Version struct {
	// Version is the version of the program.
	Version string `json:"version"`
	// APIVersion is v1.
	APIVersion string `json:"apiVersion"`
	GoVersion  string `json:"goVersion"`
	OSArch     string `json:"osArch"`
	// PID is the process that serves; Role is agent for all tasks of the user, owner
	// for one; StateDir is where their records are.
	PID      int    `json:"pid,omitempty"`
	Role     string `json:"role,omitempty"`
	StateDir string `json:"stateDir,omitempty"`
}

// ThisVersion returns the Version of this process, for a program of the given version.
func ThisVersion(version string) Version {
	return Version{Version: version, APIVersion: "v1", GoVersion: runtime.Version(), OSArch: runtime.GOOS + "/" + runtime.GOARCH}
}

// Server serves a Backend.
type Server struct {
	backend Backend
	version Version
	mux     *http.ServeMux
	http    http.Server

	maxConnections int
	replyTimeout   time.Duration
	following      atomic.Int64 // requests whose reply may take any time
}

// NewServer returns a server for the tasks of b. If b is also an Adopter, a Creator, a
// Publisher, a PullWatcher, a FaultBackend or a ServiceBackend, the server serves that too; otherwise these
// requests are Unsupported.
func NewServer(b Backend, v Version) *Server {
	s := &Server{backend: b, version: v, maxConnections: connlimit.Share(4, 1024), replyTimeout: replyTimeout}
	mux := http.NewServeMux()
	s.mux = mux
	for pattern, h := range s.routes() {
		mux.Handle(pattern, h)
	}
	mux.Handle("/", handler(func(_ http.ResponseWriter, r *http.Request) error {
		return Failed(NotFound, "there is no %s %s in this API", r.Method, r.URL.Path)
	}))
	s.http = http.Server{Handler: bound(s.limitFollowers(mux), bodyTimeout), ConnContext: connlimit.ConnContext, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader}
	return s
}

// Handle adds a handler on the same socket, outside of /v1/. It is called before
// Serve.
func (s *Server) Handle(pattern string, h http.Handler) { s.mux.Handle(pattern, h) }

// routes are all routes of the server.
func (s *Server) routes() map[string]handler {
	tasks := taskHandler{s.backend}
	return map[string]handler{
		"GET /v1/version":                                      s.serveVersion,
		"GET /v1/openapi.json":                                 serveOpenAPI,
		"GET /v1/events":                                       s.serveEvents,
		"GET /v1/budget":                                       s.serveBudget,
		"PUT /v1/nodes/{node}/names":                           s.serveNodeNames,
		"GET /v1/tasks":                                        tasks.serveTasks,
		"POST /v1/tasks":                                       tasks.serveCreate,
		"DELETE /v1/tasks":                                     tasks.serveVoid,
		"GET /v1/tasks/{task}":                                 tasks.withTask(tasks.serveTask),
		"GET /v1/tasks/{task}/watch":                           tasks.withTask(tasks.serveWatch),
		"GET /v1/tasks/{task}/logs":                            tasks.withTask(tasks.serveLogs),
		"GET /v1/tasks/{task}/pulls":                           tasks.withTask(tasks.servePulls),
		"GET /v1/tasks/{task}/podstatus":                       tasks.withTask(tasks.servePod),
		"POST /v1/tasks/{task}/adopt":                          tasks.withTask(tasks.serveAdopt),
		"POST /v1/tasks/{task}/stop":                           tasks.withTask(tasks.serveStop),
		"POST /v1/tasks/{task}/pause":                          tasks.withTask(tasks.servePause(true)),
		"POST /v1/tasks/{task}/unpause":                        tasks.withTask(tasks.servePause(false)),
		"POST /v1/tasks/{task}/containers/{container}/restart": tasks.withTask(tasks.serveRestartContainer),
		"PUT /v1/tasks/{task}/quota":                           tasks.withTask(tasks.serveUpdate),
		"PUT /v1/tasks/{task}/resources":                       tasks.withTask(tasks.serveResize),
		"POST /v1/tasks/{task}/faults":                         tasks.withTask(tasks.withFaults(serveStartFault)),
		"DELETE /v1/tasks/{task}/faults":                       tasks.withTask(tasks.withFaults(serveStopFaults)),
		"DELETE /v1/tasks/{task}":                              tasks.withTask(tasks.serveRemove),

		"GET /v1/services":                     s.withServices(serveServices),
		"POST /v1/services":                    s.withServices(serveCreateService),
		"GET /v1/services/{service}":           s.withServices(serveService),
		"PATCH /v1/services/{service}":         s.withServices(serveUpdateService),
		"DELETE /v1/services/{service}":        s.withServices(serveRemoveService),
		"POST /v1/services/{service}/rollback": s.withServices(serveRollbackService),
		"POST /v1/services/{service}/wake":     s.withServices(serveWakeService),
		"POST /v1/services/{service}/continue": s.withServices(serveContinueService),
		"GET /v1/services/{service}/watch":     s.withServices(serveWatchService),
	}
}

// drain is how long Serve waits for requests to end.
const drain = 2 * time.Second

// Serve serves on l until ctx ends. Requests in progress, including watches, then
// have two seconds to end before they are aborted. It closes l and returns when all its
// goroutines have ended; the error is nil unless listening failed.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	base, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	s.http.BaseContext = func(net.Listener) context.Context { return base }
	failed := make(chan error, 1)
	go func() { failed <- s.http.Serve(connlimit.New(s.maxConnections, nil).Listener(l)) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(base, drain)
	defer cancel()
	if s.http.Shutdown(grace) != nil {
		cut()
		_ = s.http.Close() // only clients that do not read are left
	}
	<-failed
	return nil
}

func (s *Server) serveVersion(w http.ResponseWriter, _ *http.Request) error {
	return reply(w, s.version, nil)
}

func (h taskHandler) serveTasks(w http.ResponseWriter, r *http.Request) error {
	tasks, err := h.backend.Tasks(r.Context())
	if tasks == nil {
		tasks = []Task{}
	}
	return reply(w, tasks, err)
}

// taskHandler serves the tasks of a Backend.
type taskHandler struct{ backend Backend }

// withTask finds the task of the path.
func (h taskHandler) withTask(serve func(http.ResponseWriter, *http.Request, Task) error) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		t, err := h.backend.Task(r.Context(), r.PathValue("task"))
		if err != nil {
			return err
		}
		return serve(w, r, t)
	}
}

func (h taskHandler) serveTask(w http.ResponseWriter, _ *http.Request, t Task) error {
	return reply(w, t, nil)
}

func (h taskHandler) serveWatch(w http.ResponseWriter, r *http.Request, t Task) error {
	w.Header().Set("Content-Type", "application/jsonl")
	lines, flush := json.NewEncoder(w), http.NewResponseController(w)
	err := h.backend.Watch(r.Context(), t.ID, func(t Task) bool {
		return lines.Encode(t) == nil && flush.Flush() == nil
	})
	if err != nil {
		// It is too late for a status: abort the connection.
		panic(http.ErrAbortHandler)
	}
	return nil
}

func (h taskHandler) serveAdopt(w http.ResponseWriter, r *http.Request, t Task) error {
	a, err := backendAs[Adopter](h.backend, "this process owns one task and takes no other: `podtask agent` does")
	if err != nil {
		return err
	}
	return finish(w, http.StatusAccepted, a.Adopt(r.Context(), t.ID))
}

// stopRequest is the body of POST stop.
type stopRequest struct {
	By    string `json:"by"`
	Force bool   `json:"force"`
}

func (h taskHandler) serveStop(w http.ResponseWriter, r *http.Request, t Task) error {
	var req stopRequest
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&req); err != nil && !errors.Is(err, io.EOF) {
		return Failed(BadRequest, "read the request to stop: %v", err)
	}
	return finish(w, http.StatusAccepted, h.backend.Stop(r.Context(), t.ID, req.By, req.Force))
}

func (h taskHandler) servePause(pause bool) func(http.ResponseWriter, *http.Request, Task) error {
	return func(w http.ResponseWriter, r *http.Request, t Task) error {
		return finish(w, http.StatusAccepted, h.backend.Pause(r.Context(), t.ID, pause))
	}
}

func (h taskHandler) serveRestartContainer(w http.ResponseWriter, r *http.Request, t Task) error {
	return finish(w, http.StatusAccepted, h.backend.RestartContainer(r.Context(), t.ID, r.PathValue("container")))
}

func (h taskHandler) serveUpdate(w http.ResponseWriter, r *http.Request, t Task) error {
	var q lifecycle.Quota
	if err := readBody(w, r, "quota", &q); err != nil {
		return err
	}
	return finish(w, http.StatusAccepted, h.backend.Update(r.Context(), t.ID, q))
}

func (h taskHandler) serveRemove(w http.ResponseWriter, r *http.Request, t Task) error {
	force, err := parseForce(r)
	if err == nil {
		err = h.backend.Remove(r.Context(), t.ID, r.URL.Query().Get("by"), force)
	}
	return finish(w, http.StatusAccepted, err)
}

// parseForce reads the query's force.
func parseForce(r *http.Request) (force bool, err error) { return parseBool(r, "force") }

// parseBool reads a parameter that is false where it is absent.
func parseBool(r *http.Request, name string) (value bool, err error) {
	if v := r.URL.Query().Get(name); v != "" {
		if value, err = strconv.ParseBool(v); err != nil {
			return false, Failed(BadRequest, "%s is true or false, not %q", name, v)
		}
	}
	return value, nil
}

// handler answers a request, or returns the failure to answer it with.
type handler func(http.ResponseWriter, *http.Request) error

// ServeHTTP implements http.Handler.
func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := h(w, r); err != nil {
		writeFailure(w, err)
	}
}

// backendAs returns the backend with methods that only some have; otherwise says why this one has not.
func backendAs[T any](b Backend, otherwise string) (T, error) {
	more, ok := b.(T)
	if !ok {
		return more, Failed(Unsupported, "%s", otherwise)
	}
	return more, nil
}

// readBody decodes the body of a request.
func readBody(w http.ResponseWriter, r *http.Request, what string, into any) error {
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return Failed(BadRequest, "read the %s: %v", what, err)
	}
	return nil
}

// reply answers with v, unless there is an error, which it returns.
func reply(w http.ResponseWriter, v any, err error) error {
	if err == nil {
		writeJSON(w, http.StatusOK, v)
	}
	return err
}

// finish answers with a status alone, unless there is an error, which it returns.
func finish(w http.ResponseWriter, status int, err error) error {
	if err == nil {
		w.WriteHeader(status)
	}
	return err
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		status, body = http.StatusInternalServerError, []byte(`{"error":{"code":"internal","message":"the reply cannot be written as JSON"}}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // the client may have disconnected
}
