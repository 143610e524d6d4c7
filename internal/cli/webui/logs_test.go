package webui

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/cli/top"
	"github.com/podtask/podtask/pkg/api"
)

// several is a host with tasks of a service and of a stack.
type several struct{ fake }

func (several) Tasks(context.Context) (tasks []top.Task, _ error) {
	for i, service := range []string{"shop", "shop", "", ""} {
		t := api.Task{ID: strings.Repeat(fmt.Sprint(i), 32), Name: fmt.Sprintf("t%d", i), Service: service, Status: "RUNNING", Owner: api.Owner{Alive: true}, Containers: []api.Container{{Name: "app"}}}
		if i == 2 {
			t.Containers = append(t.Containers, api.Container{Name: "db"})
		}
		tasks = append(tasks, top.Task{Task: t})
	}
	return tasks, nil
}

func (several) Beside(context.Context) (console.Beside, error) {
	return console.Beside{Stacks: []console.Stack{{Name: "market", Services: []string{"shop"}, Tasks: []string{"t3"}}}}, nil
}

func (several) Lines(_ context.Context, id string, _ Lines, fn func(Line) error) error {
	return fn(Line{Container: "app", Text: "of " + id[:1]})
}

func TestLogsOfSeveralTasksOnOnePage(t *testing.T) {
	t.Parallel()
	b := opened(t, &fake{}, nil)
	b.server.source = &several{}
	for query, want := range map[string]string{
		"service=shop": "t0 t1", "stack=market": "t0 t1 t3", "task=" + strings.Repeat("2", 32): "t2/app", "q=t1": "t1", "": "t0 t1 t2/app t3",
		"task=" + strings.Repeat("0", 32) + "&task=" + strings.Repeat("3", 32): "t0 t3",
	} {
		text := b.send("GET", "/logs?"+query, nil, nil).Body.String()
		for _, name := range strings.Fields(want) {
			if !strings.Contains(text, "</time><b class=\"c") || !strings.Contains(text, ">"+name+"</b>") {
				t.Errorf("%s: no line of %s: %s", query, name, text)
			}
		}
		if n := strings.Count(text, `<div class="l"`); n != len(strings.Fields(want)) {
			t.Errorf("%s: %d lines", query, n)
		}
	}
	for _, query := range []string{"service=other", "stack=other", "task=x"} {
		if w := b.send("GET", "/logs?"+query, nil, nil); w.Code != http.StatusNotFound {
			t.Errorf("%s answers %d", query, w.Code)
		}
	}
	var got []string
	text := b.send("GET", "/logs/follow?task="+strings.Repeat("0", 32)+"&task="+strings.Repeat("2", 32), nil, nil).Body.String()
	for line := range strings.Lines(text) {
		var l struct {
			Container, Text string
			End             bool
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(l.Container, " ", l.Text, " ", l.End))
	}
	slices.Sort(got[:2])
	if want := []string{"t0 of 0 false", "t2/app of 2 false", "  true"}; !slices.Equal(got, want) {
		t.Errorf("the stream is %q", got)
	}
}

// A page has the logs of a limited number of tasks, and the number of those that it leaves out.
func TestLogsOfManyTasksAreBounded(t *testing.T) {
	t.Parallel()
	s := New(8800, &fake{}, nil, nil)
	l := look{at: noon}
	for i := range mostLogs + 5 {
		l.tasks = append(l.tasks, top.Task{Task: api.Task{ID: fmt.Sprint(i), Service: "shop"}})
	}
	c, err := s.choose(l, url.Values{"service": {"shop"}})
	if err != nil || len(c.Tasks) != mostLogs || c.More != 5 || c.Closed {
		t.Errorf("%d tasks and %d more: %v", len(c.Tasks), c.More, err)
	}
}

// silent is a host whose containers say nothing and do not end.
type silent struct{ fake }

func (silent) Lines(ctx context.Context, _ string, _ Lines, _ func(Line) error) error {
	<-ctx.Done()
	return nil
}

// Tasks that come later are followed only where there is room.
func TestTasksThatComeAndGoDoNotAddUp(t *testing.T) {
	t.Parallel()
	f := follower{source: &silent{}, lines: make(chan Line), ended: make(chan error), known: map[string]bool{}}
	for round := range 3 {
		var tasks []top.Task
		for i := range mostLogs {
			tasks = append(tasks, top.Task{Task: api.Task{ID: fmt.Sprint(round, " ", i)}})
		}
		f.begin(t.Context(), tasks)
	}
	if f.running != mostLogs {
		t.Errorf("%d tasks are followed", f.running)
	}
}
