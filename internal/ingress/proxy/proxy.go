package proxy

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/podtask/podtask/internal/forward"
	"github.com/podtask/podtask/internal/ingress"
	"github.com/podtask/podtask/internal/ingress/routefile"
	"github.com/podtask/podtask/pkg/taskdef"
)

// Config is how a Proxy works. Zero values stand for the defaults.
type Config struct {
	Log *slog.Logger
	// Access, if not nil, gets a record of each request that has ended. It is called concurrently.
	Access func(Record)
	// SecurePort is where a client that has named another port than 80 is redirected to (443). One that has named
	// none came by 80, perhaps by a redirect of the host, and is sent to 443.
	SecurePort int
	// Patience limits the wait of a request for a copy that accepts a connection (10 s); each copy is tried first, however
	// long that takes. DialTimeout limits one attempt (2 s).
	Patience, DialTimeout time.Duration
	// Use returns what notes the requests to a service; nil: they are not noted.
	Use func(service string) *forward.Use
	// CloseTime limits the time that a client may keep a WebSocket open that the copy has ended (5 s).
	CloseTime time.Duration
}

const (
	defaultPatience    = 10 * time.Second
	defaultCloseTime   = 5 * time.Second
	defaultDialTimeout = 2 * time.Second
	// redial is the pause before a copy is dialed again that could not be.
	redial = 100 * time.Millisecond
	// idleCopy is the time for which a connection to a copy is kept without a request. Some servers close theirs after 5 s: a request
	// that is sent just then is lost.
	idleCopy = 4 * time.Second
	// retryAfter is what a client is told to wait while there is no copy, in seconds.
	retryAfter = "2"
)

// Proxy is a handler of requests. Its methods may be called concurrently.
type Proxy struct {
	cfg     Config
	reverse *httputil.ReverseProxy
	auth    verifier

	mu       sync.Mutex
	table    routefile.Table
	routes   map[string]*upstream // by key of the route
	open     map[string]int       // requests that are under way, by id of the task, also of one that was taken away
	changed  chan struct{}        // closed and replaced when a field above changes
	requests map[requestKey]uint64
}

// upstream are the copies of a route.
type upstream struct {
	balance    forward.Balance
	transports map[string]*http.Transport // by address
	protocol   string
	idle       time.Duration
}

// requestKey is what requests are counted by.
type requestKey struct {
	Service string
	Class   int // the hundreds of the status
}

// New returns a proxy without routes.
func New(cfg Config) *Proxy {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Access == nil {
		cfg.Access = func(Record) {}
	}
	if cfg.Use == nil {
		cfg.Use = func(string) *forward.Use { return nil }
	}
	cfg.SecurePort = cmp.Or(cfg.SecurePort, 443)
	cfg.CloseTime = cmp.Or(cfg.CloseTime, defaultCloseTime)
	cfg.Patience, cfg.DialTimeout = cmp.Or(cfg.Patience, defaultPatience), cmp.Or(cfg.DialTimeout, defaultDialTimeout)
	p := &Proxy{cfg: cfg, routes: map[string]*upstream{}, open: map[string]int{}, changed: make(chan struct{}), requests: map[requestKey]uint64{}}
	p.reverse = &httputil.ReverseProxy{
		ModifyResponse: func(r *http.Response) error {
			r.Header.Del("X-Request-Id") // there is one already
			return nil
		},
		Rewrite: rewrite, Transport: roundTripper{p}, ErrorHandler: p.failed, BufferPool: buffers{},
		ErrorLog: log.New(io.Discard, "", 0), // the access log has what went wrong
	}
	return p
}

