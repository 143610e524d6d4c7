package faults

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
)

// Action is what a fault does with a request. It may pass the request on to next, the
// real service.
type Action func(w http.ResponseWriter, r *http.Request, next http.Handler)

// Status answers with an error as Podman words it (errorhandling.ErrorModel),
// without asking Podman. Cause is the innermost reason, which clients tell
// errors apart by.
func Status(status int, cause, message string) Action {
	body, err := json.Marshal(struct {
		Cause    string `json:"cause"`
		Message  string `json:"message"`
		Response int    `json:"response"`
	}{cause, message, status})
	if err != nil {
		panic(err) // two strings and a number
	}
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write(body) // the client has hung up if this fails
	}
}

// Drop cuts the connection before Podman hears of the request.
func Drop() Action {
	return func(http.ResponseWriter, *http.Request, http.Handler) { abort() }
}

// Lose lets Podman carry the request out and cuts the connection in place of the
// answer.
func Lose() Action {
	return func(_ http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(httptest.NewRecorder(), r)
		abort()
	}
}

// Reset lets Podman carry the request out, sends the head of its answer and half
// of the body, and cuts the connection. An answer without a body is lost whole.
func Reset() Action {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		answer := httptest.NewRecorder()
		next.ServeHTTP(answer, r)
		if body := answer.Body.Bytes(); len(body) > 0 {
			copyHead(w, answer)
			_, _ = w.Write(body[:len(body)/2]) // cut off in any case
			flush(w)
		}
		abort()
	}
}

// Hang holds the request until release is closed and then passes it on, or until
// the client gives up; then Podman never hears of it.
func Hang(release <-chan struct{}) Action {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		select {
		case <-release:
			next.ServeHTTP(w, r)
		case <-r.Context().Done():
			abort()
		}
	}
}

// Stall lets Podman carry the request out and sends its answer up to the n-th
// byte of the body, then nothing until release is closed or the client gives up.
// With n = 0 the head is held too.
func Stall(n int, release <-chan struct{}) Action {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		answer := httptest.NewRecorder()
		next.ServeHTTP(answer, r)
		body := answer.Body.Bytes()
		n := min(n, len(body))
		if n > 0 {
			copyHead(w, answer)
			_, _ = w.Write(body[:n]) // a client that hung up shows below
			flush(w)
		}
		select {
		case <-release:
		case <-r.Context().Done():
			abort()
		}
		if n == 0 {
			copyHead(w, answer)
		}
		_, _ = w.Write(body[n:]) // the client has hung up if this fails
	}
}

// Kill takes the proxy down, as if the service were killed with this request in
// it. If heard is set, Podman has carried it out before. Up brings it back.
func (p *Proxy) Kill(heard bool) Action {
	return func(_ http.ResponseWriter, r *http.Request, next http.Handler) {
		if heard {
			next.ServeHTTP(httptest.NewRecorder(), r)
		}
		p.cut()
		abort()
	}
}

// Lines changes a stream of lines, such as Podman's events: edit gets each line
// with its end, counted from 1, and says what is sent in its place. With cut the
// connection breaks after that.
func Lines(edit func(n int, line []byte) (send []byte, cut bool)) Action {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		editor := &lineEditor{ResponseWriter: w, edit: edit}
		defer func() {
			// The copying loop ends with a panic of its own when a write fails.
			if editor.broken {
				abort()
			}
		}()
		next.ServeHTTP(editor, r)
		if !editor.broken && len(editor.rest) > 0 {
			_, _ = w.Write(editor.rest) // a last line without an end
		}
	}
}

// HalfLine sends half of the n-th line of a stream and cuts the connection.
func HalfLine(n int) Action {
	return Lines(func(i int, line []byte) ([]byte, bool) {
		if i == n {
			return line[:len(line)/2], true
		}
		return line, false
	})
}

// DoubleLines sends each line of a stream twice.
func DoubleLines() Action {
	return Lines(func(_ int, line []byte) ([]byte, bool) { return bytes.Repeat(line, 2), false })
}

// OmitLines leaves out the lines of a stream for which omit is true.
func OmitLines(omit func(n int, line []byte) bool) Action {
	return Lines(func(i int, line []byte) ([]byte, bool) {
		if omit(i, line) {
			return nil, false
		}
		return line, false
	})
}

// errCut ends the copying of a stream that Lines has cut.
var errCut = errors.New("cut on order")

// lineEditor passes whole lines through edit as they come.
type lineEditor struct {
	http.ResponseWriter
	edit   func(n int, line []byte) ([]byte, bool)
	n      int
	rest   []byte // of a line whose end has not come
	broken bool
}

func (e *lineEditor) WriteHeader(status int) {
	e.Header().Del("Content-Length")
	e.ResponseWriter.WriteHeader(status)
}

func (e *lineEditor) Write(p []byte) (int, error) {
	if e.broken {
		return 0, errCut
	}
	e.rest = append(e.rest, p...)
	for {
		end := bytes.IndexByte(e.rest, '\n') + 1
		if end == 0 {
			return len(p), nil
		}
		e.n++
		send, cut := e.edit(e.n, bytes.Clone(e.rest[:end]))
		e.rest = e.rest[end:]
		if _, err := e.ResponseWriter.Write(send); err != nil {
			return 0, err
		}
		if cut {
			flush(e.ResponseWriter)
			e.broken = true
			return 0, errCut
		}
	}
}

// Unwrap lets http.ResponseController reach the connection.
func (e *lineEditor) Unwrap() http.ResponseWriter { return e.ResponseWriter }

func copyHead(w http.ResponseWriter, answer *httptest.ResponseRecorder) {
	for k, v := range answer.Header() {
		w.Header()[k] = v
	}
	w.WriteHeader(answer.Code)
}

func flush(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }

// abort cuts the connection of the request being handled.
func abort() { panic(http.ErrAbortHandler) }
