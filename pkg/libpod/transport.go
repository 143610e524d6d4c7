package libpod

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"sync"

	"github.com/containers/podman/v5/pkg/errorhandling"
)

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
