package libpod

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/blang/semver/v4"
	"github.com/containers/podman/v5/pkg/bindings"
	"github.com/containers/podman/v5/pkg/errorhandling"
)

// TaskLabel is the label that makes a pod or container ours; its value is the
// task's id.
const TaskLabel = "podtask.task-id"

// specLabel holds the digest of the specification an object was made from, so
// that one left by an earlier attempt is adopted only if it is the same.
const specLabel = "podtask.spec"

// maxMutations is how many calls that change Podman's store may run at once:
// measured, six gained nothing over four.
const maxMutations = 4

// createLinger is far more than a create takes that Podman is not stuck in.
const createLinger = 10 * time.Second

// DefaultIdleTimeout is how long a service started by Dial outlives its last
// connection.
const DefaultIdleTimeout = 60 * time.Second

// Options say where Podman is. The zero value means: as Podman's own tools do.
type Options struct {
	// URI is a unix:// address (CONTAINER_HOST). With it, no other socket is tried
	// and no service is started. Other schemes are refused: a task's slice, ports
	// and namespaces are on this machine.
	URI string
	// RuntimeDir replaces $XDG_RUNTIME_DIR.
	RuntimeDir string
	// Podman is the program to start a service with; "" means podman from PATH.
	Podman string
	// IdleTimeout is how long a service started here stays without a connection,
	// in whole seconds; 0 means DefaultIdleTimeout.
	IdleTimeout time.Duration
}

// Client is a connection to one user's Podman. It is safe for concurrent use.
// Close it when done. Its calls are grouped by what they are about; a caller
// declares the few that it needs as an interface of its own.
type Client struct {
	*connection
	podAPI
	containerAPI
	inspectAPI
	imageAPI
	networkAPI
	volumeAPI
	secretAPI
	execAPI

	service *service
	// stopKeeper ends the goroutine that keeps our own service running, which
	// keeper waits for.
	stopKeeper context.CancelFunc
	keeper     sync.WaitGroup
}

// The parts of a Client, by what their calls are about. They share one connection.
type (
	podAPI       struct{ *containerAPI }
	containerAPI struct {
		*inspectAPI
		images   *imageAPI
		networks *networkAPI
		// users holds the user that each image runs as, by the image's id.
		users sync.Map
	}
	inspectAPI struct{ *connection }
	imageAPI   struct{ *connection }
	networkAPI struct{ *connection }
	volumeAPI  struct{ *connection }
	secretAPI  struct{ *connection }
	execAPI    struct{ *connection }
)

// newClient assembles the parts of a Client around one connection.
func newClient(conn *connection, s *service) *Client {
	c := &Client{
		connection: conn, inspectAPI: inspectAPI{conn}, imageAPI: imageAPI{conn}, networkAPI: networkAPI{conn},
		volumeAPI: volumeAPI{conn}, secretAPI: secretAPI{conn}, execAPI: execAPI{conn}, service: s,
	}
	c.containerAPI.inspectAPI, c.images, c.containerAPI.networks = &c.inspectAPI, &c.imageAPI, &c.networkAPI
	c.podAPI.containerAPI = &c.containerAPI
	return c
}

// connection sends requests to the service, a bounded number of those that change
// its store at a time.
type connection struct {
	pool    *http.Transport
	context context.Context //nolint:containedctx // the bindings keep the connection in a context
	version semver.Version
	slots   chan struct{}
}

