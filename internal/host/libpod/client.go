package libpod

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/blang/semver/v4"
	"github.com/containers/podman/v5/pkg/bindings"
	"github.com/containers/podman/v5/pkg/errorhandling"
)

// TaskLabel is the label of every object that podtask creates; its value is the task's
// ID.
const TaskLabel = "podtask.task-id"

// specLabel holds the digest of the specification an object was made from, so that an
// object left by an earlier attempt is adopted only if it is the same.
const specLabel = "podtask.spec"

// missingLabel holds Observed.Missing.
const missingLabel = "podtask.missing-addresses"

// maxMutations is the number of calls that create and start objects that may run at once,
// and of those that remove some. Six were no faster than four when measured.
const maxMutations = 4

// mutateLinger is how long a call that makes or starts an object may continue after its
// context has ended. It is far longer than such a call takes unless Podman hangs.
const mutateLinger = 10 * time.Second

// DefaultIdleTimeout is how long a service started by Dial keeps running after its last
// connection is closed.
const DefaultIdleTimeout = 60 * time.Second

// Options say how to reach Podman. The zero value looks where Podman's own tools look.
type Options struct {
	// URI is a unix:// address (CONTAINER_HOST). If set, no other socket is tried and no
	// service is started. Other schemes are rejected, because a task's slice, ports and
	// namespaces must be on this machine.
	URI string
	// RuntimeDir replaces $XDG_RUNTIME_DIR.
	RuntimeDir string
	// Podman is the program that starts a service; "" means podman from PATH.
	Podman string
	// IdleTimeout is how long a service started by Dial runs without a connection, in
	// whole seconds; 0 means DefaultIdleTimeout.
	IdleTimeout time.Duration
	// Log gets a line for each request at the level debug; nil means none.
	Log *slog.Logger
}

// Client is a connection to one user's Podman. It is safe for concurrent use. Close it when done.
// The calls of one kind are in one file. A caller declares the few that it needs as an interface.
type Client struct {
	*connection
	service *service
	// stopKeeper stops the goroutine that keeps podtask's own service running; keeper
	// waits for it.
	stopKeeper context.CancelFunc
	keeper     sync.WaitGroup
}

// connection sends requests to the service, a bounded number of those that change
// its store at a time.
type connection struct {
	pool    *http.Transport
	context context.Context //nolint:containedctx // the bindings keep the connection in a context
	version semver.Version
	// users holds the user of each image that was looked up, by the image's ID.
	users sync.Map
	// monitored holds what inspections said of containers that run, by their names, until
	// they are waited for.
	monitored sync.Map
	exits     exitFiles
	storage   storage
	resizes   delayed
	// runtimeDir is where Podman keeps what does not outlive a reboot.
	runtimeDir string
	// makes and removals are apart, so that calls of one task that hang do not delay the
	// removal of another.
	makes, removals *slots
}

// Dial connects to Podman: to Options.URI if given, else to the user's socket
// $RuntimeDir/podman/podman.sock if it answers, else to podtask's own service on
// $RuntimeDir/podtask/podman.sock, which Dial starts if it is not running. That service
// runs in its own session, so Ctrl-C does not reach it. All of the user's podtask
// processes share it. It keeps running as long as one of them has a Client, and exits
// IdleTimeout after the last one.
//
// It is normal for a service to disappear (idle, restarted, killed): the next call finds
// or starts another one. Errors have class Unavailable, Canceled, Timeout or InvalidSpec
// (URI).
func Dial(ctx context.Context, o Options) (*Client, error) {
	s, err := newService(o)
	if err != nil {
		return nil, fail(ctx, "connect to Podman", o.URI, err)
	}
	bound, end, err := connect(ctx, s)
	if err != nil {
		return nil, err
	}
	conn, err := bindings.GetClient(bound)
	if err != nil {
		end()
		return nil, fail(ctx, "connect to Podman", s.path(), err)
	}
	// The default transport dials a fixed path and cannot find another service later.
	conn.Client.CloseIdleConnections()

	pool := &http.Transport{
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return s.dial(ctx) },
		DisableCompression:  true,
		MaxIdleConnsPerHost: maxMutations,
	}
	conn.Client = &http.Client{Transport: transport{next: pool, log: o.Log}}
	c := &Client{service: s, stopKeeper: end, connection: &connection{
		pool: pool, context: bound, version: *bindings.ServiceVersion(bound),
		makes: newSlots(maxMutations), removals: newSlots(maxMutations),
		storage: storage{log: o.Log, broken: s.end}, runtimeDir: cmp.Or(o.RuntimeDir, os.Getenv("XDG_RUNTIME_DIR")),
	}}
	c.keeper.Go(func() { c.keepServiceRunning(bound) })
	return c, nil
}

// connectAttempts is how often Dial tries to connect, because a service may end just after
// it was found.
const connectAttempts = 3

