package registrytest

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/testing/faults"
)

// Action is what a fault does with a request. It may pass the request on to
// next, which is the healthy registry, authentication included.
type Action = faults.Action

// Rule is a fault on order.
type Rule = faults.Rule

// Fault makes the next times requests (0: all, until removed) with that method
// (empty: any) and a path that the regular expression matches go through do.
// The oldest rule that matches wins. A bad expression panics.
func (r *Registry) Fault(method, path string, times int, do Action) *Rule {
	return r.rules.Fault(faults.Match{Method: method, Path: path, Times: times}, do)
}

// Status answers with an HTTP status and an error of the distribution
// specification; an empty code sends no body.
func Status(status int, code, message string) Action {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		if code == "" {
			w.WriteHeader(status)
			return
		}
		writeError(w, status, code, message)
	}
}

// TooManyRequests answers 429; retryAfter in whole seconds, none if negative.
func TooManyRequests(retryAfter int) Action {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		if retryAfter >= 0 {
			w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
		}
		writeError(w, http.StatusTooManyRequests, "TOOMANYREQUESTS", "too many requests")
	}
}

// Forgotten passes the request on as if it had come without credentials: what a token
// that has run out gets, challenge included.
func Forgotten() Action {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		r.Header.Del("Authorization")
		next.ServeHTTP(w, r)
	}
}

// Answer answers with an HTTP status, header fields and no body.
func Answer(status int, header map[string]string) Action {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		for name, value := range header {
			w.Header().Set(name, value)
		}
		w.WriteHeader(status)
	}
}

// Body answers 200 with a body of that content type.
func Body(contentType string, body []byte) Action {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write(body) // the client has hung up if this fails
	}
}

// Hang holds the request until release is closed, then passes it on; or until
// the client gives up or the registry closes.
func Hang(release <-chan struct{}) Action {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		select {
		case <-release:
			next.ServeHTTP(w, r)
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		}
	}
}

// Gather holds requests until n of them are there, then passes all on. It
// proves that a client asks in parallel: one that does not waits for ever.
func Gather(n int) Action {
	var mu sync.Mutex
	release := make(chan struct{})
	hold := Hang(release)
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		mu.Lock()
		n--
		if n == 0 {
			close(release)
		}
		mu.Unlock()
		hold(w, r, next)
	}
}

// Drop cuts the connection without an answer.
func Drop() Action {
	return func(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) }
}

// Reset sends the head of the true answer and half of its body, then cuts the
// connection; where there is no body, it cuts before the head.
func Reset() Action {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		healthy := record(r, next)
		if body := healthy.Body.Bytes(); len(body) > 0 && r.Method != http.MethodHead {
			sendHead(w, healthy)
			_, _ = w.Write(body[:len(body)/2]) // cut off in any case
			_ = http.NewResponseController(w).Flush()
		}
		panic(http.ErrAbortHandler)
	}
}

// Slow sends the true answer's body in pieces of that many bytes with a pause
// after each.
func Slow(piece int, pause time.Duration) Action {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		healthy := record(r, next)
		sendHead(w, healthy)
		control := http.NewResponseController(w)
		for part := range slices.Chunk(healthy.Body.Bytes(), piece) {
			if _, err := w.Write(part); err != nil {
				return
			}
			_ = control.Flush()
			select {
			case <-time.After(pause):
			case <-r.Context().Done():
				return
			}
		}
	}
}

// Halfway sends half of the true answer's body within that time, so that who reports
// bytes now and then has some to report, and the rest when release is closed.
func Halfway(within time.Duration, release <-chan struct{}) Action {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		healthy := record(r, next)
		sendHead(w, healthy)
		const pieces = 20
		body, control := healthy.Body.Bytes(), http.NewResponseController(w)
		for range pieces {
			n := len(healthy.Body.Bytes()) / (2 * pieces)
			_, _ = w.Write(body[:n]) // a client that has hung up is seen below
			_ = control.Flush()
			body = body[n:]
			select {
			case <-time.After(within / pieces):
			case <-r.Context().Done():
				return
			}
		}
		select {
		case <-release:
			_, _ = w.Write(body)
		case <-r.Context().Done():
		}
	}
}

// record is the healthy registry's answer.
func record(r *http.Request, next http.Handler) *httptest.ResponseRecorder {
	recorder := httptest.NewRecorder()
	next.ServeHTTP(recorder, r)
	return recorder
}

// sendHead sends status and header of a recorded answer.
func sendHead(w http.ResponseWriter, recorded *httptest.ResponseRecorder) {
	maps.Copy(w.Header(), recorded.Header())
	w.WriteHeader(recorded.Code)
}

// NoDigest passes on, but leaves the Docker-Content-Digest header out.
func NoDigest() Action {
	return editHeader(func(h http.Header) { h.Del("Docker-Content-Digest") })
}

// ContentType passes on, but claims another content type.
func ContentType(contentType string) Action {
	return editHeader(func(h http.Header) { h.Set("Content-Type", contentType) })
}

func editHeader(edit func(http.Header)) Action {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(&editingWriter{ResponseWriter: w, edit: edit}, r)
	}
}

// editingWriter changes the header at the last moment, if the answer is good.
type editingWriter struct {
	http.ResponseWriter
	edit func(http.Header)
}

func (w *editingWriter) WriteHeader(status int) {
	if status == http.StatusOK {
		w.edit(w.Header())
	}
	w.ResponseWriter.WriteHeader(status)
}

// Schema1 answers manifests with one of Docker's schema 1, as very old
// registries do; it is not signed and carries no digest header.
func Schema1() Action {
	return Body("application/vnd.docker.distribution.manifest.v1+json", []byte(
		`{"schemaVersion":1,"name":"old","tag":"latest","architecture":"amd64",`+
			`"fsLayers":[{"blobSum":"sha256:a3ed95caeb02ffe68cdd9fd84406680ae93d633cb16422d00e8a7c22955b46d4"}],`+
			`"history":[{"v1Compatibility":"{\"id\":\"0\"}"}]}`))
}