// Load replaces the routes. Requests that are under way continue where they are.
func (p *Proxy) Load(t routefile.Table) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.routes
	p.table, p.routes = t, make(map[string]*upstream, len(t.Routes))
	for _, r := range t.Routes {
		u := before[r.Key()]
		if u == nil || u.protocol != r.Protocol || u.idle != r.Idle() {
			u = &upstream{transports: map[string]*http.Transport{}, protocol: r.Protocol, idle: r.Idle()}
		}
		var sets []forward.Set
		present := map[string]bool{}
		for _, g := range r.Groups {
			set := forward.Set{ID: g.Deployment, Weight: g.Weight}
			for _, target := range g.Targets {
				set.Targets = append(set.Targets, forward.Target{ID: target.ID, Address: target.Address})
				present[target.Address] = true
				if u.transports[target.Address] == nil {
					u.transports[target.Address] = newTransport(target.Address, u.protocol, u.idle, p.cfg.DialTimeout)
				}
			}
			sets = append(sets, set)
		}
		u.balance.Route(sets...)
		for address, transport := range u.transports {
			if !present[address] {
				delete(u.transports, address)
				transport.CloseIdleConnections()
			}
		}
		p.routes[r.Key()] = u
	}
	for key, u := range before {
		if p.routes[key] != u {
			for _, transport := range u.transports {
				transport.CloseIdleConnections()
			}
		}
	}
	p.change()
}

// change wakes those who wait. The caller holds mu.
func (p *Proxy) change() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// Drain returns when no request to a task is under way, or with the error of ctx.
func (p *Proxy) Drain(ctx context.Context, id string) error {
	return p.whenNone(ctx, func() int { return p.open[id] })
}

// DrainAll returns when no request is under way, or with the error of ctx.
func (p *Proxy) DrainAll(ctx context.Context) error {
	return p.whenNone(ctx, func() int { return len(p.open) })
}

func (p *Proxy) whenNone(ctx context.Context, n func() int) error {
	return forward.WhenNone(ctx, func() (int, <-chan struct{}) {
		p.mu.Lock()
		defer p.mu.Unlock()
		return n(), p.changed
	})
}

// Table returns the routes.
func (p *Proxy) Table() routefile.Table {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.table
}

// Open returns the number of requests that are under way, by id of the task.
func (p *Proxy) Open() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.open)
}

// Counts returns what was counted since the start.
func (p *Proxy) Counts() []ingress.Count {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := []ingress.Count{}
	for k, n := range p.requests {
		all = append(all, ingress.Count{Service: k.Service, Class: k.Class, Count: n})
	}
	slices.SortFunc(all, func(a, b ingress.Count) int { return cmp.Or(strings.Compare(a.Service, b.Service), a.Class-b.Class) })
	return all
}

// exchange is a request and what becomes of it.
type exchange struct {
	route  routefile.Route
	client string // IP address
	secure bool
	id     string
	turn   string
	target string // id of the task; empty before one was dialed
	fault  string // why there is no answer of a copy
	body   atomic.Int64
	slow   atomic.Bool // the client sent nothing of its body for too long
}

type exchangeKey struct{}

func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// Handler answers requests that came with TLS, or without.
func (p *Proxy) Handler(secure bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun := time.Now()
		x := &exchange{client: clientIP(r), secure: secure, id: newID()}
		out := &recorder{ResponseWriter: w, closeTime: p.cfg.CloseTime}
		out.Header().Set("X-Request-Id", x.id)
		defer func() {
			out.done()
			p.record(x, r, out, begun)
			p.release(x.target) // last: what Drain has waited for is in the log
		}()
		p.serve(out, r, x)
	})
}

