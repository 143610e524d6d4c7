package webui

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/cli/timeline"
	"github.com/podtask/podtask/internal/cli/top"
	"github.com/podtask/podtask/pkg/api"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// fake has one task, with text in it that must not become HTML.
type fake struct {
	done   []string
	asked  []Lines
	agent  string
	remote bool
	tasks  []top.Task // instead of the usual ones
	err    error      // of Tasks
}

const evil = `<script>alert(1)</script>`

func web() api.Task {
	return api.Task{
		ID: strings.Repeat("a", 32), Name: "web", Family: "web", Status: "RUNNING", DesiredStatus: "RUNNING", Health: "UNHEALTHY", Owner: api.Owner{PID: 1, Alive: true}, CreatedAt: noon,
		Ports:      []api.Port{{HostPort: 8080, ContainerPort: 80, Protocol: "tcp"}, {HostPort: 53, ContainerPort: 53, Protocol: "udp"}},
		Why:        []api.Reason{{Code: "unhealthy", Text: "app is unhealthy: " + evil, Since: noon.Add(-time.Minute)}},
		Containers: []api.Container{{Name: "app", Image: "app:1", Status: "RUNNING", Essential: true, Reason: evil, Health: &api.Health{Status: "UNHEALTHY", FailingStreak: 3}}},
		History:    []api.Transition{{Seq: 1, At: noon, Container: "~infra", Status: "CREATED"}, {Seq: 2, At: noon, Status: "RUNNING", Reason: evil}},
	}
}

func (f *fake) Tasks(context.Context) ([]top.Task, error) {
	if f.tasks != nil || f.err != nil {
		return f.tasks, f.err
	}
	ended := web()
	ended.ID, ended.Name, ended.Status = strings.Repeat("b", 32), "ended", "STOPPED"
	return []top.Task{{Task: web(), Use: &top.Use{CPUPercent: 12.4, Memory: 64 << 20, MemoryLimit: 128 << 20}}, {Task: ended}}, nil
}

func (f *fake) Explain(_ context.Context, id string) (top.Detail, error) {
	if id != web().ID {
		return top.Detail{}, ErrNotFound
	}
	chart := timeline.Chart{Title: evil, From: noon, To: noon.Add(time.Second)}
	return top.Detail{Task: web(), Why: "It waits for " + evil + ".", Chart: chart}, nil
}

func (f *fake) Lines(_ context.Context, id string, which Lines, fn func(Line) error) error {
	f.asked = append(f.asked, which)
	if id != web().ID {
		return ErrNotFound
	}
	return fn(Line{Container: "app", Stderr: true, Time: noon, Text: evil + "\x1b[31m"})
}

func (f *fake) Host(context.Context) Host {
	return Host{Name: "atlas", Version: "0.1.0", Podman: "5.4.2", Agent: f.agent, Local: !f.remote}
}

func (f *fake) Services(context.Context) ([]api.Service, error) {
	return []api.Service{{
		ServiceName: "shop", Status: "ACTIVE", TaskDefinition: "shop:3", DesiredCount: 2, RunningCount: 1,
		Deployments: []api.Deployment{{ID: "d1", Status: "PRIMARY", TaskDefinition: "shop:3", RolloutState: "IN_PROGRESS", RolloutStateReason: evil}},
		History: []api.PastDeployment{{Progress: &api.DeploymentProgress{
			Stage: "PRODUCTION_TRAFFIC_SHIFT", Blue: "d0", Green: "d1", Percent: 12.5, Until: noon,
			Hooks: []api.HookCall{{Hook: "smoke", Stage: "PRODUCTION_TRAFFIC_SHIFT", Status: "IN_PROGRESS", Reason: evil}},
		}}},
		Tasks:  []api.ServiceTask{{ID: web().ID, Name: "shop-1", Phase: "LIVE", Reason: evil}},
		Events: []api.ServiceEvent{{ID: 1, CreatedAt: noon, Message: evil}},
	}}, nil
}

func (f *fake) Beside(context.Context) (console.Beside, error) {
	due, code := noon.Add(-time.Hour), 3
	return console.Beside{
		Schedules: []console.Schedule{{Name: "nightly", State: "active", At: "*-*-* 03:00", Next: &noon, Last: &console.ScheduleRun{Due: due, Status: "ended", ExitCode: &code, Task: web().ID, Reason: evil}}},
		Stacks:    []console.Stack{{Name: "market", Status: "complete", Services: []string{"shop"}}},
	}, nil
}

func (f *fake) Stop(_ context.Context, id string) error {
	f.done = append(f.done, "stop "+id)
	return nil
}

func (f *fake) Continue(_ context.Context, name string) error {
	f.done = append(f.done, "continue "+name)
	return nil
}

func (f *fake) Rollback(_ context.Context, name string) error {
	f.done = append(f.done, "rollback "+name)
	return nil
}

