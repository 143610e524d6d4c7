package program

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/fsnotify/fsnotify"

	"github.com/podtask/podtask/internal/forward/kept"
	"github.com/podtask/podtask/internal/ingress"
	"github.com/podtask/podtask/internal/ingress/accesslog"
	"github.com/podtask/podtask/internal/ingress/certs"
	"github.com/podtask/podtask/internal/ingress/proxy"
	"github.com/podtask/podtask/internal/ingress/routefile"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/api/connlimit"
)

// The limits of what clients may cost.
const (
	// headerTime limits the time that a client may take for the TLS handshake, and for the headers of a request.
	headerTime = 10 * time.Second
	// keepAlive is the time for which a connection without a request is kept.
	keepAlive = 2 * time.Minute
	// maxHeader is the most bytes of headers.
	maxHeader = 64 << 10
	// maxStreams is the number of requests that a connection of HTTP/2 has at a time.
	maxStreams = 128
	// maxFrame is the most bytes of a frame of HTTP/2: the smallest that a server may have, because the memory of a frame is
	// taken before its content comes.
	maxFrame = 16 << 10
	// mostConnections is the most connections, if there are descriptors for them.
	mostConnections = 16384
	// clientPart of the connections may be one client's.
	clientPart = 2
	// descriptorsOf is the number of descriptors that a connection may need: its own, that to the copy, and some in reserve.
	descriptorsOf = 3
	// successorTime limits the time that a successor may take until it serves.
	successorTime = 30 * time.Second
	// longDrain is how long connections may stay with a process that has a successor.
	longDrain = time.Hour
)

// requestsFor returns the number of requests at a time for a number of connections: one for each, and some more of HTTP/2, for
// which there are descriptors.
func requestsFor(connections int) int { return connections + connections/2 }

func defaultConnections() int { return connlimit.Share(descriptorsOf, mostConnections) }

// server is a proxy that runs.
type server struct {
	o       *options
	log     *slog.Logger
	since   time.Time
	sockets *sockets
	proxy   *proxy.Proxy
	certs   *certs.Manager
	limit   *connlimit.Limit
	clients *clients // with their connections
	// requests has the clients with their requests at a time.
	requests *clients
	streams  *streams
	uses     uses
	routes   string // path of the file

	leaving atomic.Bool  // another process took over: each answer is the last one of its connection
	ending  atomic.Bool  // it was told to end, and has no successor
	watched atomic.Int64 // those who follow the status
	open    openConns

	reloading sync.Mutex
	last      []byte // what the file had

	mu      sync.Mutex
	problem string
	changed chan struct{} // closed and replaced when the status has changed
}

// serve runs the proxy until a signal ends it.
func serve(ctx context.Context, o *options, log *slog.Logger, signals <-chan os.Signal) error {
	roots, err := rootPool(o.roots)
	if err != nil {
		return err
	}
	dir := filepath.Join(o.stateDir, "ingress")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	s := &server{o: o, log: log, since: time.Now(), routes: routefile.Path(o.stateDir), limit: connlimit.New(o.maxConnections, nil), clients: newClients(max(1, o.maxConnections/clientPart), math.MaxInt), requests: newClients(max(1, o.maxConnections/clientPart), requestsFor(o.maxConnections)), changed: make(chan struct{})}
	s.uses.changed = s.change
	defer s.uses.close()
	if s.sockets, err = open(o); err != nil {
		return err
	}
	access, err := accesslog.Open(ingress.AccessLogPath(o.stateDir))
	if err != nil {
		s.sockets.Close()
		return err
	}
	defer access.Close()
	running, stop := context.WithCancel(ctx)
	defer stop()
	s.proxy = proxy.New(proxy.Config{Log: log, Access: func(r proxy.Record) { access.Write(r) }, SecurePort: portOf(s.sockets.secure, 443), Use: s.uses.of})
	if s.certs, err = certs.New(running, certs.Config{
		Log: log, Dir: dir, Directory: o.directory, Roots: roots, Email: o.email, DNSProgram: strings.Fields(o.dnsProgram),
		PlainPort: portOf(s.sockets.plain, 80), SecurePort: portOf(s.sockets.secure, 443), Changed: s.change,
	}); err != nil {
		s.sockets.Close()
		return err
	}
	watcher, err := fsnotify.NewWatcher()
	if err == nil {
		err = watcher.Add(dir)
	}
	if err != nil {
		s.sockets.Close()
		return fmt.Errorf("follow %s: %w", dir, err)
	}
	defer watcher.Close()
	for _, problem := range s.sockets.problems {
		log.Error("no requests are served at an address", "error", problem)
	}
	s.streams = newStreams(log, s.sockets.streams, s.change, s.uses.of)
	s.streams.kept = kept.New(log, nil)
	defer s.streams.close()
	s.reload()
	s.streams.unused()
	go s.follow(running, watcher)
	return s.run(running, signals)
}

