package webui

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/cli/top"
	"github.com/podtask/podtask/internal/term"
)

const (
	// pageTail is how many last lines of each container a page has without its script, followTail how many with it.
	pageTail, followTail = 200, 1000
	// writeTime limits the time that a browser may take for what it is sent.
	writeTime = 30 * time.Second
)

// follow sends the last lines of a task and then new ones, each as a line of JSON, until the containers have ended. The
// texts have nothing that steers a terminal.
func (s *Server) follow(w http.ResponseWriter, r *http.Request, d top.Detail) {
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	lines, ended := make(chan Line, 256), make(chan error, 1)
	go func() {
		defer close(lines)
		ended <- s.source.Lines(ctx, d.Task.ID, Lines{Tail: followTail, Follow: true}, func(l Line) error {
			select {
			case lines <- l:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
	}()
	unhurried(w)
	w.Header().Set("Content-Type", "application/x-ndjson; charset=utf-8")
	out := stream{json.NewEncoder(w), http.NewResponseController(w)}
	_ = out.c.Flush() // the browser is to know at once that it is connected
	for l := range lines {
		l.Text, l.Container = term.Line(l.Text), term.Line(l.Container)
		if out.send(l, len(lines) == 0) != nil {
			stop() // the browser has closed the connection
		}
	}
	last := lastLine{End: true}
	if err := <-ended; err != nil {
		last.Problem = term.Line(err.Error())
	}
	_ = out.send(last, true)
}

// Bounds of a page with the logs of several tasks.
const (
	// mostLogs limits its tasks, allTail the lines of each container at the beginning; newTasks is the time between two looks for
	// tasks that came later.
	mostLogs = 30
	allTail  = 100
	newTasks = 2 * time.Second
)

// choice are the tasks of a page of logs.
type choice struct {
	// Of says whose logs they are.
	Of    string
	Tasks []top.Task
	// More is the number of other tasks.
	More int
	// Closed: no task comes later.
	Closed bool
}

// choose returns the tasks that a query names: those of a service, of a stack, some by their IDs, or those of the list.
func (s *Server) choose(l look, query url.Values) (c choice, err error) {
	service, stack, ids := query.Get("service"), query.Get("stack"), query["task"]
	of := func(fits func(top.Task) bool) {
		c.Tasks = slices.DeleteFunc(slices.Clone(l.tasks), func(t top.Task) bool { return !fits(t) })
	}
	switch {
	case service != "":
		c.Of = service
		name, host, _ := strings.Cut(service, "@")
		of(func(t top.Task) bool { return t.Service == name && t.Host == host })
	case stack != "":
		c.Of = stack
		of(func(t top.Task) bool { return l.inStack.OfTask(t) == stack })
	case len(ids) > 0:
		c.Closed = true
		of(func(t top.Task) bool { return slices.Contains(ids, t.ID) })
		if c.Of = fmt.Sprintf("%d tasks", len(c.Tasks)); len(c.Tasks) == 1 {
			c.Of = console.TaskName(c.Tasks[0].Task)
		}
	default:
		rows, _ := s.chosenRows(l, query)
		for _, r := range rows {
			c.Tasks = append(c.Tasks, r.Task)
		}
		c.Of = strings.ToLower(groupTitle(group(query.Get("show")))) + " tasks"
		if q := strings.TrimSpace(query.Get("q")); q != "" {
			c.Of += " with “" + q + "”"
		}
	}
	if len(c.Tasks) == 0 && (service != "" || stack != "" || c.Closed) {
		return c, fmt.Errorf("%w that has logs", ErrNotFound)
	}
	c.More = max(0, len(c.Tasks)-mostLogs)
	c.Tasks = c.Tasks[:len(c.Tasks)-c.More]
	return c, nil
}

func groupTitle(g group) string {
	for _, one := range groupNames {
		if one.Group == g {
			return one.Name
		}
	}
	return "all"
}

// from returns what a line says that it is from: the task, and the container if there are several.
func from(t top.Task, container string) string {
	name := console.TaskName(t.Task)
	if len(t.Containers) > 1 {
		name += "/" + container
	}
	if t.Host != "" {
		name += "@" + t.Host
	}
	return term.Line(name)
}

// logsView is the data of a page of logs.
type logsView struct {
	view
	choice
	// From are the names in front of lines, Follow is the path of new ones.
	From       []string
	Follow     string
	Lines      []Line
	Incomplete string
}

// Color is the color of a name.
func (v logsView) Color(name string) int { return color(slices.Index(v.From, name)) }

// What returns the noun for the names in front of lines.
func (v logsView) What() string { return "task" }

// logs is the page with the logs of several tasks, in the order of time.
func (s *Server) logs(w http.ResponseWriter, r *http.Request) {
	l, err := s.look(r.Context())
	if err != nil {
		s.fail(w, r, err)
		return
	}
	c, err := s.choose(l, r.URL.Query())
	if err != nil {
		s.fail(w, r, err)
		return
	}
	v := logsView{view: s.view(r, "Logs of "+c.Of), choice: c, Follow: "/logs/follow"}
	if r.URL.RawQuery != "" {
		v.Follow += "?" + r.URL.Query().Encode()
	}
	for _, t := range c.Tasks {
		for _, k := range t.Containers {
			if name := from(t, k.Name); !slices.Contains(v.From, name) {
				v.From = append(v.From, name)
			}
		}
		if v.Live {
			continue
		}
		err := s.source.Lines(r.Context(), t.ID, Lines{Tail: allTail}, func(l Line) error {
			l.Container = from(t, l.Container)
			v.Lines = append(v.Lines, l)
			return nil
		})
		if err != nil {
			v.Incomplete = fmt.Sprintf("%s: %v", console.TaskName(t.Task), err)
		}
	}
	slices.SortStableFunc(v.Lines, func(a, b Line) int { return a.Time.Compare(b.Time) })
	s.page(w, r, "logs.html", v)
}

// followAll sends the last lines of several tasks and then new ones, also of tasks that come later.
func (s *Server) followAll(w http.ResponseWriter, r *http.Request) {
	l, err := s.look(r.Context())
	if err != nil {
		s.fail(w, r, err)
		return
	}
	c, err := s.choose(l, r.URL.Query())
	if err != nil {
		s.fail(w, r, err)
		return
	}
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	f := follower{source: s.source, lines: make(chan Line, 256), ended: make(chan error), known: map[string]bool{}}
	f.begin(ctx, c.Tasks)
	unhurried(w)
	w.Header().Set("Content-Type", "application/x-ndjson; charset=utf-8")
	out := stream{json.NewEncoder(w), http.NewResponseController(w)}
	_ = out.c.Flush() // the browser is to know at once that it is connected
	again := time.NewTicker(newTasks)
	defer again.Stop()
	for f.running > 0 || !c.Closed || len(f.lines) > 0 {
		select {
		case l := <-f.lines:
			l.Text = term.Line(l.Text)
			if out.send(l, len(f.lines) == 0) != nil {
				return // the browser has closed the connection
			}
		case <-f.ended: // of one task, whose page says why
			f.running--
		case <-again.C:
			if l, err := s.look(ctx); err == nil {
				if now, err := s.choose(l, r.URL.Query()); err == nil {
					f.begin(ctx, now.Tasks)
				}
			}
		case <-ctx.Done():
			return
		}
	}
	_ = out.send(lastLine{End: true}, true)
}

// follower reads the lines of several tasks.
type follower struct {
	source Source
	lines  chan Line
	// ended gets the result of each task; running counts those that have none yet.
	ended   chan error
	running int
	known   map[string]bool // tasks, by ID
}

// begin reads the lines of tasks that are not known yet.
func (f *follower) begin(ctx context.Context, tasks []top.Task) {
	for _, t := range tasks {
		if f.known[t.ID] || f.running >= mostLogs { // else tasks that come and go would add up
			continue
		}
		f.known[t.ID] = true
		f.running++
		go func() {
			err := f.source.Lines(ctx, t.ID, Lines{Tail: allTail, Follow: true}, func(l Line) error {
				l.Container = from(t, l.Container)
				select {
				case f.lines <- l:
					return nil
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			})
			select {
			case f.ended <- err:
			case <-ctx.Done():
			}
		}()
	}
}

// lastLine ends a stream of lines.
type lastLine struct {
	End     bool   `json:"end"`
	Problem string `json:"problem,omitempty"`
}

// stream sends lines of JSON to a browser.
type stream struct {
	*json.Encoder
	c *http.ResponseController
}

// send sends v; without flush, it may wait for the next.
func (s stream) send(v any, flush bool) error {
	_ = s.c.SetWriteDeadline(time.Now().Add(writeTime))
	if err := s.Encode(v); err != nil || !flush {
		return err
	}
	return s.c.Flush()
}

// download sends all lines of a task as a file.
func (s *Server) download(w http.ResponseWriter, r *http.Request, d top.Detail) {
	c := http.NewResponseController(w)
	unhurried(w)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="%s.log"`, fileName(d.Task.Name, d.Task.ID)))
	err := s.source.Lines(r.Context(), d.Task.ID, Lines{Tail: -1}, func(l Line) error {
		_ = c.SetWriteDeadline(time.Now().Add(writeTime))
		_, err := fmt.Fprintf(w, "%s %s | %s\n", l.Time.UTC().Format("2006-01-02T15:04:05.000Z"), term.Line(l.Container), term.Line(l.Text))
		return err
	})
	if err != nil {
		_, _ = fmt.Fprintf(w, "podtask: %s\n", term.Line(err.Error())) // the file is to say that it is not whole
	}
}

// fileName returns a name for a file, of letters, digits, '-' and '_'.
func fileName(name, id string) string {
	if name == "" {
		name = id
	}
	safe := []rune(name)
	for i, c := range safe {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
			safe[i] = '-'
		}
	}
	return string(safe[:min(len(safe), 100)])
}
