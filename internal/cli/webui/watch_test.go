package webui

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/cli/top"
	"github.com/podtask/podtask/pkg/api"
)

// clock is a time that a test moves.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func withClock(t *testing.T, f *fake, c *clock) *browser {
	t.Helper()
	b := opened(t, f, nil)
	b.server.now = c.now
	return b
}

func using(percent float64) []top.Task {
	return []top.Task{{Task: web(), Use: &top.Use{CPUPercent: percent, Memory: 64 << 20, MemoryLimit: 128 << 20}}}
}

func TestUsageIsRememberedAndDrawn(t *testing.T) {
	t.Parallel()
	c, f := &clock{noon}, &fake{}
	b := withClock(t, f, c)
	for i := range 5 {
		f.tasks = using(float64(10 * i))
		b.send("GET", "/", nil, nil)
		c.at = c.at.Add(2 * time.Second)
	}
	text := b.send("GET", "/task/"+web().ID, nil, nil).Body.String()
	for _, want := range []string{`aria-label="CPU over time: now 40 %, highest 40 % in 1 minute"`, "limit 128 MiB", `class="limit"`} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not have %s", want)
		}
	}
	c.at = c.at.Add(memory + time.Second)
	b.send("GET", "/", nil, nil)
	if n := len(b.server.watch.used(web().ID, time.Time{})); n != 1 {
		t.Errorf("after a quarter of an hour %d samples are left", n)
	}
	f.tasks = []top.Task{}
	c.at = c.at.Add(time.Minute)
	b.send("GET", "/", nil, nil)
	if n := len(b.server.watch.past); n != 0 {
		t.Errorf("the samples of %d tasks that are gone are kept", n)
	}
}

func TestUnknownUsageIsADash(t *testing.T) {
	t.Parallel()
	one := top.Task{Task: web(), Use: &top.Use{CPUPercent: 3}}
	if u := newUsage(one, []sample{{noon, *one.Use}}, noon); u.Memory.Now != "-" || u.Memory.Chart.Line != "" || u.CPU.Now != "3 %" || u.CPU.Limit != "" {
		t.Errorf("it uses %+v", u)
	}
	if u := newUsage(top.Task{Task: web()}, nil, noon); u.CPU.Now != "-" || u.CPU.Spark != "" {
		t.Errorf("without a sample it uses %+v", u)
	}
}

// Where nothing was measured, the line has a gap.
func TestLineHasGaps(t *testing.T) {
	t.Parallel()
	at := func(seconds int, n float64) value { return value{noon.Add(time.Duration(seconds) * time.Second), n} }
	line, area := frame{noon, noon.Add(100 * time.Second), 100, 100, 10}.path([]value{at(0, 0), at(10, 50), at(60, 100), at(100, 200)})
	if line != "M0 10L10 5M60 0h2M100 0h2" || area != "M0 10L0 10L10 5L10 10Z" {
		t.Errorf("the line is %s, the area %s", line, area)
	}
}

// Two windows that ask at the same time cost one look; after a change the next page has a new one.
func TestWindowsShareALook(t *testing.T) {
	t.Parallel()
	c, f := &clock{noon}, &fake{}
	b := withClock(t, f, c)
	f.tasks = using(10)
	b.send("GET", "/", nil, nil)
	f.tasks = using(20)
	if text := b.send("GET", "/", nil, nil).Body.String(); !strings.Contains(text, "10 %") {
		t.Error("a page in the same second looks again")
	}
	b.server.watch.forget()
	if text := b.send("GET", "/", nil, nil).Body.String(); !strings.Contains(text, "20 %") {
		t.Error("the page after a change is old")
	}
}

func TestWatchRestsWithoutPages(t *testing.T) {
	t.Parallel()
	c, f := &clock{noon}, &fake{tasks: using(10)}
	s := New(8800, f, nil, c.now)
	ctx, stop := context.WithCancel(t.Context())
	tick, done := make(chan time.Time), make(chan bool)
	go func() {
		defer close(done)
		s.Watch(ctx, tick)
	}()
	tick <- c.at // the first look is over
	for _, step := range []time.Duration{5 * time.Second, 5 * time.Second, interest, time.Hour} {
		s.watch.mu.Lock()
		c.at = c.at.Add(step)
		s.watch.mu.Unlock()
		tick <- c.at
		tick <- c.at // the look is over
	}
	stop()
	<-done
	if n := len(s.watch.past[web().ID]); n != 3 {
		t.Errorf("%d samples were taken", n)
	}
}

