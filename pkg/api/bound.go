package api

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/podtask/podtask/internal/limitlisten"
)

// Time limits for what the client sends. A reply may take any time, because clients follow
// watches, events and logs.
const (
	headerTimeout = 10 * time.Second
	bodyTimeout   = 30 * time.Second
	idleTimeout   = 2 * time.Minute
)

// bound reads the body of a request within a time limit, and protects the connection while
// the request is served.
func bound(h http.Handler, within time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := receiveBody(w, r, within); err != nil {
			w.Header().Set("Connection", "close")
			writeFailure(w, Failed(BadRequest, "read the request: %v", err))
			return
		}
		defer limitlisten.Serving(r.Context())()
		h.ServeHTTP(w, r)
	})
}

// receiveBody replaces the body by what the client has sent, up to one byte more than any
// handler accepts. The deadline must not outlive it: net/http cancels the context of a
// request when a read fails.
func receiveBody(w http.ResponseWriter, r *http.Request, within time.Duration) error {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	control := http.NewResponseController(w)
	err := control.SetReadDeadline(time.Now().Add(within))
	if errors.Is(err, http.ErrNotSupported) {
		return nil // no connection is behind it, as in a test with a recorder
	}
	if err != nil {
		return err
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 2*maxBody+1))
	if err != nil {
		return err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return control.SetReadDeadline(time.Time{})
}