// Dial connects to Podman: to Options.URI if given, else to the user's socket
// $RuntimeDir/podman/podman.sock if it answers, else to a service of our own on
// $RuntimeDir/podtask/podman.sock, which is started if it does not run. That one
// lives in a session of its own, so a Ctrl-C does not reach it; it is shared by
// all of the user's podtask processes, kept up as long as one of them has a
// Client, and ends by itself IdleTimeout after the last one.
//
// A service that went away (idle, restarted, killed) is normal: every later call
// finds or starts one again. Errors have class Unavailable, Canceled, Timeout or
// InvalidSpec (URI).
func Dial(ctx context.Context, o Options) (*Client, error) {
	s, err := newService(o)
	if err != nil {
		return nil, fail(ctx, "connect to Podman", o.URI, err)
	}
	if err := s.ensure(ctx); err != nil {
		return nil, fail(ctx, "connect to Podman", s.path(), err)
	}
	// The connection outlives ctx, but its first ping must not.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	detach := context.AfterFunc(ctx, end)
	bound, err := bindings.NewConnection(life, "unix://"+s.path())
	if !detach() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		end()
		return nil, fail(ctx, "connect to Podman", s.path(), err)
	}
	conn, err := bindings.GetClient(bound)
	if err != nil {
		end()
		return nil, fail(ctx, "connect to Podman", s.path(), err)
	}
	// Its own transport knows one path and no way to find another service later.
	conn.Client.CloseIdleConnections()

	pool := &http.Transport{
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return s.dial(ctx) },
		DisableCompression:  true,
		MaxIdleConnsPerHost: maxMutations,
	}
	conn.Client = &http.Client{Transport: transport{next: pool}}
	c := newClient(&connection{
		pool: pool, context: bound, version: *bindings.ServiceVersion(bound), slots: make(chan struct{}, maxMutations),
	}, s)
	c.stopKeeper = end
	c.keeper.Go(func() { c.keepServiceRunning(life) })
	return c, nil
}

// Close ends the connection. Calls in flight are not interrupted: cancel their
// contexts. Podman and its containers are not touched.
func (c *Client) Close() error {
	c.stopKeeper()
	c.keeper.Wait()
	c.pool.CloseIdleConnections()
	return nil
}

// Version is the version of the libpod API that answered Dial, which is Podman's
// own version.
func (c *Client) Version() semver.Version { return c.version }

// keepServiceRunning holds one connection to our own service open. The service's idle tracker
// counts connections, and its HTTP server closes a quiet one after twice the idle
// time; so a ping within the idle time is enough. The dialer is a plain one: a
// service that is gone is not started again just to be kept up.
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

// ping makes one request whose outcome does not matter.
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

// call returns the context to give to a binding for one call.
func (c *connection) call(ctx context.Context) *callContext {
	return &callContext{Context: ctx, connection: c.context}
}

// mutate runs fn while holding one of the slots for calls that change the store.
// It returns an *Error.
func (c *connection) mutate(ctx context.Context, op, object string, fn func(ctx context.Context) error) error {
	if err := c.take(ctx); err != nil {
		return fail(ctx, op, object, err)
	}
	defer c.free()
	return c.ask(ctx, op, object, fn)
}

// create is mutate for a call that makes something. Once sent it is waited for,
// if need be for createLinger after the end of ctx: Podman carries it out all the
// same, and who looked or removed meanwhile would find nothing and leave behind
// what comes after.
func (c *connection) create(ctx context.Context, op, object string, fn func(ctx context.Context) error) error {
	if err := c.take(ctx); err != nil {
		return fail(ctx, op, object, err)
	}
	defer c.free()
	late, end := linger(ctx, createLinger)
	defer end()
	err := c.ask(late, op, object, fn)
	if late.Err() != nil {
		return fail(ctx, op, object, ctx.Err())
	}
	return err
}

// take waits for a slot.
func (c *connection) take(ctx context.Context) error {
	select {
	case c.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := ctx.Err(); err != nil { // both were ready
		c.free()
		return err
	}
	return nil
}

func (c *connection) free() { <-c.slots }

// linger returns a context that ends d after ctx does, or with end.
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

// ask runs fn, one call of the bindings, and maps its error to an *Error.
func (c *connection) ask(ctx context.Context, op, object string, fn func(ctx context.Context) error) error {
	call := c.call(ctx)
	return fail(call, op, object, fn(call))
}

// exchange records what became of the one request of a call.
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

// lost returns why the request got no reply, nil if it got one.
func (x *exchange) lost() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.err
}

// callContext is the context of one call: deadline and cancellation are the
// caller's, the connection comes from the context made by bindings.NewConnection.
// Without it, canceling the context used to connect would end every later call.
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

// transport sends each request once. The bindings repeat a request that failed
// twice more, with a body that is already consumed, and sleep 600 ms in all
// whether or not the context is done: a canceled call would hang that long, and
// its real error would be replaced by a complaint about the body. So a failed
// exchange is recorded and answered with a made-up reply, which the bindings
// take for an error from the server.
type transport struct {
	next http.RoundTripper
}

func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := t.next.RoundTrip(req)
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