// The script gets no body if nothing has changed, and errors as text; people get a page.
func TestScriptAsksForChanges(t *testing.T) {
	t.Parallel()
	c, f := &clock{noon}, &fake{}
	b := withClock(t, f, c)
	live := func(tag string) func(*http.Request) {
		return func(r *http.Request) {
			r.Header.Set("Podtask-Live", "1")
			r.Header.Set("If-None-Match", tag)
		}
	}
	first := b.send("GET", "/", nil, live(""))
	tag := first.Header().Get("ETag")
	if first.Code != 200 || tag == "" {
		t.Fatalf("the first answer is %d, %q", first.Code, tag)
	}
	if w := b.send("GET", "/", nil, live(tag)); w.Code != http.StatusNotModified || w.Body.Len() != 0 {
		t.Errorf("an unchanged page answers %d", w.Code)
	}
	f.tasks, c.at = using(99), c.at.Add(time.Minute)
	if w := b.send("GET", "/", nil, live(tag)); w.Code != 200 {
		t.Errorf("a changed page answers %d", w.Code)
	}
	c.at, f.err = c.at.Add(time.Minute), errors.New("the disk is gone "+evil)
	if w := b.send("GET", "/", nil, live(tag)); w.Code != 500 || strings.TrimSpace(w.Body.String()) != "the disk is gone "+evil || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
		t.Errorf("the script gets %d %s", w.Code, w.Body)
	}
	if w := b.send("GET", "/", nil, nil); w.Code != 500 || !strings.Contains(w.Body.String(), "The disk is gone &lt;script&gt;") {
		t.Errorf("people get %d %s", w.Code, w.Body)
	}
}

// What stands between backticks is code, and one alone is a letter.
func TestPartsOfASentence(t *testing.T) {
	t.Parallel()
	if got := parts("run `podtask ps` now"); len(got) != 3 || !got[1].Code || got[1].Text != "podtask ps" || got[2].Code {
		t.Errorf("the parts are %v", got)
	}
	if got := parts("a ` alone"); len(got) != 1 || got[0].Code {
		t.Errorf("the parts are %v", got)
	}
}

func TestLostAgentIsSaid(t *testing.T) {
	t.Parallel()
	c, f := &clock{noon}, &fake{agent: "0.1.0"}
	b := withClock(t, f, c)
	if text := b.send("GET", "/", nil, nil).Body.String(); strings.Contains(text, "agent-lost") || !strings.Contains(text, "agent 0.1.0") {
		t.Error("the page does not show the agent")
	}
	f.agent, c.at = "", c.at.Add(time.Minute)
	if text := b.send("GET", "/", nil, nil).Body.String(); !strings.Contains(text, "The agent has stopped") || !strings.Contains(text, "no agent") {
		t.Error("the page does not say that the agent is gone")
	}
}

// Ports of another host are no links: localhost of the browser is another machine.
func TestPortsOfAnotherHostAreNoLinks(t *testing.T) {
	t.Parallel()
	f := &fake{remote: true}
	if text := opened(t, f, nil).send("GET", "/", nil, nil).Body.String(); strings.Contains(text, "http://localhost:8080") || !strings.Contains(text, "8080 → 80") {
		t.Error("a port of another host is a link")
	}
	for ip, want := range map[string]string{"": "http://localhost:80/", "0.0.0.0": "http://localhost:80/", "::1": "http://localhost:80/", "192.0.2.7": "http://192.0.2.7:80/", "2001:db8::1": "http://[2001:db8::1]:80/"} {
		if got := linkTo(ip, 80, Host{Local: true}); got != want {
			t.Errorf("port 80 of %q is %s", ip, got)
		}
	}
}

func TestLogIsSentAndDownloaded(t *testing.T) {
	t.Parallel()
	f := &fake{}
	b := opened(t, f, nil)
	w := b.send("GET", "/task/"+web().ID+"/log", nil, nil)
	want := `{"container":"app","stderr":true,"time":"2026-01-02T12:00:00Z","text":"\u003cscript\u003ealert(1)\u003c/script\u003e [31m"}` + "\n" + `{"end":true}` + "\n"
	if got := w.Body.String(); got != want || !strings.HasPrefix(w.Header().Get("Content-Type"), "application/x-ndjson") || w.Header().Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("the log is %s", got)
	}
	w = b.send("GET", "/task/"+web().ID+"/log.txt", nil, nil)
	if got := w.Body.String(); got != "2026-01-02T12:00:00.000Z app | "+evil+" [31m\n" || !strings.Contains(w.Header().Get("Content-Disposition"), `filename="web.log"`) || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
		t.Errorf("the file is %s", got)
	}
	if last := len(f.asked) - 1; !f.asked[last-1].Follow || f.asked[last].Follow || f.asked[last].Tail != -1 {
		t.Errorf("the lines were asked for with %+v", f.asked)
	}
	for _, path := range []string{"/log", "/log.txt"} {
		if w := b.send("GET", "/task/"+strings.Repeat("c", 32)+path, nil, nil); w.Code != http.StatusNotFound {
			t.Errorf("%s of no task answers %d", path, w.Code)
		}
	}
}

