package webui

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/cli/timeline"
	"github.com/podtask/podtask/internal/cli/top"
	"github.com/podtask/podtask/internal/term"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/api/connlimit"
)

// Source provides the data of the pages. Its methods may be called concurrently.
type Source interface {
	// Tasks returns all tasks, the newest first, with their usage since the previous call.
	Tasks(ctx context.Context) ([]top.Task, error)
	// Explain returns the details of a task. A task that does not exist is ErrNotFound.
	Explain(ctx context.Context, id string) (top.Detail, error)
	// Lines calls fn, never concurrently, for lines that the containers of a task wrote, and returns its error. A task that does not
	// exist is ErrNotFound.
	Lines(ctx context.Context, id string, which Lines, fn func(Line) error) error
	// Services returns the services; none without an agent.
	Services(ctx context.Context) ([]api.Service, error)
	// Beside returns the schedules and stacks; those that are known come with an error.
	Beside(ctx context.Context) (console.Beside, error)
	// Host returns where the tasks run. What is not known is empty.
	Host(ctx context.Context) Host
}

// Host is the host of the tasks.
type Host struct {
	Name string
	// Version is that of podtask, Podman that of Podman, Agent that of the agent that runs; empty if none does.
	Version, Podman, Agent string
	// Local: the browser reaches the ports of the host as localhost.
	Local bool
}

// Lines says which lines to read.
type Lines struct {
	// Tail is the number of last lines of each container; negative for all.
	Tail int
	// Follow continues with new lines until the containers have ended.
	Follow bool
}

// Line is a line that a container wrote.
type Line struct {
	Container string    `json:"container"`
	Stderr    bool      `json:"stderr,omitempty"`
	Time      time.Time `json:"time,omitzero"`
	Text      string    `json:"text"`
}

// Actions changes tasks and services.
type Actions interface {
	// Stop stops a task and returns when it has stopped.
	Stop(ctx context.Context, id string) error
	// Restart stops a task and starts its definition again.
	Restart(ctx context.Context, id string) error
	// Continue ends the pause of a service's deployment.
	Continue(ctx context.Context, service string) error
	// Rollback returns a service to the revision before.
	Rollback(ctx context.Context, service string) error
}

// ErrNotFound is returned for a task or service that does not exist.
var ErrNotFound = errors.New("there is no such task or service")

// Server serves the pages. It is safe for concurrent use.
type Server struct {
	source  Source
	actions Actions // nil for a read-only server
	// host is NAME:PORT. The name is of this server alone and a secret: a browser sends a cookie to all
	// ports of a name, and on 127.0.0.1 other users and containers have some.
	host   string
	cookie string // its name
	mux    *http.ServeMux
	now    func() time.Time
	watch  watch

	mu      sync.Mutex // guards link
	link    string     // the secret of the one-time link; empty once it is used
	session string     // of the cookie
	token   string     // of the forms
}

// New returns a server for a port of loopback. Without actions it is read-only.
func New(port int, source Source, actions Actions, now func() time.Time) *Server {
	s := &Server{
		source: source, actions: actions, now: now, mux: http.NewServeMux(), link: rand.Text(), session: rand.Text(), token: rand.Text(),
		host:   net.JoinHostPort(strings.ToLower(rand.Text())+".localhost", strconv.Itoa(port)),
		cookie: fmt.Sprintf("podtask-session-%d", port),
	}
	s.mux.HandleFunc("GET /{$}", s.list)
	s.mux.HandleFunc("GET /task/{id}", s.ofTask(s.task))
	s.mux.HandleFunc("GET /task/{id}/timeline.svg", s.ofTask(drawing(timeline.Chart.SVG)))
	s.mux.HandleFunc("GET /task/{id}/timeline-narrow.svg", s.ofTask(drawing(timeline.Chart.NarrowSVG)))
	s.mux.HandleFunc("GET /task/{id}/inspect.json", s.ofTask(inspect))
	s.mux.HandleFunc("GET /task/{id}/log", s.ofTask(s.follow))
	s.mux.HandleFunc("GET /task/{id}/log.txt", s.ofTask(s.download))
	s.mux.HandleFunc("POST /task/{id}/{action}", s.changing(s.ofTask(s.actOnTask)))
	s.mux.HandleFunc("GET /logs", s.logs)
	s.mux.HandleFunc("GET /logs/follow", s.followAll)
	s.mux.HandleFunc("GET /service/{name}", s.service)
	s.mux.HandleFunc("POST /service/{name}/{action}", s.changing(s.actOnService))
	s.mux.Handle("GET /assets/", http.FileServerFS(assets))
	return s
}

