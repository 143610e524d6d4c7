package libpod

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/containers/podman/v5/pkg/errorhandling"
)

// mutateLinger is the time for which a call that creates or starts an object may continue
// after its context has ended. Such a call takes much less unless Podman hangs.
const mutateLinger = 10 * time.Second

// call returns the context of one call of the bindings.
func (c *Client) call(ctx context.Context) *callContext {
	return &callContext{Context: ctx, connection: c.context}
}

// mutate runs fn, which creates or starts an object, while it holds a slot. After ctx has
// ended, it still waits up to mutateLinger for the reply: Podman completes the request
// anyway, and a caller that inspected, stopped or removed the object before that would find
// nothing and leave the new object or process behind. It returns an *Error.
func (c *Client) mutate(ctx context.Context, op, object string, fn func(ctx context.Context) error) error {
	return c.mutateIn(ctx, normal, op, object, fn)
}

// mutateIn is mutate with a priority.
func (c *Client) mutateIn(ctx context.Context, p priority, op, object string, fn func(ctx context.Context) error) error {
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

// erase runs fn, which stops or removes an object, while it holds one of the slots. It returns an *Error.
func (c *Client) erase(ctx context.Context, of *slots, op, object string, fn func(ctx context.Context) error) error {
	free, err := of.take(ctx, normal)
	if err != nil {
		return fail(ctx, op, object, err)
	}
	defer free()
	return c.write(ctx, op, object, 0, fn)
}

// ask runs fn, a short call of the bindings that only reads, and converts its error to an
// *Error.
func (c *Client) ask(ctx context.Context, op, object string, fn func(ctx context.Context) error) error {
	watched, end := c.pulse.watch(ctx)
	limited, done := c.storage.within(watched, 0, false)
	return end(done(c.await(limited, op, object, fn)))
}

// write is ask for a call that writes to Podman's storage. The call may take grace longer than
// others.
func (c *Client) write(ctx context.Context, op, object string, grace time.Duration, fn func(ctx context.Context) error) error {
	watched, end := c.pulse.watch(ctx)
	limited, done := c.storage.within(watched, grace, true)
	return end(done(c.await(limited, op, object, fn)))
}

// watch runs fn, a call that may take long for good reasons, and ends it if the service does not even
// answer a ping. It returns an *Error.
func (c *Client) watch(ctx context.Context, op, object string, fn func(ctx context.Context) error) error {
	watched, end := c.pulse.watch(ctx)
	return end(c.await(watched, op, object, fn))
}

// await is watch for a call that lasts as long as its container. It does not notice that the service
// hangs.
func (c *Client) await(ctx context.Context, op, object string, fn func(ctx context.Context) error) error {
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

// lost returns the reason why the request got no reply; nil if it got one.
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
	need *need
}

func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	t.need.request()
	began := time.Now()
	res, err := t.next.RoundTrip(req)
	t.logRequest(req, res, time.Since(began))
	ex, ok := req.Context().Value(exchangeKey{}).(*exchange)
	if err == nil && res.StatusCode >= http.StatusBadRequest {
		// Podman's errors are JSON. Of others the bindings would quote the whole text, which may hold secrets.
		res.Header.Set("Content-Type", "application/json")
	}
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

// logRequest logs a request when its reply begins. It leaves out the query, which may contain
// private data.
func (t transport) logRequest(req *http.Request, res *http.Response, took time.Duration) {
	if t.log == nil || !t.log.Enabled(req.Context(), slog.LevelDebug) {
		return
	}
	status := statusNoReply
	if res != nil {
		status = res.StatusCode
	}
	t.log.Debug("request", "method", req.Method, "path", req.URL.Path, "status", status, "took", took)
}

// linger returns a context that ends when end is called, or a time d after ctx ends.
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