func TestStatusInWords(t *testing.T) {
	t.Parallel()
	code := api.ExitCode(3)
	change := func(fn func(*top.Task)) top.Task {
		one := top.Task{Task: web()}
		one.Health, one.Containers[0].Health = "UNKNOWN", nil
		fn(&one)
		return one
	}
	for want, one := range map[string]top.Task{
		"running good running": change(func(*top.Task) {}),
		"queued (port 8080) warn waiting": change(func(t *top.Task) {
			t.Status, t.Queue, t.QueuedFor = "NONE", "x", "port 8080"
		}),
		"starting busy waiting": change(func(t *top.Task) { t.Status = "CREATED" }),
		"exited (3) bad stopped": change(func(t *top.Task) {
			t.Status, t.ExitCode, t.StoppedAt = "STOPPED", &code, noon.Add(-time.Minute)
		}),
		"running, unhealthy idle problems": change(func(t *top.Task) {
			t.Health, t.Containers[0].Health = "UNHEALTHY", &api.Health{Status: "UNHEALTHY"}
		}),
		"no owner bad problems": change(func(t *top.Task) { t.Owner = api.Owner{} }),
	} {
		r := newRow(one, Host{}, nil, noon)
		if got := r.Alarm() + " " + r.Status[0].Kind + " " + string(r.Group); got != want {
			t.Errorf("it is %q, want %q", got, want)
		}
		if late := r.Group == stopped; late != r.Lately || !r.In(current) {
			t.Errorf("%s: among the failed ones %t", want, r.Lately)
		}
	}
}

func TestPictureOfADeployment(t *testing.T) {
	t.Parallel()
	s := api.Service{
		ServiceName: "shop", Status: "ACTIVE", DesiredCount: 3,
		Deployments: []api.Deployment{
			{ID: "new", Status: "PRIMARY", TaskDefinition: "shop:2", RolloutState: "IN_PROGRESS", DesiredCount: 3, RunningCount: 1, PendingCount: 1, HealthyCount: 1},
			{ID: "old", Status: "ACTIVE", TaskDefinition: "shop:1", RunningCount: 1},
		},
		Tasks: []api.ServiceTask{
			{Name: "a", Deployment: "new", Phase: "LIVE", Healthy: true}, {Name: "b", Deployment: "new", Phase: "WANTED"},
			{Name: "c", Deployment: "old", Phase: "STOPPING"}, {Name: "d", Deployment: "old", Phase: "STOPPED"},
		},
	}
	v := newShop(s, Host{}, noon)
	if v.Status.Text != "updating" || len(v.Steps) != 3 || v.Steps[0].State != "done" || v.Steps[1].State != "now" {
		t.Errorf("it is %+v", v.Steps)
	}
	if r := v.Revisions[0]; r.Role != "new" || r.Text != "1 of 3 healthy, 1 starting, 1 to come" || len(r.Copies) != 3 {
		t.Errorf("the new revision is %+v", r)
	}
	if r := v.Revisions[1]; r.Role != "old" || len(r.Copies) != 1 || r.Copies[0].Kind != "leaving" {
		t.Errorf("the old revision is %+v", r)
	}
	s.Deployments[0].DesiredCount = 500
	if r := newShop(s, Host{}, noon).Revisions[0]; len(r.Copies) != 0 || !strings.Contains(r.Text, "1 of 500 healthy") {
		t.Errorf("a large revision is %+v", r)
	}
}

// A long list begins with what needs attention, and is whole on request.
func TestLongListIsCut(t *testing.T) {
	t.Parallel()
	f := &fake{}
	for i := range 500 {
		one := top.Task{Task: web()}
		one.ID, one.Name = fmt.Sprintf("%032x", i), fmt.Sprintf("task-%d", i)
		if i < 499 {
			one.Health, one.Containers = "UNKNOWN", nil
		}
		f.tasks = append(f.tasks, one)
	}
	b := opened(t, f, nil)
	for path, want := range map[string]int{"/": mostRows, "/?rows=all": 500, "/?q=task-49": 11, "/?show=problems": 1} {
		text := b.send("GET", path, nil, nil).Body.String()
		if n := strings.Count(text, `id="task-`); n != want || strings.Contains(text, "rows=all") != (path == "/") {
			t.Errorf("%s has %d rows, want %d", path, n, want)
		}
		_, text, _ = strings.Cut(text, `id="section-tasks"`)
		if first, _, _ := strings.Cut(text, "</tbody>"); path == "/" && !strings.Contains(first, "task-499") {
			t.Errorf("the first row is not what needs attention")
		}
	}
}