// run serves until a signal ends it, and then drains.
func (s *server) run(ctx context.Context, signals <-chan os.Signal) error {
	plainServer, secureServer := s.newServer(challengesFirst(s.certs, s.proxy.Handler(false))), s.newServer(s.proxy.Handler(true))
	secureServer.TLSConfig = s.certs.TLS()
	control := s.newControl()
	failed := make(chan error, 8)
	start := func(serve func() error) {
		go func() {
			if err := serve(); err != nil && !errors.Is(err, http.ErrServerClosed) {
				failed <- err
			}
		}()
	}
	for _, l := range s.sockets.plain {
		start(func() error { return plainServer.Serve(s.limited(l)) })
	}
	for _, l := range s.sockets.secure {
		start(func() error { return secureServer.ServeTLS(s.limited(l), "", "") })
	}
	start(func() error { return control.Serve(s.sockets.control) })
	s.log.Info("the ingress proxy serves", "http", addresses(s.sockets.plain), "https", addresses(s.sockets.secure), "version", s.o.version)
	if s.sockets.ready != nil {
		_, err := s.sockets.ready.WriteString("1")
		if err = errors.Join(err, s.sockets.ready.Close()); err != nil {
			return fmt.Errorf("tell the process before: %w", err)
		}
	} else {
		s.notify(daemon.SdNotifyReady)
	}
	drain, err := s.o.drain, error(nil)
loop:
	for {
		select {
		case <-ctx.Done():
			break loop
		case err = <-failed:
			break loop
		case sig := <-signals:
			if sig != syscall.SIGHUP {
				break loop
			}
			pid, handed := s.handOver()
			if handed == nil {
				s.log.Info("another process took over", "pid", pid)
				drain = longDrain
				control = s.leaveControl(control)
				break loop
			}
			s.log.Error("no other process took over; this one continues", "error", handed)
		}
	}
	if drain != longDrain {
		s.notify(daemon.SdNotifyStopping)
	}
	if drain == longDrain {
		s.leave()
	}
	s.drain(drain, signals, plainServer, secureServer)
	_ = control.Close()
	return err
}

// limited returns a listener with the limits of all connections, of each client, and of what it sends beside requests.
func (s *server) limited(l net.Listener) net.Listener {
	return s.limit.Listener(allowances{s.clients.listener(l)})
}

// leaveControl leaves the socket to the successor. This process answers on one of its own from then on, so
// that the agent can wait for the requests that finish here.
func (s *server) leaveControl(control *http.Server) *http.Server {
	if shared, ok := s.sockets.control.(interface{ Leave() }); ok {
		shared.Leave()
	}
	_ = control.Close()
	own := s.newControl()
	l, err := api.Listen(ingress.OldSocketPath(s.o.socket, os.Getpid()))
	if err != nil {
		s.log.Warn("the agent cannot wait for the requests that finish here", "error", err)
		return own
	}
	go func() { _ = own.Serve(l) }()
	return own
}

// challengesFirst answers ACME servers before the routes.
func challengesFirst(m *certs.Manager, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !m.Challenge(w, r) {
			next.ServeHTTP(w, r)
		}
	})
}

// leaveTime limits the time that clients of the process before may use their connections once more.
const leaveTime = 5 * time.Second