// serve answers a request.
func (p *Proxy) serve(w *recorder, r *http.Request, x *exchange) {
	if r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
		// RFC 9112, 6.3: with a Content-Length besides, which net/http removes, the connection has to be closed. A
		// proxy in front may have taken the rest of the body for another request.
		w.Header().Set("Connection", "close")
	}
	host, err := requestHost(r)
	if err != nil {
		refuse(w, x, http.StatusBadRequest, err.Error())
		return
	}
	if r.Method == http.MethodConnect || r.Method == http.MethodTrace {
		refuse(w, x, http.StatusMethodNotAllowed, "the method "+r.Method+" is not forwarded")
		return
	}
	if !strings.HasPrefix(r.URL.Path, "/") {
		refuse(w, x, http.StatusBadRequest, "the path does not begin with a slash")
		return
	}
	table := p.Table()
	route, found := table.Find(x.secure, host, r.URL.Path)
	if !found && !x.secure {
		if _, found = table.Find(true, host, r.URL.Path); found {
			p.redirect(w, r, host)
			return
		}
	}
	if !found {
		refuse(w, x, http.StatusNotFound, "no service has this address")
		return
	}
	x.route = route
	switch {
	// A client that has proved nothing for this name may not use a connection made for another one.
	case r.TLS != nil && r.TLS.ServerName != "" && normalHost(r.TLS.ServerName) != host:
		refuse(w, x, http.StatusMisdirectedRequest, "the connection was made for another name")
		return
	case confusing(table, x.secure, host, r.URL, route):
		refuse(w, x, http.StatusBadRequest, "the path means another one to other programs: send it without . and .., parameters (;), and escaped or other characters that mean a slash or nothing")
		return
	}
	if !p.auth.allows(r, route) {
		w.Header().Set("WWW-Authenticate", `Basic realm="`+route.Service+`", charset="UTF-8"`)
		refuse(w, x, http.StatusUnauthorized, "name and password are required")
		return
	}
	if route.Auth != "" {
		r.Header.Del("Authorization") // it is ours
	}
	if most := route.MaxBody; most > 0 && r.ContentLength > most {
		w.Header().Set("Connection", "close")
		refuse(w, x, http.StatusRequestEntityTooLarge, "the body is larger than "+strconv.FormatInt(most, 10)+" bytes")
		return
	}
	defer p.cfg.Use(route.Service).Begin()()
	w.pause = route.BodyPause()
	limitBody(w, r, x)
	p.reverse.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x)))
}

// limitBody limits the size of a body, and the time in which nothing comes of it.
func limitBody(w *recorder, r *http.Request, x *exchange) {
	if r.Body == nil || r.Body == http.NoBody {
		return
	}
	pause := x.route.BodyPause()
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
		pause = x.route.Idle() // a stream in both directions
	}
	if most := x.route.MaxBody; most > 0 {
		r.Body = http.MaxBytesReader(w.ResponseWriter, r.Body, most)
	}
	r.Body = &pacedBody{ReadCloser: r.Body, control: http.NewResponseController(w.ResponseWriter), pause: pause, exchange: x}
}

// redirect answers a request without TLS for an address that has it.
func (p *Proxy) redirect(w http.ResponseWriter, r *http.Request, host string) {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if _, _, err := net.SplitHostPort(r.Host); err == nil && p.cfg.SecurePort != 443 {
		host += ":" + strconv.Itoa(p.cfg.SecurePort)
	}
	code := http.StatusPermanentRedirect
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		code = http.StatusMovedPermanently
	}
	w.Header().Set("Location", "https://"+host+r.URL.RequestURI())
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(code)
}

// refuse answers without a copy.
func refuse(w http.ResponseWriter, x *exchange, status int, why string) {
	x.fault = why
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, http.StatusText(status)+": "+why+" (request "+x.id+")\n")
}

// failed answers a request that no copy has answered.
func (p *Proxy) failed(w http.ResponseWriter, r *http.Request, err error) {
	x := exchangeOf(r.Context())
	var large *http.MaxBytesError
	var network net.Error
	switch {
	case errors.As(err, &large):
		refuse(w, x, http.StatusRequestEntityTooLarge, "the body is larger than "+strconv.FormatInt(large.Limit, 10)+" bytes")
	case errors.Is(err, errNoCopy) && x.route.Sleep.After > 0:
		waking(w, r, x)
	case errors.Is(err, errNoCopy):
		w.Header().Set("Retry-After", retryAfter)
		refuse(w, x, http.StatusServiceUnavailable, "no copy of the service can be reached")
	case x.slow.Load():
		w.Header().Set("Connection", "close")
		refuse(w, x, http.StatusRequestTimeout, "the body did not come in time")
	case r.Context().Err() != nil:
		refuse(w, x, 499, "the client went away")
	case errors.As(err, &network) && network.Timeout():
		refuse(w, x, http.StatusGatewayTimeout, "the service did not answer in time")
	default:
		p.cfg.Log.Debug("a copy did not answer", "task", x.target, "request", x.id, "error", err)
		refuse(w, x, http.StatusBadGateway, "the service did not answer")
	}
}

