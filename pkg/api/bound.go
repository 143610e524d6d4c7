package api

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"path"
	"time"

	"github.com/podtask/podtask/pkg/api/connlimit"
)

// Time limits for what the client sends. Replies to clients that follow may take any time.
const (
	headerTimeout = 10 * time.Second
	bodyTimeout   = 30 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 64 << 10
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
		defer connlimit.Serving(r.Context())()
		h.ServeHTTP(w, r)
	})
}

// limitFollowers refuses requests that are followed when those use three quarters of the
// connections, so that clients that read slowly or never leave room for other requests, as
// that with which the agent feeds its watchdog.
func (s *Server) limitFollowers(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// That of the request before on this connection is over.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
		if !follows(r) {
			h.ServeHTTP(limited{w, s.replyTimeout}, r)
			return
		}
		defer s.following.Add(-1)
		if most := max(1, s.maxConnections*3/4); s.following.Add(1) > int64(most) {
			writeFailure(w, Failed(Busy, "%d clients follow events, logs and tasks, which is the most this process serves: end some of them", most))
			return
		}
		h.ServeHTTP(w, r)
	})
}

// follows reports whether the reply to a request may take any time: a client may pass a log
// to a pager, for instance.
func follows(r *http.Request) bool {
	switch path.Base(r.URL.Path) {
	case "watch", "pulls", "logs", "events":
		return true
	}
	return false
}

// replyTimeout limits the time that a client may take to read what does not fit into its socket.
const replyTimeout = 2 * time.Minute

// limited sets a time limit for each part of a reply.
type limited struct {
	http.ResponseWriter
	within time.Duration
}

func (l limited) Write(b []byte) (int, error) {
	_ = http.NewResponseController(l.ResponseWriter).SetWriteDeadline(time.Now().Add(l.within))
	return l.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (l limited) Unwrap() http.ResponseWriter { return l.ResponseWriter }

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
