package webui

import (
	"cmp"
	"context"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/cli/timeline"
	"github.com/podtask/podtask/internal/cli/top"
	"github.com/podtask/podtask/internal/term"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// helpers has the functions of the templates.
var helpers = template.FuncMap{
	"name":  func(t api.Task) string { return term.Line(console.TaskName(t)) },
	"clock": func(t time.Time) string { return t.Local().Format("15:04:05") },
	"stamp": func(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") },
	"iso":   func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) },
	"line":  term.Line,
	"lower": func(word string) string { return strings.ToLower(strings.ReplaceAll(term.Line(word), "_", " ")) },
	"chips": containerChips,
	"image": shortImage,
	"color": color,
	"parts": parts,
	"sentence": func(text string) string {
		text = term.Line(text)
		if first, size := utf8.DecodeRuneInString(text); size > 0 {
			text = string(unicode.ToUpper(first)) + text[size:]
		}
		return strings.TrimSuffix(text, ".") + "."
	},
	"title": func(word string) string { return strings.ToUpper(word[:1]) + word[1:] },
	"titled": func(title, name string, m meter) any {
		return struct {
			Title, Name string
			meter
		}{title, name, m}
	},
}

// part is a piece of a sentence; Code is what stood between backticks.
type part struct {
	Text string
	Code bool
}

func parts(text string) (list []part) {
	pieces := strings.Split(text, "`")
	if len(pieces)%2 == 0 { // one of them is only a letter
		return []part{{Text: text}}
	}
	for i, p := range pieces {
		list = append(list, part{p, i%2 == 1})
	}
	return list
}

// color is one of eight colors for the container at an index.
func color(i int) int { return max(0, i) % 8 }

// shortImage returns an image without its registry and digest.
func shortImage(image string) string {
	image, _, _ = strings.Cut(term.Line(image), "@")
	return image[strings.LastIndex(image, "/")+1:]
}

// view has the data of all pages.
type view struct {
	Title   string
	Host    Host
	Problem string
	Write   bool
	// Live: the script asks, and keeps the lines of the log.
	Live      bool
	AgentLost bool
	Token     string
}

func (s *Server) view(r *http.Request, title string) view {
	v := view{Title: title, Write: s.actions != nil, Live: isLive(r)}
	if l := s.watch.latest(); l != nil {
		v.Host, v.AgentLost = l.host, l.agentLost
	}
	if v.Write {
		v.Token = s.token
	}
	return v
}

