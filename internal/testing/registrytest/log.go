package registrytest

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Request is one request in the log. Headers and queries, where secrets travel,
// are not in it.
type Request struct {
	Method string
	Path   string
	Status int       // 0 while running, and if the connection was cut before an answer
	Bytes  int64     // length of the answer's body as sent
	Start  time.Time // when the request arrived
	End    time.Time // when the answer was complete; zero while running
	// Overlaps counts the other requests that ran at some time while this one did.
	Overlaps int
}

// requestLog notes the requests as they come and go.
type requestLog struct {
	mu      sync.Mutex
	idle    *sync.Cond // on mu: running became empty
	all     []*Request
	running map[*Request]bool
	out     io.Writer // nil: none
}

func newRequestLog(out io.Writer) *requestLog {
	l := &requestLog{running: make(map[*Request]bool), out: out}
	l.idle = sync.NewCond(&l.mu)
	return l
}

func (l *requestLog) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		entry := l.begin(r)
		counted := &countingWriter{ResponseWriter: w}
		defer func() { l.end(entry, counted) }() // also when a fault aborts the handler
		next.ServeHTTP(counted, r)
		if counted.status == 0 {
			counted.status = http.StatusOK // net/http sends it when nothing was written
		}
	})
}

func (l *requestLog) begin(r *http.Request) *Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	entry := &Request{Method: r.Method, Path: r.URL.Path, Start: time.Now(), Overlaps: len(l.running)}
	for other := range l.running {
		other.Overlaps++
	}
	l.running[entry] = true
	l.all = append(l.all, entry)
	return entry
}

func (l *requestLog) end(entry *Request, w *countingWriter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.running, entry)
	entry.End, entry.Status, entry.Bytes = time.Now(), w.status, w.bytes
	if len(l.running) == 0 {
		l.idle.Broadcast()
	}
	if l.out != nil {
		// A log that cannot be written must not fail the request.
		_, _ = fmt.Fprintf(l.out, "%s %s %s %d bytes=%d ms=%.1f overlaps=%d\n",
			entry.Start.Format("15:04:05.000000"), entry.Method, entry.Path, entry.Status, entry.Bytes,
			float64(entry.End.Sub(entry.Start).Microseconds())/1000, entry.Overlaps)
	}
}

// Log lists all requests so far in the order of their arrival.
func (l *requestLog) Log() []Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]Request, len(l.all))
	for i, r := range l.all {
		out[i] = *r
	}
	return slices.Clip(out)
}

// Settle waits until no request is running. A client has its answer a little
// before the log notes the end of the request.
func (l *requestLog) Settle() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.running) > 0 {
		l.idle.Wait()
	}
}

// ResetLog empties the log. Requests still running are left out for good.
func (l *requestLog) ResetLog() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = nil
}

// countingWriter notes what was answered.
type countingWriter struct {
	http.ResponseWriter
	status int
	bytes  int64
}

func (w *countingWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *countingWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(p)
	w.bytes += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController reach the connection.
func (w *countingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
