package metadata

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/pkg/api/connlimit"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// The ECS agent's limits.
const (
	perSecond = 40
	burst     = 60
	timeLimit = 5 * time.Second
)

// Limits for the clients of an endpoint.
const (
	maxConnections = 128 // of one task
	maxHeader      = 16 << 10
)

// connections limits those of all endpoints of this process. Half of the descriptors are
// left for other uses.
var connections = sync.OnceValue(func() *connlimit.Limit { return connlimit.New(connlimit.Share(2, 1<<20), nil) })

// Source provides the facts for a Server. Its functions are called concurrently.
type Source struct {
	// Key is the task's; the paths are derived from it.
	Key string
	// State is the task as it is now.
	State func() lifecycle.State
	// Watch calls fn with the state at once and with later ones, until fn returns
	// false or ctx ends.
	Watch func(ctx context.Context, fn func(lifecycle.State) bool) error
	Names Names
	// Addresses lists the addresses of the task's network namespace; none of a bridged task.
	Addresses []netip.Addr
	// Stats returns the statistics of a container that runs, in Docker's form; nil
	// if there are none.
	Stats func(ctx context.Context, i int) (json.RawMessage, error)
	// Credentials returns those of the task's role; nil if it has none.
	Credentials func(ctx context.Context) (Credentials, error)
	// Protect is called concurrently too.
	Protect Protector
	// Faults is nil for a task that can have none.
	Faults FaultInjector
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Log receives why a request failed; nil discards it.
	Log *slog.Logger
}

// Server serves the endpoint of one task.
type Server struct {
	src    Source
	byID   map[string]int // container by path element
	limit  *rate.Limiter  // of requests with a known id
	conns  *connlimit.Limit
	rates  rates
	faults faultLimits
	http   http.Server
}

// New returns a server for the containers of the current state.
func New(src Source) *Server {
	if src.Log == nil {
		src.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{src: src, byID: map[string]int{}, limit: rate.NewLimiter(perSecond, burst), conns: connlimit.New(maxConnections, connections())}
	for i, c := range src.State().Task.Containers {
		s.byID[containerID(src.Key, c.Name)] = i
	}
	routes := lazy.Value(s.routes) // the containers of most tasks never ask
	s.http = http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { routes().ServeHTTP(w, r) }), ConnContext: connlimit.ConnContext, MaxHeaderBytes: maxHeader,
		ReadTimeout: timeLimit, WriteTimeout: 2 * timeLimit, IdleTimeout: time.Minute,
	}
	return s
}

// Serve answers on l until Close, or until l is closed, and then returns nil. It
// closes l. There may be several calls at once; they share the limit of connections.
func (s *Server) Serve(l net.Listener) error {
	if err := s.http.Serve(s.conns.Listener(l)); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// Close ends Serve and aborts the requests in progress.
func (s *Server) Close() error { return s.http.Close() }

// ServeHTTP answers one request, within the rate limit of the task.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.http.Handler.ServeHTTP(w, r) }

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	for _, v := range []string{"/v3/", "/v4/"} {
		mux.HandleFunc("GET "+v+"{id}", s.about(s.container))
		mux.HandleFunc("GET "+v+"{id}/task", s.about(s.task))
		mux.HandleFunc("GET "+v+"{id}/taskWithTags", s.about(s.taskWithTags))
		mux.HandleFunc("GET "+v+"{id}/stats", s.about(s.stats))
		mux.HandleFunc("GET "+v+"{id}/task/stats", s.about(s.taskStats))
	}
	mux.HandleFunc("GET "+credentialsPath+"{id}", s.credentials)
	for _, method := range []string{"GET ", "PUT "} {
		mux.HandleFunc(method+protectionPath, func(w http.ResponseWriter, r *http.Request) { s.protect(w, r) })
	}
	s.faultRoutes(mux)
	mux.HandleFunc("/api/", func(w http.ResponseWriter, _ *http.Request) { // of ECS_AGENT_URI
		s.answer(w, http.StatusNotFound, "there is nothing at this path of ECS_AGENT_URI, or not for this method")
	})
	return mux
}

