package faults

import (
	"net/http"
	"regexp"
	"sync"
)

// Call is one request in the log.
type Call struct {
	Method string
	// Endpoint is the path without version and with "*" in place of a name, for
	// example "containers/*/start".
	Endpoint string
	// Object is what stands there; empty where the path holds no name.
	Object string
	// Status is what the client was answered; 0 while the request runs, and if its
	// connection was cut before an answer.
	Status int
	// Served is false while the request runs.
	Served bool
}

// Name is method and endpoint, "POST containers/*/start" say.
func (c Call) Name() string { return c.Method + " " + c.Endpoint }

// callLog notes the requests as they come and go.
type callLog struct {
	mu  sync.Mutex
	all []*Call
}

// Calls lists all requests so far in the order of their arrival.
func (p *Proxy) Calls() []Call {
	p.calls.mu.Lock()
	defer p.calls.mu.Unlock()
	out := make([]Call, len(p.calls.all))
	for i, c := range p.calls.all {
		out[i] = *c
	}
	return out
}

// Count counts the requests so far by Call.Name.
func (p *Proxy) Count() map[string]int {
	counts := make(map[string]int)
	for _, c := range p.Calls() {
		counts[c.Name()]++
	}
	return counts
}

func (l *callLog) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &Call{Method: r.Method}
		c.Endpoint, c.Object = endpoint(r.URL.Path)
		l.mu.Lock()
		l.all = append(l.all, c)
		l.mu.Unlock()
		noted := &statusWriter{ResponseWriter: w, log: l, call: c}
		defer func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			c.Served = true
		}()
		next.ServeHTTP(noted, r)
	})
}

var (
	versionPrefix = regexp.MustCompile(`^/(v[0-9.]+/)?(libpod/)?`)
	collection    = regexp.MustCompile(`^[a-z]+/(create|json|pull|prune|load|stats)$`)
	objectVerb    = regexp.MustCompile(`^([a-z]+)/(.+)/(json|start|stop|kill|wait|healthcheck|logs|tag|exists|unpause|resize)$`)
	object        = regexp.MustCompile(`^([a-z]+)/(.+)$`)
)

// endpoint splits a path of Podman's API. Images' names hold slashes.
func endpoint(path string) (endpoint, name string) {
	path = versionPrefix.ReplaceAllString(path, "")
	if collection.MatchString(path) {
		return path, ""
	}
	if m := objectVerb.FindStringSubmatch(path); m != nil {
		return m[1] + "/*/" + m[3], m[2]
	}
	if m := object.FindStringSubmatch(path); m != nil {
		return m[1] + "/*", m[2]
	}
	return path, ""
}

// statusWriter notes the status of an answer as it is sent.
type statusWriter struct {
	http.ResponseWriter
	log  *callLog
	call *Call
}

func (w *statusWriter) note(status int) {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	if w.call.Status == 0 && status >= 200 {
		w.call.Status = status
	}
}

func (w *statusWriter) WriteHeader(status int) {
	w.note(status)
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(p []byte) (int, error) {
	w.note(http.StatusOK) // net/http's default
	return w.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