// leave lets clients move to the process that took over. A client that sends a request on a connection that is being
// closed cannot know whether it was served, so connections end after an answer, and only those without a
// request for leaveTime are closed while they are idle.
func (s *server) leave() {
	s.leaving.Store(true)
	s.streams.leave()
	for _, l := range slices.Concat(s.sockets.plain, s.sockets.secure) {
		_ = l.Close()
	}
	select {
	case <-s.open.none():
	case <-time.After(leaveTime):
	}
}

// openConns counts the connections of HTTP servers. Its zero value is ready for use.
type openConns struct {
	mu      sync.Mutex
	n       int
	waiting chan struct{} // closed at zero
}

// changed follows a connection, as http.Server.ConnState.
func (o *openConns) changed(_ net.Conn, state http.ConnState) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch state {
	case http.StateNew:
		o.n++
	case http.StateClosed, http.StateHijacked:
		o.n--
	}
	if o.n == 0 && o.waiting != nil {
		close(o.waiting)
		o.waiting = nil
	}
}

// none returns a channel that is closed when no connection is open.
func (o *openConns) none() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := make(chan struct{})
	if o.n == 0 {
		close(c)
	} else {
		o.waiting = c
	}
	return c
}

// drain stops listening and waits for what is under way.
func (s *server) drain(limit time.Duration, signals <-chan os.Signal, servers ...*http.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	go func() { // a second signal ends the wait
		select {
		case sig := <-signals:
			if sig != syscall.SIGHUP {
				cancel()
			}
		case <-ctx.Done():
		}
	}()
	var all sync.WaitGroup
	all.Go(func() {
		if limit != longDrain {
			s.giveUp(ctx)
		}
		s.streams.leave()
		if err := s.streams.drainAll(ctx); err != nil {
			s.log.Warn("connections of listeners are cut: they did not end in time")
		}
	})
	for _, server := range servers {
		all.Go(func() {
			if err := server.Shutdown(ctx); err != nil {
				_ = server.Close()
			}
		})
	}
	all.Wait()
	// WebSockets are no requests of a server any more.
	if err := s.proxy.DrainAll(ctx); err != nil {
		s.log.Warn("connections are cut: they did not end in time", "requests", len(s.proxy.Open()))
	}
}

// giveTime limits the time that the agent may take to take the listeners of a proxy that ends.
const giveTime = 5 * time.Second

// giveUp gives the listeners of services to the agent, if it follows this process: connections that wait to be accepted would
// be reset when they are closed, and others refused.
func (s *server) giveUp(ctx context.Context) {
	s.ending.Store(true)
	if s.watched.Load() == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, giveTime)
	defer cancel()
	s.streams.offer(ctx)
}

func (s *server) newServer(h http.Handler) *http.Server {
	h = s.requests.handler(h)
	return &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer connlimit.Serving(r.Context())()
			if a, _ := r.Context().Value(allowanceKey{}).(*allowance); a != nil {
				a.request(r)
			}
			if s.leaving.Load() && r.Header.Get("Upgrade") == "" {
				w.Header().Set("Connection", "close") // with HTTP/2 it is GOAWAY
			}
			h.ServeHTTP(w, r)
		}),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return withAllowance(connlimit.ConnContext(ctx, c), c)
		},
		ConnState: func(c net.Conn, state http.ConnState) {
			if a := allowanceOf(c); a != nil && state == http.StateHijacked {
				a.release()
			}
			s.open.changed(c, state)
		},
		ReadHeaderTimeout: headerTime, IdleTimeout: keepAlive, MaxHeaderBytes: maxHeader,
		HTTP2:    &http.HTTP2Config{MaxConcurrentStreams: maxStreams, MaxReadFrameSize: maxFrame, SendPingTimeout: keepAlive, PingTimeout: headerTime},
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
}

// notify tells systemd; without it, nothing happens.
func (s *server) notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		s.log.Warn("systemd was not told", "state", state, "error", err)
	}
}

// change wakes those who watch the status.
func (s *server) change() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.changed)
	s.changed = make(chan struct{})
}

// reload reads the file of routes.
func (s *server) reload() {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	t, err := routefile.Read(s.routes)
	problem := ""
	if err != nil {
		problem = err.Error()
		s.log.Error("the routes are not read; those before them are served", "error", err)
	}
	s.mu.Lock()
	s.problem = problem
	s.mu.Unlock()
	if err == nil {
		data, _ := json.Marshal(t) // routes have no values that cannot be encoded
		if string(data) == string(s.last) {
			return
		}
		s.last = data
		s.uses.follow(t)
		s.certs.Follow(t)
		s.proxy.Load(t)
		s.streams.route(t.Listeners)
	}
	s.change()
}