// admit counts a request toward the rate limit of the task and protects its connection
// until done is called. It must be called only for a request with an id of the task: in
// host mode other users can reach the endpoint, and must not use up the limit.
func (s *Server) admit(w http.ResponseWriter, r *http.Request) (done func(), ok bool) {
	if !s.limit.Allow() {
		http.Error(w, "Too many requests", http.StatusTooManyRequests)
		return nil, false
	}
	return connlimit.Serving(r.Context()), true
}

// about returns a handler for a function that replies about container i.
func (s *Server) about(fn func(r *http.Request, st lifecycle.State, i int) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		i, ok := s.byID[r.PathValue("id")]
		if !ok {
			s.answer(w, http.StatusNotFound, "there is no container of this task by that id; use ECS_CONTAINER_METADATA_URI_V4 as it is")
			return
		}
		done, ok := s.admit(w, r)
		if !ok {
			return
		}
		defer done()
		doc, err := fn(r, s.started(r.Context(), i), i)
		if err != nil {
			s.src.Log.Warn("metadata request failed", "path", what(r), "error", err)
			s.answer(w, http.StatusInternalServerError, "podtask could not find this out: "+err.Error())
			return
		}
		s.answer(w, http.StatusOK, doc)
	}
}

// started returns the state once container i has started: a client that knows its ID runs
// in it, so the start will be observed soon.
func (s *Server) started(ctx context.Context, i int) lifecycle.State {
	st := s.src.State()
	if s.src.Watch == nil || !st.Containers[i].StartedAt.IsZero() {
		return st
	}
	ctx, cancel := context.WithTimeout(ctx, timeLimit/2)
	defer cancel()
	_ = s.src.Watch(ctx, func(now lifecycle.State) bool {
		st = now
		return now.Containers[i].StartedAt.IsZero() && !now.Containers[i].Ended
	})
	return st
}

// what is the kind of request, without the ID.
func what(r *http.Request) string {
	_, after, _ := strings.Cut(strings.TrimPrefix(r.Pattern, "GET /"), "}")
	return "…" + after
}

func (s *Server) container(_ *http.Request, st lifecycle.State, i int) (any, error) {
	return ContainerOf(st, i, s.src.Names, s.src.Addresses), nil
}

func (s *Server) task(_ *http.Request, st lifecycle.State, _ int) (any, error) {
	return TaskOf(st, s.src.Names, s.src.Addresses), nil
}

func (s *Server) taskWithTags(_ *http.Request, st lifecycle.State, _ int) (any, error) {
	doc := TaskOf(st, s.src.Names, s.src.Addresses)
	doc.TaskTags = st.Task.Identity.Tags
	return doc, nil
}

func (s *Server) stats(r *http.Request, st lifecycle.State, i int) (any, error) {
	if s.src.Stats == nil || st.Containers[i].Presence != lifecycle.Running {
		return nil, nil
	}
	one, err := s.src.Stats(r.Context(), i)
	if err != nil || one == nil {
		return nil, err
	}
	return s.rates.with(i, one), nil
}

// taskStats is a map from Podman's id of a container to its statistics, null for
// one that does not run.
func (s *Server) taskStats(r *http.Request, st lifecycle.State, _ int) (any, error) {
	all := make(map[string]any)
	for i, c := range st.Containers {
		if c.ID == "" {
			continue
		}
		one, err := s.stats(r, st, i)
		if err != nil {
			return nil, fmt.Errorf("container %s: %w", st.Task.Containers[i].Name, err)
		}
		all[c.ID] = one
	}
	return all, nil
}

func (s *Server) answer(w http.ResponseWriter, status int, doc any) {
	body, err := json.Marshal(doc)
	if err != nil {
		status, body = http.StatusInternalServerError, []byte(`"the answer cannot be encoded"`)
		s.src.Log.Error("metadata answer cannot be encoded", "error", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
