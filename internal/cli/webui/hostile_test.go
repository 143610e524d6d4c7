package webui

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/cli/timeline"
	"github.com/podtask/podtask/internal/cli/top"
	"github.com/podtask/podtask/internal/testing/hostile"
	"github.com/podtask/podtask/pkg/api"
)

// hostileSource has hostile text wherever there is text.
type hostileSource struct{ fake }

func (hostileSource) Tasks(context.Context) ([]top.Task, error) {
	tasks := []top.Task{{Task: api.Task{ID: web().ID, Ports: []api.Port{{}, {HostPort: 80}}, Why: []api.Reason{{}}, Containers: []api.Container{{}}}, Use: &top.Use{}}}
	hostile.Fill(&tasks)
	return tasks, nil
}

func (hostileSource) Explain(context.Context, string) (top.Detail, error) {
	d := top.Detail{
		Task:  api.Task{ID: web().ID, Containers: []api.Container{{Health: &api.Health{}}}, History: []api.Transition{{At: noon}}},
		Chart: timeline.Chart{From: noon, To: noon.Add(time.Minute), Lanes: []timeline.Lane{{Spans: []timeline.Span{{From: noon, To: noon.Add(time.Second)}}}}},
	}
	hostile.Fill(&d)
	return d, nil
}

func (hostileSource) Lines(_ context.Context, _ string, _ Lines, fn func(Line) error) error {
	return fn(Line{Container: hostile.Text, Text: hostile.Text})
}

func (hostileSource) Host(context.Context) (h Host) {
	hostile.Fill(&h)
	return h
}

func (hostileSource) Services(context.Context) ([]api.Service, error) {
	services := []api.Service{{ServiceName: "shop", Deployments: []api.Deployment{{}}, Tasks: []api.ServiceTask{{}}, Events: []api.ServiceEvent{{}}, Why: []api.Reason{{}}, Listeners: []api.Listener{{}}, Ingress: []api.Ingress{{}, {URL: "javascript:alert(1)"}}, History: []api.PastDeployment{{Progress: &api.DeploymentProgress{Hooks: []api.HookCall{{}}}}}}}
	hostile.Fill(&services)
	return services, nil
}

func (hostileSource) Beside(context.Context) (b console.Beside, _ error) {
	b = console.Beside{Schedules: []console.Schedule{{Next: &noon, Last: &console.ScheduleRun{}}}, Stacks: []console.Stack{{Services: []string{""}, Tasks: []string{""}}}}
	hostile.Fill(&b)
	return b, nil
}

// Whatever the records and the containers say is text in the pages, and a picture of the timeline is one.
func TestHostileTextIsTextInPages(t *testing.T) {
	t.Parallel()
	b := &browser{t: t, server: New(8800, &hostileSource{}, &fake{}, func() time.Time { return noon })}
	b.cookie = b.send("GET", strings.TrimPrefix(b.server.Link(), "http://"+b.server.host), nil, nil).Result().Cookies()[0]
	for _, path := range []string{"/", "/?show=all&q=%3Cscript%3E", "/task/" + web().ID, "/task/" + web().ID + "/timeline.svg", "/task/" + web().ID + "/timeline-narrow.svg", "/service/shop", "/logs?show=all"} {
		w := b.send("GET", path, nil, nil)
		text := w.Body.String()
		if w.Code != 200 || !strings.Contains(text, "alert(1)") {
			t.Errorf("%s answers %d without the text: %s", path, w.Code, text)
		}
		if strings.Contains(text, `href="javascript:`) {
			t.Errorf("%s has a link to a script", path)
		}
		for _, tag := range []string{"<script>", "<img src=x"} {
			if strings.Contains(text, tag) {
				t.Errorf("%s has %s", path, tag)
			}
		}
	}
}

// numbers is a source whose numbers and times are the greatest or the least ones.
type numbers struct {
	hostileSource
	least bool
}

func (n numbers) Tasks(ctx context.Context) ([]top.Task, error) {
	tasks, err := n.hostileSource.Tasks(ctx)
	hostile.FillNumbers(&tasks, n.least)
	return tasks, err
}

func (n numbers) Explain(ctx context.Context, id string) (top.Detail, error) {
	d, err := n.hostileSource.Explain(ctx, id)
	hostile.FillNumbers(&d, n.least)
	return d, err
}

func (n numbers) Services(ctx context.Context) ([]api.Service, error) {
	services, err := n.hostileSource.Services(ctx)
	services[0].History[0].Progress.Stage = "BAKE_TIME"
	hostile.FillNumbers(&services, n.least)
	return services, err
}

// A host may tell any number. The pages are made all the same, and no larger.
func TestHostileNumbersMakePages(t *testing.T) {
	t.Parallel()
	for _, least := range []bool{false, true} {
		b := &browser{t: t, server: New(8800, &numbers{least: least}, &fake{}, func() time.Time { return noon })}
		b.cookie = b.send("GET", strings.TrimPrefix(b.server.Link(), "http://"+b.server.host), nil, nil).Result().Cookies()[0]
		for _, path := range []string{"/", "/?show=all", "/task/" + web().ID, "/task/" + web().ID + "/timeline.svg", "/task/" + web().ID + "/timeline-narrow.svg", "/service/shop", "/logs?show=all"} {
			if w := b.send("GET", path, nil, nil); w.Code != 200 || w.Body.Len() > 1<<16 {
				t.Errorf("least %t: %s answers %d with %d bytes", least, path, w.Code, w.Body.Len())
			}
		}
	}
}