// Link returns the URL that opens a session, once. Its host is a name below localhost, which browsers look up
// nowhere else (RFC 6761, section 6.3).
func (s *Server) Link() string { return "http://" + s.host + "/open/" + s.link }

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer connlimit.Serving(r.Context())()
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin") // with no-referrer, browsers do not send the origin of a form
	h.Set("Cache-Control", "no-store")
	if r.Host != s.host {
		// Who does not have the name must not learn it.
		http.Error(w, "Open the link that `podtask ui` has printed, with the name in it.", http.StatusMisdirectedRequest)
		return
	}
	if secret, ok := strings.CutPrefix(r.URL.Path, "/open/"); ok && r.Method == http.MethodGet {
		s.open(w, r, secret)
		return
	}
	c, err := r.Cookie(s.cookie)
	if err != nil || !same(c.Value, s.session) {
		http.Error(w, "Open the link that `podtask ui` has printed. It works once: start the command again for another one.", http.StatusForbidden)
		return
	}
	s.mux.ServeHTTP(w, r)
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// open invalidates the link and gives the browser its session.
func (s *Server) open(w http.ResponseWriter, r *http.Request, secret string) {
	s.mu.Lock()
	valid := s.link != "" && same(secret, s.link)
	if valid {
		s.link = ""
	}
	s.mu.Unlock()
	if !valid {
		http.Error(w, "This link was used already. Start `podtask ui` again for another one.", http.StatusForbidden)
		return
	}
	http.SetCookie(w, &http.Cookie{Name: s.cookie, Value: s.session, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
	// A redirect would not send a strict cookie if another site or program opened the link.
	s.page(w, r, "open.html", nil)
}

// ofTask finds the task of the path.
func (s *Server) ofTask(serve func(http.ResponseWriter, *http.Request, top.Detail)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		d, err := s.source.Explain(r.Context(), r.PathValue("id"))
		if err != nil {
			s.fail(w, r, err)
			return
		}
		serve(w, r, d)
	}
}

// actOnTask stops or restarts a task, and then shows the list.
func (s *Server) actOnTask(w http.ResponseWriter, r *http.Request, d top.Detail) {
	do := map[string]func(context.Context, string) error{"stop": s.actions.Stop, "restart": s.actions.Restart}[r.PathValue("action")]
	s.do(w, r, do, d.Task.ID, "/")
}

// actOnService continues or rolls back a deployment, and then shows the service.
func (s *Server) actOnService(w http.ResponseWriter, r *http.Request) {
	one, err := s.find(r.Context(), r.PathValue("name"))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	do := map[string]func(context.Context, string) error{"continue": s.actions.Continue, "rollback": s.actions.Rollback}[r.PathValue("action")]
	s.do(w, r, do, one.ServiceName, "/service/"+url.PathEscape(one.ServiceName))
}

// changing refuses a request that may change nothing: the server is read-only, or the form is not of its pages.
func (s *Server) changing(serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if s.actions == nil {
			http.Error(w, "This page is read-only: `podtask ui --write` allows changes.", http.StatusForbidden)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, 1<<12)
		if origin := r.Header.Get("Origin"); !same(r.PostFormValue("token"), s.token) || origin != "" && origin != "http://"+s.host {
			http.Error(w, "The form is not of this page.", http.StatusForbidden)
			return
		}
		serve(w, r)
	}
}

// do does an action; nil is one that does not exist.
func (s *Server) do(w http.ResponseWriter, r *http.Request, action func(context.Context, string) error, ref, then string) {
	if action == nil {
		s.fail(w, r, errNoPage)
		return
	}
	unhurried(w) // a task may take long to stop
	err := action(r.Context(), ref)
	s.watch.forget()
	if err != nil {
		s.fail(w, r, err)
		return
	}
	http.Redirect(w, r, then, http.StatusSeeOther)
}

// unhurried lets an answer take as long as it needs. A writer without time limits, as in tests, has no such methods.
func unhurried(w http.ResponseWriter) {
	c := http.NewResponseController(w)
	_, _ = c.SetReadDeadline(time.Time{}), c.SetWriteDeadline(time.Time{})
}

// errNoPage is the answer to a path without a page.
var errNoPage = fmt.Errorf("%w, and no such page", ErrNotFound)

// fail shows an error: as a page to a browser, as text to the script.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	code, title := http.StatusInternalServerError, "podtask cannot show this"
	if errors.Is(err, ErrNotFound) {
		code, title = http.StatusNotFound, "Not found"
	}
	if isLive(r) {
		http.Error(w, term.Line(err.Error()), code)
		return
	}
	v := s.view(r, title)
	v.Problem = err.Error()
	s.write(w, r, code, "error.html", v)
}

//go:embed assets
var assets embed.FS

// pages has the templates. They are parsed when the first page is shown, because most processes show none.
var pages = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(helpers).ParseFS(assets, "assets/*.html"))
})

// page writes a page, or an error if its template fails.
func (s *Server) page(w http.ResponseWriter, r *http.Request, name string, data any) {
	s.write(w, r, http.StatusOK, name, data)
}

func (s *Server) write(w http.ResponseWriter, r *http.Request, code int, name string, data any) {
	var out bytes.Buffer
	if err := pages().ExecuteTemplate(&out, name, data); err != nil {
		http.Error(w, "podtask ui: a page cannot be made: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if code == http.StatusOK {
		// The script asks again and again; most pages have not changed.
		sum := sha256.Sum256(out.Bytes())
		tag := `"` + hex.EncodeToString(sum[:16]) + `"`
		w.Header().Set("ETag", tag)
		if isLive(r) && r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	w.WriteHeader(code)
	_, _ = out.WriteTo(w) // the browser may have closed the connection
}

// isLive reports whether the script of a page asks for the same page again. It keeps the lines of the log itself.
func isLive(r *http.Request) bool { return r.Header.Get("Podtask-Live") != "" }