// connect finds or starts a service and makes a first request. end ends the context of the
// connection.
func connect(ctx context.Context, s *service) (bound context.Context, end func(), err error) {
	for n := 1; ; n++ {
		err := s.ensure(ctx)
		again := errors.Is(err, Temporary) // it was killed
		if err == nil {
			bound, end, err = bind(ctx, s.path())
			if err == nil {
				return bound, end, nil
			}
			again = true
		}
		err = fail(ctx, "connect to Podman", s.path(), err)
		if !again || !errors.Is(err, Temporary) && !errors.Is(err, Unavailable) || s.fixed != "" || n == connectAttempts {
			return nil, nil, err
		}
	}
}

// bind makes the bindings' connection to a socket. The connection outlives ctx, but its
// first request does not.
func bind(ctx context.Context, path string) (bound context.Context, end func(), err error) {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	detach := context.AfterFunc(ctx, end)
	bound, err = bindings.NewConnection(life, "unix://"+path)
	if !detach() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		end()
		return nil, nil, err
	}
	return bound, end, nil
}

// Close closes the connection. It does not interrupt calls in flight: cancel their
// contexts. Podman and its containers are not affected.
func (c *Client) Close() error {
	c.stopKeeper()
	c.keeper.Wait()
	c.exits.close()
	c.pool.CloseIdleConnections()
	return nil
}

// Version is the version of the libpod API that answered Dial, which is Podman's
// own version.
func (c *Client) Version() semver.Version { return c.version }

// keepServiceRunning keeps one connection to podtask's own service open. The service
// counts its connections to decide whether it is idle, and its HTTP server closes a quiet
// connection after twice the idle time, so one ping per idle time is enough. It uses a
// plain dialer, so that it never restarts a service that has exited.
func (c *Client) keepServiceRunning(ctx context.Context) {
	hold := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", c.service.path())
	}}
	defer hold.CloseIdleConnections()
	tick := time.NewTicker(c.service.idle / 2)
	defer tick.Stop()
	for {
		if c.service.own() {
			ping(ctx, hold)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// ping makes one request and ignores its outcome.
func ping(ctx context.Context, t http.RoundTripper) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://d/_ping", nil)
	if err != nil {
		return
	}
	res, err := t.RoundTrip(req)
	if err != nil {
		return
	}
	// Read to the end, else the connection is closed instead of kept.
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
}

// call returns the context to pass to a binding for one call.
func (c *connection) call(ctx context.Context) *callContext {
	return &callContext{Context: ctx, connection: c.context}
}

// mutate runs fn, which makes or starts an object, while it holds a slot. It waits for the
// reply even after ctx has ended, for up to mutateLinger: Podman completes the request
// anyway, and a caller that inspected, stopped or removed the object before that would find
// nothing and leave the new object or process behind. It returns an *Error.
func (c *connection) mutate(ctx context.Context, op, object string, fn func(ctx context.Context) error) error {
	return c.mutateIn(ctx, normal, op, object, fn)
}

// mutateIn is mutate for a call of a priority.
func (c *connection) mutateIn(ctx context.Context, p priority, op, object string, fn func(ctx context.Context) error) error {
	free, err := c.makes.take(ctx, p)
	if err != nil {
		return fail(ctx, op, object, err)
	}
	defer free()
	late, end := linger(ctx, mutateLinger)
	defer end()
	err = c.write(late, op, object, 0, fn)
	if incompleteNamespace(err) && c.repairNamespace(late) {
		err = c.write(late, op, object, 0, fn)
	}
	if late.Err() != nil {
		return fail(ctx, op, object, ctx.Err())
	}
	return err
}

// erase runs fn, which removes an object, while it holds a slot. It returns an *Error.
func (c *connection) erase(ctx context.Context, op, object string, fn func(ctx context.Context) error) error {
	free, err := c.removals.take(ctx, normal)
	if err != nil {
		return fail(ctx, op, object, err)
	}
	defer free()
	return c.write(ctx, op, object, 0, fn)
}

// slots limit the calls that run at once. They are there for speed, so a call that hangs
// does not keep its slot.
type slots struct {
	mu      sync.Mutex
	free    int
	waiting [2][]chan struct{} // of each priority, the calls that wait; a slot is sent to them
}

// priority tells which calls get a slot before others.
type priority int

// The start of an infra container takes as long as the creation of several containers, and
// the containers of its pod can be started only after it.
const (
	urgent priority = iota
	normal
)

// slotTime is how long a call keeps its slot. Few calls of a busy Podman take longer; one
// that hangs, perhaps on a mount of its task, may take minutes until its deadline.
const slotTime = 15 * time.Second

func newSlots(n int) *slots { return &slots{free: n} }

// take waits for a slot and returns how to free it.
func (s *slots) take(ctx context.Context, p priority) (free func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if turn := s.queue(p); turn != nil {
		select {
		case <-turn:
		case <-ctx.Done():
			s.leave(p, turn)
			return nil, ctx.Err()
		}
	}
	once := sync.OnceFunc(s.pass)
	late := time.AfterFunc(slotTime, once)
	return func() { late.Stop(); once() }, nil
}

// queue takes a free slot and returns nil, or returns where to wait for one.
func (s *slots) queue(p priority) (turn chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free > 0 {
		s.free--
		return nil
	}
	turn = make(chan struct{}, 1)
	s.waiting[p] = append(s.waiting[p], turn)
	return turn
}

// leave gives up waiting. A slot that has come meanwhile is passed on.
func (s *slots) leave(p priority, turn chan struct{}) {
	s.mu.Lock()
	i := slices.Index(s.waiting[p], turn)
	if i >= 0 {
		s.waiting[p] = slices.Delete(s.waiting[p], i, i+1)
	}
	s.mu.Unlock()
	if i < 0 {
		s.pass()
	}
}

// pass gives a slot to the call that waits for it, or frees it.
func (s *slots) pass() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p, calls := range s.waiting {
		if len(calls) > 0 {
			calls[0] <- struct{}{}
			s.waiting[p] = calls[1:]
			return
		}
	}
	s.free++
}