// latest is the last look at the host, however old; nil if there was none.
func (w *watch) latest() *look {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

// tab is a link to a part of the list.
type tab struct {
	Name, URL string
	Count     int
	Selected  bool
	Alarm     bool
}

// orders are the orders of the list; the first has what needs attention first, then what waits.
var orders = []struct {
	Name, Key string
	compare   func(a, b row) int
}{
	{"Status", "", func(a, b row) int { return cmp.Compare(a.rank(), b.rank()) }},
	{"Name", "name", func(a, b row) int { return strings.Compare(a.Name, b.Name) }},
	{"CPU", "cpu", func(a, b row) int { return cmp.Compare(b.used().CPUPercent, a.used().CPUPercent) }},
	{"Memory", "memory", func(a, b row) int { return cmp.Compare(b.used().Memory, a.used().Memory) }},
	{"Age", "age", func(a, b row) int { return b.CreatedAt.Compare(a.CreatedAt) }},
}

func (r row) rank() int {
	if r.Lately {
		return 0
	}
	return slices.Index([]group{problems, waiting, running, stopped}, r.Group)
}

func (r row) used() top.Use {
	if r.Use == nil {
		return top.Use{}
	}
	return *r.Use
}

// mostRows is the number of rows that the list has at first: browsers take long for many.
const mostRows = 100

// listView is the data of the list.
type listView struct {
	view
	Tabs, Orders []tab
	Show         group
	Sort, Query  string
	Rows         []row
	Total        int
	// Fit is the number of rows that there are in all, Whole the link to them; empty if all are shown.
	Fit             int
	Whole           string
	Groups          []shopGroup
	Stacks          bool // there are some
	ServicesProblem string
	Schedules       []timer
	BesideProblem   string
	// Logs is the link to the logs of the rows; empty for fewer than two.
	Logs string
	// Hosts are those of the view, if it is not this machine alone; why one is down is shown.
	Hosts []top.HostState
}

// shopGroup are the services of a stack, or of none.
type shopGroup struct {
	// Name is the name of the stack; empty for the services of none.
	Name   string
	Status chip
	Note   string
	Logs   string
	Shops  []shop
}

// shopGroups returns the services by their stacks; those of none are the last ones.
func shopGroups(l look) (groups []shopGroup) {
	byName := map[string][]shop{}
	for _, one := range l.services {
		v := newShop(one, l.host, l.at)
		v.Stack, v.Grouped = l.inStack.OfService(one.ServiceName), len(l.stacks) > 0
		byName[v.Stack] = append(byName[v.Stack], v)
	}
	for _, stack := range l.stacks {
		kind := map[string]string{"complete": "good", "changing": "busy", "unfinished": "bad"}[stack.Status]
		g := shopGroup{Name: stack.Name, Status: chip{cmp.Or(kind, "idle"), term.Line(stack.Status)}, Logs: "/logs?" + url.Values{"stack": {stack.Name}}.Encode(), Shops: byName[stack.Name]}
		if !stack.Ends.IsZero() {
			g.Note = "a preview that ends " + stack.Ends.Local().Format("2006-01-02 15:04")
		}
		groups = append(groups, g)
	}
	if none := byName[""]; len(none) > 0 {
		groups = append(groups, shopGroup{Shops: none})
	}
	return groups
}

// timer is a schedule on a page.
type timer struct {
	console.Schedule
	Status chip
	// Due is its next time, in words.
	Due, Ago, Note string
}

func newTimer(s console.Schedule, now time.Time) timer {
	v := timer{Schedule: s, Status: chip{string(s.Kind()), s.Result()}, Due: "-", Ago: "-"}
	switch {
	case s.State == "paused":
		v.Status, v.Due = chip{"idle", s.State}, s.State
	case s.State == "no-timer":
		v.Status, v.Note = chip{"bad", "no timer"}, fmt.Sprintf("its systemd timer is missing; create it with `%s`", onHost(s.Name, "schedule resume", ""))
	case s.Next != nil:
		v.Due = "in " + console.ShortSpan(max(0, s.Next.Sub(now)))
	}
	if s.Last != nil {
		v.Ago = console.Ago(now, s.Last.Due)
		v.Note = cmp.Or(v.Note, term.Line(s.Last.Reason))
	} else if v.Status.Text == "-" {
		v.Status.Text = "no run yet"
	}
	return v
}

// chosenRows returns the rows of the list that a query chooses, in its order, and how many tasks are in each group.
func (s *Server) chosenRows(l look, query url.Values) (rows []row, counts map[group]int) {
	counts = map[group]int{}
	for _, t := range l.tasks {
		one := newRow(t, l.host, s.watch.used(t.ID, l.at.Add(-sparkPast)), l.at)
		one.Stack = l.inStack.OfTask(t)
		for _, g := range groupNames {
			if one.In(g.Group) {
				counts[g.Group]++
			}
		}
		if one.In(group(query.Get("show"))) && one.fits(strings.TrimSpace(query.Get("q"))) {
			rows = append(rows, one)
		}
	}
	order := orders[0]
	for _, o := range orders {
		if o.Key == query.Get("sort") {
			order = o
		}
	}
	slices.SortStableFunc(rows, order.compare)
	return rows, counts
}

func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	l, err := s.look(r.Context())
	if err != nil {
		s.fail(w, r, err)
		return
	}
	query := r.URL.Query()
	v := listView{view: s.view(r, "Overview"), Show: group(query.Get("show")), Sort: query.Get("sort"), Query: strings.TrimSpace(query.Get("q")), Total: len(l.tasks)}
	link := func(path string, show group, sort string) string {
		q := url.Values{}
		for key, value := range map[string]string{"show": string(show), "sort": sort, "q": v.Query} {
			if value != "" {
				q.Set(key, value)
			}
		}
		if len(q) == 0 {
			return path
		}
		return path + "?" + q.Encode()
	}
	for _, o := range orders {
		v.Orders = append(v.Orders, tab{Name: o.Name, URL: link("/", v.Show, o.Key), Selected: o.Key == v.Sort})
	}
	var counts map[group]int
	v.Rows, counts = s.chosenRows(l, query)
	if v.Fit = len(v.Rows); v.Fit > mostRows && query.Get("rows") != "all" {
		q := r.URL.Query()
		q.Set("rows", "all")
		v.Rows, v.Whole = v.Rows[:mostRows], "/?"+q.Encode()
	}
	if v.Fit > 1 {
		v.Logs = link("/logs", v.Show, v.Sort)
	}
	for _, g := range groupNames {
		v.Tabs = append(v.Tabs, tab{g.Name, link("/", g.Group, v.Sort), counts[g.Group], g.Group == v.Show, g.Group == problems && counts[g.Group] > 0})
	}
	v.Groups, v.Stacks = shopGroups(l), len(l.stacks) > 0
	for _, one := range l.schedules {
		v.Schedules = append(v.Schedules, newTimer(one, l.at))
	}
	v.ServicesProblem, v.BesideProblem = problemOf(l.servicesProblem), problemOf(l.besideProblem)
	if h, ok := s.source.(top.Hosts); ok {
		v.Hosts = h.Hosts()
	}
	s.page(w, r, "list.html", v)
}

func problemOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// taskView is the data of the page of a task.
type taskView struct {
	view
	top.Detail
	Row        row
	Steps      string
	Events     []console.TaskEvent
	Lines      []Line
	Incomplete string
}

func (s *Server) task(w http.ResponseWriter, r *http.Request, d top.Detail) {
	l, err := s.look(r.Context())
	if err != nil {
		s.fail(w, r, err)
		return
	}
	one := top.Task{Task: d.Task}
	for _, t := range l.tasks {
		if t.ID == d.Task.ID {
			one.Use, one.ContainerUse, one.QueuedFor, one.Place = t.Use, t.ContainerUse, t.QueuedFor, t.Place
		}
	}
	v := taskView{view: s.view(r, cmp.Or(d.Task.Name, d.Task.Family, lifecycle.ShortID(d.Task.ID))), Detail: d, Row: newRow(one, l.host, s.watch.used(d.Task.ID, time.Time{}), l.at)}
	v.Row.Stack, v.Events = l.inStack.OfTask(one), console.TaskEvents(d.Task.History)
	v.Steps = d.Chart.Steps(100, func(_, text string) string { return text })
	if !v.Live {
		err = s.source.Lines(r.Context(), d.Task.ID, Lines{Tail: pageTail}, func(line Line) error {
			v.Lines = append(v.Lines, line)
			return nil
		})
		if err != nil {
			v.Incomplete = err.Error()
		}
	}
	s.page(w, r, "task.html", v)
}

// Color is the color of the name of a container.
func (v taskView) Color(container string) int {
	return color(slices.IndexFunc(v.Task.Containers, func(c api.Container) bool { return c.Name == container }))
}

// From are the names in front of lines.
func (v taskView) From() (names []string) {
	for _, c := range v.Task.Containers {
		names = append(names, c.Name)
	}
	return names
}

// Follow returns the path of new lines.
func (v taskView) Follow() string { return "/task/" + v.Task.ID + "/log" }

// What returns the noun for the names in front of lines.
func (v taskView) What() string { return "container" }

