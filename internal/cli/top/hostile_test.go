package top

import (
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/cli/timeline"
	"github.com/podtask/podtask/internal/testing/hostile"
	"github.com/podtask/podtask/pkg/api"
)

// Names, reasons and output reach the screen without what steers a terminal, whatever the records say.
func TestHostileTextDoesNotReachTheTerminal(t *testing.T) {
	t.Parallel()
	tasks := []Task{{Task: api.Task{
		CreatedAt: noon, Owner: api.Owner{Alive: true}, Why: []api.Reason{{}}, Ports: []api.Port{{}}, ExitCode: code(1),
		Containers: []api.Container{{Health: &api.Health{}, WaitingFor: []api.Dependency{{}}}}, History: []api.Transition{{At: noon}},
	}}}
	hostile.Fill(&tasks)
	detail := Detail{Task: tasks[0].Task, Chart: timeline.Chart{From: noon, To: noon.Add(time.Minute), Lanes: []timeline.Lane{{Spans: []timeline.Span{{From: noon, To: noon.Add(time.Second)}}}}}}
	hostile.Fill(&detail)
	m := New(t.Context(), &host{}, &host{}, Options{Now: func() time.Time { return noon }, All: true})
	m.list.setTasks(tasks)
	m.say(hostile.Text, nil)
	screens := map[string]string{"list": m.text()}
	m.page = &page{id: tasks[0].ID, detail: detail}
	m.page.add(logMsg{lines: []Line{{hostile.Text, hostile.Text}}})
	for i, name := range []string{"overview", "logs", "events"} {
		m.page.part = i
		screens[name] = m.text()
	}
	m.question = &question{text: hostile.Text}
	screens["question"] = m.text()
	for name, text := range screens {
		if r := hostile.Steers(text); r != 0 {
			t.Errorf("the %s has %U:\n%q", name, r, text)
		}
	}
}

// A host may tell any number: the screens are drawn all the same.
func TestHostileNumbersAreDrawn(t *testing.T) {
	t.Parallel()
	for _, least := range []bool{false, true} {
		tasks := []Task{{Use: &Use{}, Task: api.Task{Owner: api.Owner{Alive: true}, Why: []api.Reason{{}}, Ports: []api.Port{{}}, ExitCode: code(1), Containers: []api.Container{{Health: &api.Health{}}}, History: []api.Transition{{}}}}}
		services := []api.Service{{
			ServiceName: "shop", Deployments: []api.Deployment{{ID: "d"}}, Tasks: []api.ServiceTask{{}}, Events: []api.ServiceEvent{{}}, Why: []api.Reason{{}}, Listeners: []api.Listener{{}},
			History: []api.PastDeployment{{Progress: &api.DeploymentProgress{Green: "d", Hooks: []api.HookCall{{Status: "IN_PROGRESS"}}}}},
		}}
		hostile.FillNumbers(&tasks, least)
		hostile.FillNumbers(&services, least)
		services[0].History[0].FinishedAt = time.Time{}
		detail := Detail{Task: tasks[0].Task, Chart: timeline.Chart{Lanes: []timeline.Lane{{Spans: []timeline.Span{{}}}}}}
		hostile.FillNumbers(&detail, least)
		m := New(t.Context(), &host{}, &host{}, Options{Now: func() time.Time { return noon }, All: true})
		m.list.setTasks(tasks)
		texts := []string{m.text(), strings.Join(serviceOverview(canvas{width: 80, now: noon}, services[0]), "\n")}
		m.page = &page{id: tasks[0].ID, detail: detail}
		texts = append(texts, m.text())
		for i, text := range texts {
			if text == "" || len(text) > 1<<16 {
				t.Errorf("least %t: the screen %d has %d bytes", least, i, len(text))
			}
		}
	}
}