// errNoCopy: no copy could be dialed in time.
var errNoCopy = errors.New("no copy can be reached")

// roundTripper sends a request to a copy.
type roundTripper struct{ p *Proxy }

// RoundTrip implements http.RoundTripper.
func (t roundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	x := exchangeOf(r.Context())
	longest := t.p.cfg.Patience
	if x.route.Sleep.After > 0 {
		longest = x.route.Sleep.Hold
	}
	patience := time.NewTimer(longest)
	defer patience.Stop()
	var waited func()
	defer func() {
		if waited != nil {
			waited()
		}
	}()
	var failed []string
	for {
		target, transport, changed := t.p.pick(x, failed)
		if transport == nil {
			// Each was tried, or there is none.
			again := redial
			if len(failed) == 0 {
				if again = longest; waited == nil {
					waited = t.p.cfg.Use(x.route.Service).Wait()
				}
			}
			wait := time.NewTimer(again)
			select {
			case <-changed:
			case <-wait.C:
			case <-patience.C:
				wait.Stop()
				return nil, errNoCopy
			case <-r.Context().Done():
				wait.Stop()
				return nil, r.Context().Err()
			}
			wait.Stop()
			failed = nil
			continue
		}
		resp, err := transport.RoundTrip(requestTo(r, target.Address))
		if _, ok := errors.AsType[*dialError](err); ok && r.Context().Err() == nil && x.body.Load() == 0 {
			t.p.cfg.Log.Debug("a copy cannot be dialed", "task", target.ID, "address", target.Address, "error", err)
			t.p.release(x.target)
			x.target = ""
			failed = append(failed, target.ID)
			continue // a copy that was not tried may still answer, however long the dial took
		}
		return resp, err
	}
}

// requestTo returns the request for one copy.
func requestTo(r *http.Request, address string) *http.Request {
	u := *r.URL
	u.Host = address
	out := r.WithContext(r.Context())
	out.URL = &u
	if r.Body != nil && r.Body != http.NoBody {
		out.Body = io.NopCloser(r.Body) // a copy that cannot be dialed closes it; the server does so in the end
	}
	return out
}

// pick chooses a copy that is not among those that failed, and counts the request to it. Without one
// the transport is nil.
func (p *Proxy) pick(x *exchange, failed []string) (forward.Target, *http.Transport, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	u := p.routes[x.route.Key()]
	if u == nil {
		return forward.Target{}, nil, p.changed
	}
	if x.turn == "" {
		x.turn = u.balance.Turn()
	}
	target, found := u.balance.Pick(x.turn, failed, func(id string) int { return p.open[id] })
	if !found {
		return target, nil, p.changed
	}
	p.open[target.ID]++
	x.target = target.ID
	return target, u.transports[target.Address], p.changed
}

// release counts a request to a copy less.
func (p *Proxy) release(id string) {
	if id == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open[id]--; p.open[id] <= 0 {
		delete(p.open, id)
		p.change()
	}
}

// newTransport returns what keeps connections to a copy.
func newTransport(address, protocol string, idle, dialTimeout time.Duration) *http.Transport {
	dialer := net.Dialer{Timeout: dialTimeout}
	t := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, "tcp", address)
			if err != nil {
				return nil, &dialError{err}
			}
			return newQuietConn(c, idle), nil
		},
		DisableCompression:     true,
		MaxIdleConns:           256,
		MaxIdleConnsPerHost:    256,
		IdleConnTimeout:        idleCopy,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: 256 << 10,
	}
	if protocol == taskdef.ProtocolH2C {
		t.Protocols = new(http.Protocols)
		t.Protocols.SetUnencryptedHTTP2(true)
	}
	return t
}

// dialError is that of a connection that was not made.
type dialError struct{ error }

func (e *dialError) Unwrap() error { return e.error }

// buffers is the pool of httputil.ReverseProxy.
type buffers struct{}

var bufferPool = sync.Pool{New: func() any { return new([32 << 10]byte) }}

func (buffers) Get() []byte  { return bufferPool.Get().(*[32 << 10]byte)[:] }
func (buffers) Put(b []byte) { bufferPool.Put((*[32 << 10]byte)(b)) }