func (f *fake) Restart(_ context.Context, id string) error {
	f.done = append(f.done, "restart "+id)
	return nil
}

// browser sends requests as a browser does, with the cookie that it was given.
type browser struct {
	t      *testing.T
	server *Server
	cookie *http.Cookie
}

func (b *browser) send(method, path string, form url.Values, change func(*http.Request)) *httptest.ResponseRecorder {
	b.t.Helper()
	r := httptest.NewRequestWithContext(b.t.Context(), method, path, strings.NewReader(form.Encode()))
	r.Host = b.server.host
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", "http://"+b.server.host)
	}
	if b.cookie != nil {
		r.AddCookie(b.cookie)
	}
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	b.server.ServeHTTP(w, r)
	return w
}

// opened is a browser that has opened the link of a server.
func opened(t *testing.T, f *fake, actions Actions) *browser {
	t.Helper()
	b := &browser{t: t, server: New(8800, f, actions, func() time.Time { return noon })}
	w := b.send("GET", strings.TrimPrefix(b.server.Link(), "http://"+b.server.host), nil, nil)
	cookies := w.Result().Cookies()
	if w.Code != 200 || len(cookies) != 1 || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteStrictMode {
		t.Fatalf("the link answers %d with %v", w.Code, cookies)
	}
	b.cookie = cookies[0]
	return b
}

func TestLinkWorksOnceAndNothingWithoutIt(t *testing.T) {
	t.Parallel()
	server := New(8800, &fake{}, nil, time.Now)
	link := strings.TrimPrefix(server.Link(), "http://"+server.host)
	stranger := &browser{t: t, server: server}
	for _, path := range []string{"/", "/?show=all", "/task/" + web().ID + "/log", "/task/" + web().ID + "/log.txt", "/task/" + web().ID, "/service/shop", "/assets/page.js", "/open/", "/open/x"} {
		if w := stranger.send("GET", path, nil, nil); w.Code != http.StatusForbidden || strings.Contains(w.Body.String(), "web") {
			t.Errorf("without a session %s answers %d: %s", path, w.Code, w.Body)
		}
	}
	name, _, _ := strings.Cut(server.host, ".")
	for _, other := range []string{"evil.example", "127.0.0.1:8800", "localhost:8800", "x.localhost:8800", ""} {
		w := stranger.send("GET", link, nil, func(r *http.Request) { r.Host = other })
		if w.Code != http.StatusMisdirectedRequest || strings.Contains(w.Body.String(), name) {
			t.Errorf("the host name %q gets %d: %s", other, w.Code, w.Body)
		}
	}
	if w := stranger.send("GET", link, nil, nil); w.Code != 200 {
		t.Errorf("the first use answers %d", w.Code)
	}
	if w := stranger.send("GET", link, nil, nil); w.Code != http.StatusForbidden || len(w.Result().Cookies()) != 0 {
		t.Errorf("the second use answers %d", w.Code)
	}
}

func TestPagesShowTasksAndServices(t *testing.T) {
	t.Parallel()
	b := opened(t, &fake{}, nil)
	for path, wants := range map[string][]string{
		"/":                      {`<a href="/task/` + web().ID + `">web</a>`, `<span class="chip bad">unhealthy</span>`, "12 %", `64 MiB <span class="fine">of 128 MiB</span>`, `<a href="/service/shop">shop</a>`, "0 of 2 healthy", "Read-only", "<strong>atlas</strong>", "Podman 5.4.2", "(1m so far)", `href="http://localhost:8080/"`, "53 → 53/udp", "Stack market", `href="/logs?stack=market"`, "nightly", `<span class="chip bad">exit code 3</span>`, "*-*-* 03:00"},
		"/?show=all":             {"ended"},
		"/?show=stopped":         {"ended"},
		"/?q=none":               {"No task matches"},
		"/task/" + web().ID:      {"It waits for", "timeline.svg", "(task)", "app:1", "Lines of the containers", `<span class="chip bad">unhealthy</span>`, "log.txt"},
		"/service/shop":          {"shop:3", "shifting connections", `aria-current="step">shift connections`, "12.5 % of connections", "smoke in production traffic shift: in progress", `<a href="/task/` + web().ID + `">shop-1</a>`, `href="/logs?service=shop"`},
		"/logs?task=" + web().ID: {"Logs of web", "alert(1)", `data-source="/logs/follow?task=`},
	} {
		w := b.send("GET", path, nil, nil)
		text := w.Body.String()
		if w.Code != 200 {
			t.Errorf("%s answers %d: %s", path, w.Code, text)
		}
		for _, want := range append(wants, `<html lang="en">`, `href="#main"`, "<h1") {
			if !strings.Contains(text, want) {
				t.Errorf("%s does not have %s", path, want)
			}
		}
		if strings.Contains(text, "<script>") || strings.Contains(text, "\x1b") || strings.Contains(text, `method="post"`) {
			t.Errorf("%s has text of a task as HTML, or a form: %s", path, text)
		}
		if policy := w.Header().Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s has the policy %s", path, policy)
		}
		// With no-referrer, browsers send the forms of the page with the origin null.
		if policy := w.Header().Get("Referrer-Policy"); policy != "same-origin" {
			t.Errorf("%s has the policy of referrers %s", path, policy)
		}
	}
	if w := b.send("GET", "/", nil, nil); strings.Contains(w.Body.String(), "ended") {
		t.Error("the list shows a task that was stopped")
	}
	if strings.Count(b.send("GET", "/?show=running", nil, nil).Body.String(), `id="task-`) != 0 {
		t.Error("an unhealthy task is among those that run as they should")
	}
	for _, picture := range []string{"timeline", "timeline-narrow"} {
		w := b.send("GET", "/task/"+web().ID+"/"+picture+".svg", nil, nil)
		if w.Header().Get("Content-Type") != "image/svg+xml" || !strings.HasPrefix(w.Body.String(), "<svg") || strings.Contains(w.Body.String(), "<script>") {
			t.Errorf("the %s is %s", picture, w.Body)
		}
	}
	var tasks []api.Task
	if w := b.send("GET", "/task/"+web().ID+"/inspect.json", nil, nil); w.Header().Get("Content-Type") != "application/json" || json.Unmarshal(w.Body.Bytes(), &tasks) != nil || len(tasks) != 1 || tasks[0].ID != web().ID {
		t.Errorf("as JSON the task is %s", w.Body)
	}
	for _, path := range []string{"/task/" + strings.Repeat("c", 32), "/task/" + strings.Repeat("c", 32) + "/inspect.json", "/service/other", "/other"} {
		if w := b.send("GET", path, nil, nil); w.Code != http.StatusNotFound {
			t.Errorf("%s answers %d", path, w.Code)
		}
	}
	for _, path := range []string{"/assets/style.css", "/assets/page.js"} {
		if w := b.send("GET", path, nil, nil); w.Code != 200 {
			t.Errorf("%s answers %d", path, w.Code)
		}
	}
}