// Used is what a container uses.
func (v taskView) Used(container string) string {
	u, known := v.Row.ContainerUse[container]
	if !known {
		return unknown
	}
	text := percent(u.CPUPercent) + ", "
	if u.Memory == 0 {
		return text + unknown
	}
	return text + size(float64(u.Memory))
}

// question is asked before something is changed.
type question struct {
	Action, Question, Text, Button, Path, Token string
	// Danger: what runs ends.
	Danger bool
}

// Questions are those about what can be done with the task.
func (v taskView) Questions() []question {
	path, name := "/task/"+url.PathEscape(v.Task.ID)+"/", term.Line(v.Title)
	list := []question{
		{"restart", "Restart " + name + "?", "Its containers stop, and the same definition starts again.", "Restart", path + "restart", v.Token, false},
		{"stop", "Stop " + name + "?", "Its containers get their stop signal and are killed after their stop timeout. The task stays in the list with its logs.", "Stop", path + "stop", v.Token, true},
	}
	if v.Task.Status == lifecycle.StatusStopped.String() {
		return list[:1]
	}
	return list
}

// serviceView is the data of the page of a service.
type serviceView struct {
	view
	Service shop
}

// Questions are those about what can be done with the service.
func (v serviceView) Questions() (list []question) {
	path, name := "/service/"+url.PathEscape(v.Service.ServiceName)+"/", term.Line(v.Service.ServiceName)
	if v.Service.Paused {
		list = append(list, question{"continue", "Continue the deployment of " + name + "?", "The pause ends, and the next stage begins.", "Continue", path + "continue", v.Token, false})
	}
	if len(v.Service.History) < 2 {
		return list // there is no revision before
	}
	to := "the previous revision"
	for _, h := range v.Service.History {
		if h.Deployment != "" && h.Deployment == v.Service.RollbackTo {
			to = term.Line(h.TaskDefinition)
		}
	}
	return append(list, question{"rollback", "Roll " + name + " back?", "All copies are replaced by copies of " + to + ".", "Roll back", path + "rollback", v.Token, true})
}

// drawing serves the timeline of a task as a picture. The policy allows the styles that are in it.
func drawing(draw func(timeline.Chart) string) func(http.ResponseWriter, *http.Request, top.Detail) {
	return func(w http.ResponseWriter, _ *http.Request, d top.Detail) {
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
		w.Header().Set("Content-Type", "image/svg+xml")
		_, _ = w.Write([]byte(draw(d.Chart))) // the browser may have closed the connection
	}
}

// inspect serves what `podtask inspect` prints of a task.
func inspect(w http.ResponseWriter, _ *http.Request, d top.Detail) {
	w.Header().Set("Content-Security-Policy", "default-src 'none'")
	w.Header().Set("Content-Type", "application/json")
	_ = console.WriteJSON(w, []api.Task{d.Task}) // the browser may have closed the connection
}

// find returns a service.
func (s *Server) find(ctx context.Context, name string) (api.Service, error) {
	l, err := s.look(ctx)
	if err != nil {
		return api.Service{}, err
	}
	i := slices.IndexFunc(l.services, func(one api.Service) bool { return one.ServiceName == name })
	switch {
	case i >= 0:
		return l.services[i], nil
	case l.servicesProblem != nil:
		return api.Service{}, l.servicesProblem
	case l.host.Agent == "":
		return api.Service{}, fmt.Errorf("%w: no agent runs, and services need one", ErrNotFound)
	}
	return api.Service{}, ErrNotFound
}

func (s *Server) service(w http.ResponseWriter, r *http.Request) {
	one, err := s.find(r.Context(), r.PathValue("name"))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	v := serviceView{view: s.view(r, one.ServiceName)}
	v.Service = newShop(one, v.Host, s.now())
	if l := s.watch.latest(); l != nil {
		v.Service.Stack = l.inStack.OfService(one.ServiceName)
	}
	s.page(w, r, "service.html", v)
}