// linger returns a context that ends d after ctx, or when end is called.
func linger(ctx context.Context, d time.Duration) (late context.Context, end func()) {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	timer := time.AfterFunc(d, cancel)
	timer.Stop()
	stop := context.AfterFunc(ctx, func() { timer.Reset(d) })
	return late, func() {
		stop()
		timer.Stop()
		cancel()
	}
}

// ask runs fn, one call of the bindings that takes Podman only a moment, and maps its error
// to an *Error.
func (c *connection) ask(ctx context.Context, op, object string, fn func(ctx context.Context) error) error {
	limited, done := c.storage.within(ctx, 0, false)
	return done(c.await(limited, op, object, fn))
}

// write is ask for a call that writes Podman's storage, and may take grace longer.
func (c *connection) write(ctx context.Context, op, object string, grace time.Duration, fn func(ctx context.Context) error) error {
	limited, done := c.storage.within(ctx, grace, true)
	return done(c.await(limited, op, object, fn))
}

// await is ask for a call that may take any time.
func (c *connection) await(ctx context.Context, op, object string, fn func(ctx context.Context) error) error {
	call := c.call(ctx)
	return fail(call, op, object, fn(call))
}

// exchange records whether the request of a call got a reply.
type exchange struct {
	mu  sync.Mutex
	err error
}

type exchangeKey struct{}

func (x *exchange) lose(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.err = err
}

// lost returns why the request got no reply; nil if it got one.
func (x *exchange) lost() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.err
}

// callContext is the context of one call: its deadline and cancellation come from the
// caller, its connection from the context returned by bindings.NewConnection. Otherwise,
// canceling the context that was used to connect would end every later call.
type callContext struct {
	context.Context
	connection context.Context
	exchange   exchange
}

// Value looks at the caller's context first, so that the standard library finds
// the right parent to cancel with.
func (c *callContext) Value(key any) any {
	if _, ok := key.(exchangeKey); ok {
		return &c.exchange
	}
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.connection.Value(key)
}

// transport sends each request once. The bindings retry a failed request twice, with a
// body that is already consumed, and sleep for 600 ms in total even if the context is
// done: a canceled call would hang that long, and an error about the body would hide the
// real one. Therefore a failed exchange is recorded and answered with a synthetic reply,
// which the bindings treat as an error from the server.
type transport struct {
	next http.RoundTripper
	log  *slog.Logger
}

func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	began := time.Now()
	res, err := t.next.RoundTrip(req)
	t.note(req, res, time.Since(began))
	ex, ok := req.Context().Value(exchangeKey{}).(*exchange)
	if err == nil || !ok {
		return res, err
	}
	ex.lose(err)
	body, err := json.Marshal(errorhandling.ErrorModel{Message: "no reply from Podman", ResponseCode: statusNoReply})
	if err != nil {
		return nil, err
	}
	return &http.Response{
		Status: "599 No Reply", StatusCode: statusNoReply,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}},
		Body:   io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: req,
	}, nil
}

// note logs a request whose reply has begun. Queries are left out: they may hold what the
// user keeps to themselves.
func (t transport) note(req *http.Request, res *http.Response, took time.Duration) {
	if t.log == nil || !t.log.Enabled(req.Context(), slog.LevelDebug) {
		return
	}
	status := statusNoReply
	if res != nil {
		status = res.StatusCode
	}
	t.log.Debug("request", "method", req.Method, "path", req.URL.Path, "status", status, "took", took)
}