func TestChangesNeedWriteAndTheForm(t *testing.T) {
	t.Parallel()
	f := &fake{}
	stop := "/task/" + web().ID + "/stop"
	if w := opened(t, f, nil).send("POST", stop, url.Values{"token": {"x"}}, nil); w.Code != http.StatusForbidden {
		t.Errorf("a page that is read-only answers %d", w.Code)
	}
	b := opened(t, f, f)
	page := b.send("GET", "/task/"+web().ID, nil, nil).Body.String()
	_, token, found := strings.Cut(page, `name="token" value="`)
	token, _, _ = strings.Cut(token, `"`)
	if !found || token == "" || strings.Contains(page, b.cookie.Value) {
		t.Fatalf("the page has the token %q", token)
	}
	form := url.Values{"token": {token}}
	for what, w := range map[string]*httptest.ResponseRecorder{
		"a wrong token":  b.send("POST", stop, url.Values{"token": {"x"}}, nil),
		"another origin": b.send("POST", stop, form, func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") }),
		"no cookie":      b.send("POST", stop, form, func(r *http.Request) { r.Header.Del("Cookie") }),
	} {
		if w.Code != http.StatusForbidden {
			t.Errorf("%s answers %d", what, w.Code)
		}
	}
	if w := b.send("GET", stop, nil, nil); w.Code != http.StatusMethodNotAllowed || len(f.done) != 0 {
		t.Errorf("GET answers %d, done %q", w.Code, f.done)
	}
	for _, action := range []string{"stop", "restart"} {
		if w := b.send("POST", "/task/"+web().ID+"/"+action, form, nil); w.Code != http.StatusSeeOther {
			t.Errorf("%s answers %d: %s", action, w.Code, w.Body)
		}
	}
	for _, action := range []string{"continue", "rollback"} {
		if w := b.send("POST", "/service/shop/"+action, form, nil); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/service/shop" {
			t.Errorf("%s answers %d: %s", action, w.Code, w.Body)
		}
		if w := b.send("POST", "/service/shop/"+action, url.Values{"token": {"x"}}, nil); w.Code != http.StatusForbidden {
			t.Errorf("%s with a wrong token answers %d", action, w.Code)
		}
	}
	for _, path := range []string{"/service/other/rollback", "/service/shop/remove", "/task/" + strings.Repeat("c", 32) + "/stop"} {
		if w := b.send("POST", path, form, nil); w.Code != http.StatusNotFound {
			t.Errorf("%s answers %d", path, w.Code)
		}
	}
	if w := b.send("POST", "/task/"+web().ID+"/remove", form, nil); w.Code != http.StatusNotFound {
		t.Errorf("another action answers %d", w.Code)
	}
	if got, want := strings.Join(f.done, ","), "stop "+web().ID+",restart "+web().ID+",continue shop,rollback shop"; got != want {
		t.Errorf("done %s, want %s", got, want)
	}
}
