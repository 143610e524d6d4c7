package webui

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/cli/top"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/api/connlimit"
)

// Source provides the data of the pages. Its methods may be called concurrently.
type Source interface {
	// Tasks returns all tasks, the newest first, with their usage.
	Tasks(ctx context.Context) ([]top.Task, error)
	// Explain returns the details of a task. A task that does not exist is ErrNotFound.
	Explain(ctx context.Context, id string) (top.Detail, error)
	// Lines returns the last lines that the containers of a task wrote.
	Lines(ctx context.Context, id string) ([]top.Line, error)
	// Services returns the services; none without an agent.
	Services(ctx context.Context) ([]api.Service, error)
}

// Actions changes tasks.
type Actions interface {
	// Stop stops a task and returns when it has stopped.
	Stop(ctx context.Context, id string) error
	// Restart stops a task and starts its definition again.
	Restart(ctx context.Context, id string) error
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
	s.mux.HandleFunc("GET /task/{id}", s.task)
	s.mux.HandleFunc("GET /task/{id}/timeline.svg", s.timeline)
	s.mux.HandleFunc("POST /task/{id}/{action}", s.act)
	s.mux.HandleFunc("GET /service/{name}", s.service)
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
		s.open(w, secret)
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
func (s *Server) open(w http.ResponseWriter, secret string) {
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
	s.page(w, "open.html", nil)
}

// act stops or restarts a task, and then shows it.
func (s *Server) act(w http.ResponseWriter, r *http.Request) {
	if s.actions == nil {
		http.Error(w, "This page is read-only: `podtask ui --write` allows changes.", http.StatusForbidden)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, 1<<12)
	if origin := r.Header.Get("Origin"); !same(r.PostFormValue("token"), s.token) || origin != "" && origin != "http://"+s.host {
		http.Error(w, "The form is not of this page.", http.StatusForbidden)
		return
	}
	id := r.PathValue("id")
	d, err := s.source.Explain(r.Context(), id)
	if err != nil {
		s.fail(w, err)
		return
	}
	do := map[string]func(context.Context, string) error{"stop": s.actions.Stop, "restart": s.actions.Restart}[r.PathValue("action")]
	if do == nil {
		http.NotFound(w, r)
		return
	}
	if err := do(r.Context(), d.Task.ID); err != nil {
		s.fail(w, err)
		return
	}
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func (s *Server) fail(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	if errors.Is(err, ErrNotFound) {
		code = http.StatusNotFound
	}
	http.Error(w, err.Error(), code)
}

//go:embed assets
var assets embed.FS

// pages has the templates. They are parsed when the first page is shown, because most processes show none.
var pages = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(helpers).ParseFS(assets, "assets/*.html"))
})

// page writes a page, or an error if its template fails.
func (s *Server) page(w http.ResponseWriter, name string, data any) {
	var out bytes.Buffer
	if err := pages().ExecuteTemplate(&out, name, data); err != nil {
		s.fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = out.WriteTo(w) // the browser may have closed the connection
}