// follow reads the file of routes again when it changes.
func (s *server) follow(ctx context.Context, w *fsnotify.Watcher) {
	for {
		select {
		case <-ctx.Done():
			return
		case e, ok := <-w.Events:
			if !ok {
				return
			}
			if e.Name == s.routes {
				s.reload()
			}
		case _, ok := <-w.Errors:
			if !ok {
				return
			}
			s.reload() // events may be lost
		}
	}
}

// status is what the proxy says about itself, and a channel that is closed when that changes.
func (s *server) status() (ingress.Status, <-chan struct{}) {
	s.mu.Lock()
	problem, changed := s.problem, s.changed
	s.mu.Unlock()
	if len(s.sockets.problems) > 0 {
		problem = strings.TrimSuffix(strings.Join(append(slices.Clone(s.sockets.problems), problem), "; "), "; ")
	}
	open := s.proxy.Open()
	st := ingress.Status{
		PID: os.Getpid(), Version: s.o.version, Since: s.since.UTC(), Plain: addresses(s.sockets.plain), Secure: addresses(s.sockets.secure), Problem: problem, Denied: s.sockets.denied,
		Routes: []ingress.Route{}, Certificates: s.certs.Statuses(), Connections: s.limit.Open(), MaxConnections: s.o.maxConnections, Requests: s.proxy.Counts(), Listeners: s.streams.status(), Uses: s.uses.status(), Ending: s.ending.Load(),
	}
	for _, r := range s.proxy.Table().Routes {
		route := ingress.Route{URL: r.Key(), Service: r.Service, Deployments: []ingress.Deployment{}}
		for _, g := range r.Groups {
			d := ingress.Deployment{ID: g.Deployment, Weight: g.Weight, Copies: []ingress.Copy{}}
			for _, t := range g.Targets {
				d.Copies = append(d.Copies, ingress.Copy{Task: t.ID, Address: t.Address, Requests: open[t.ID]})
			}
			route.Deployments = append(route.Deployments, d)
		}
		st.Routes = append(st.Routes, route)
	}
	return st, changed
}

// newControl answers the agent and the commands.
func (s *server) newControl() *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/status", func(w http.ResponseWriter, _ *http.Request) {
		st, _ := s.status()
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(st)
	})
	mux.HandleFunc("GET /v1/watch", func(w http.ResponseWriter, r *http.Request) {
		s.watched.Add(1)
		defer s.watched.Add(-1)
		w.Header().Set("Content-Type", "application/x-ndjson")
		for {
			st, changed := s.status()
			if json.NewEncoder(w).Encode(st) != nil || http.NewResponseController(w).Flush() != nil {
				return
			}
			select {
			case <-changed:
			case <-r.Context().Done():
				return
			}
		}
	})
	mux.HandleFunc("GET /v1/drain", func(w http.ResponseWriter, r *http.Request) {
		s.reload() // the file no longer has the task
		if s.proxy.Drain(r.Context(), r.FormValue("task")) != nil || s.streams.drain(r.Context(), r.FormValue("task")) != nil {
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc(ingress.PassPath, func(w http.ResponseWriter, r *http.Request) {
		address := r.FormValue("address")
		if err := ingress.Receive(w, r, func(l net.Listener) error { return s.streams.take(address, l) }); err != nil {
			s.log.Warn("a listener that the agent passes is not taken", "address", address, "error", err)
			return
		}
		s.change()
	})
	mux.HandleFunc(ingress.TakePath, func(w http.ResponseWriter, r *http.Request) {
		address := r.FormValue("address")
		found, err := s.streams.give(address, func(l *net.TCPListener) error { return ingress.Give(w, r, l) })
		switch {
		case !found:
			http.NotFound(w, r)
		case err != nil:
			s.log.Warn("a listener is not given to the agent", "address", address, "error", err)
		}
	})
	return &http.Server{Handler: mux, ReadHeaderTimeout: headerTime}
}
