package webui

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/docker/go-units"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/cli/top"
	"github.com/podtask/podtask/internal/term"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// helpers has the functions of the templates.
var helpers = template.FuncMap{
	"short": lifecycle.ShortID,
	"size":  func(n uint64) string { return units.BytesSize(float64(n)) },
	"where": func(container string) string {
		switch container {
		case "":
			return console.TaskLabel
		case lifecycle.Infra:
			return console.InfraLabel
		}
		return container
	},
	"clock": func(t time.Time) string { return t.Local().Format("15:04:05") },
	"line":  term.Line,
	"rest":  func(percent float64) float64 { return math.Round(1000-10*percent) / 10 },
	// progress is that of a deployment with stages that is under way; nil if there is none.
	"progress": func(s api.Service) *api.DeploymentProgress {
		if n := len(s.History); n > 0 && s.History[n-1].FinishedAt.IsZero() {
			return s.History[n-1].Progress
		}
		return nil
	},
	"ports":   func(t api.Task) string { return console.PortList(t.Ports) },
	"percent": func(n float64) string { return fmt.Sprintf("%.0f %%", n) },
}

// view has the data of all pages.
type view struct {
	Title, Back string
	Write       bool
	Token       string
	Now         time.Time
}

func (s *Server) view(title, back string) view {
	v := view{Title: title, Back: back, Write: s.actions != nil, Now: s.now()}
	if v.Write {
		v.Token = s.token
	}
	return v
}

func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	tasks, err := s.source.Tasks(r.Context())
	if err != nil {
		s.fail(w, err)
		return
	}
	services, err := s.source.Services(r.Context())
	if err != nil {
		s.fail(w, err)
		return
	}
	var hosts []top.HostState
	if h, ok := s.source.(top.Hosts); ok {
		hosts = h.Hosts()
	}
	all := r.URL.Query().Has("all")
	if !all {
		tasks = slices.DeleteFunc(tasks, func(t top.Task) bool { return t.Status == lifecycle.StatusStopped.String() })
	}
	s.page(w, "list.html", struct {
		view
		Tasks    []top.Task
		Services []api.Service
		All      bool
		Hosts    []top.HostState
		Several  bool
	}{s.view("Tasks", ""), tasks, services, all, hosts, len(hosts) > 1})
}

func (s *Server) task(w http.ResponseWriter, r *http.Request) {
	d, err := s.source.Explain(r.Context(), r.PathValue("id"))
	if err != nil {
		s.fail(w, err)
		return
	}
	lines, err := s.source.Lines(r.Context(), d.Task.ID)
	problem := ""
	if err != nil {
		problem = err.Error()
	}
	s.page(w, "task.html", struct {
		view
		top.Detail
		Steps   string
		Lines   []top.Line
		Problem string
	}{s.view(cmp.Or(d.Task.Name, lifecycle.ShortID(d.Task.ID)), "/"), d, d.Chart.Steps(100, func(_, text string) string { return text }), lines, problem})
}

// timeline serves the timeline of a task. The policy allows the styles that are in the picture.
func (s *Server) timeline(w http.ResponseWriter, r *http.Request) {
	d, err := s.source.Explain(r.Context(), r.PathValue("id"))
	if err != nil {
		s.fail(w, err)
		return
	}
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	w.Header().Set("Content-Type", "image/svg+xml")
	_, _ = w.Write([]byte(d.Chart.SVG())) // the browser may have closed the connection
}

func (s *Server) service(w http.ResponseWriter, r *http.Request) {
	services, err := s.source.Services(r.Context())
	if err != nil {
		s.fail(w, err)
		return
	}
	i := slices.IndexFunc(services, func(one api.Service) bool { return one.ServiceName == r.PathValue("name") })
	if i < 0 {
		s.fail(w, ErrNotFound)
		return
	}
	s.page(w, "service.html", struct {
		view
		Service api.Service
	}{s.view(services[i].ServiceName, "/"), services[i]})
}
