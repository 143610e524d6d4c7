package schedule

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/cli/part"
	"github.com/podtask/podtask/internal/cli/reason"
	"github.com/podtask/podtask/internal/engine"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/engine/run/schedule"
	"github.com/podtask/podtask/internal/serve/metrics/schedulemetrics"
	"github.com/podtask/podtask/internal/state"
)

// Part is the part schedules.
func Part() part.Part {
	return part.Part{
		Name: "schedules",
		Commands: func(p *command.Program) []part.Command {
			return []part.Command{{Command: Command(p), Group: "Services and systemd", After: "service"}}
		},
		Routes: func() map[string]part.Route {
			routes := map[string]part.Route{"schedule create": {Definition: 2, Later: true}}
			for _, name := range []string{"ls", "history", "pause", "resume", "run", "rm"} {
				routes["schedule "+name] = part.Route{}
			}
			return routes
		},
		Documents:  []command.Document{{Name: "schedule", Schema: func() any { return schedule.Schema() }}},
		FlagValues: map[string][]string{"overlap": {string(schedule.Forbid), string(schedule.Replace), string(schedule.Allow)}},
		Complete:   complete,
		Explain:    newExplainer,
		Beside:     newBeside,
		Task:       latestTask,
		BeforeCleanUp: func(stateDir string, e *engine.Engine) error {
			store, err := schedule.Open(stateDir, state.OS{})
			if err != nil {
				return err
			}
			return store.Collect(e.Tasks.Lookup)
		},
		Agent: func(a *part.Agent) error {
			store, err := schedule.Open(a.StateDir, state.OS{})
			if err != nil {
				return err
			}
			a.Collect(schedulemetrics.New(func() []schedule.State {
				all, _ := store.All() // those that cannot be read have no metrics
				for i := range all {
					all[i], _, _ = schedule.Fold(all[i], a.Engine.Tasks.Lookup)
				}
				return all
			}))
			return nil
		},
	}
}

// complete returns the names of all schedules whose records can be read.
func complete(q part.Completion) (names []string, ok bool) {
	if q.Path[0] != "schedule" {
		return nil, false
	}
	if verb := q.Path[len(q.Path)-1]; verb == "create" || verb == "ls" || len(q.Arguments) > 0 && !strings.HasSuffix(q.Usage, "...") {
		return nil, true
	}
	store, err := schedule.Open(q.StateDir, state.OS{})
	if err != nil {
		return nil, true
	}
	all, _ := store.All()
	for _, s := range all {
		names = append(names, s.Name)
	}
	return names, true
}

// latestTask returns the task of the latest run of a schedule.
func latestTask(stateDir, name string) (id string, found bool) {
	store, err := schedule.Open(stateDir, state.OS{})
	if err != nil {
		return "", false
	}
	s, err := store.Get(name)
	if err != nil {
		return "", false
	}
	for _, r := range slices.Backward(s.Runs) {
		if r.Task != "" {
			return r.Task, true
		}
	}
	return "", false
}

// explainer explains schedules.
type explainer struct {
	stateDir string
	getenv   func(string) string
	tasks    *record.Tasks
}

func newExplainer(m *command.Machine) part.Explainer {
	return part.Explainer{Ref: explainer{m.Connector.StateDir, m.Program.Getenv, m.Engine.Tasks}.ref}
}

// ref makes a sentence of the reasons of a schedule, if there is one of that name.
func (o explainer) ref(ctx context.Context, name string) (a reason.Explanation, found bool, err error) {
	store, err := schedule.Open(o.stateDir, state.OS{})
	if err != nil {
		return a, false, err
	}
	s, err := store.Get(name)
	if missing := (*schedule.NotFoundError)(nil); errors.As(err, &missing) {
		return a, false, nil
	}
	if err != nil {
		return a, false, err
	}
	s, _, _ = schedule.Fold(s, o.tasks.Lookup)
	status, why, err := s.Why(ctx, o.getenv)
	if err != nil {
		return a, false, err
	}
	now := time.Now()
	a = reason.Explanation{Name: s.Name, Status: status, Why: why}
	for i, r := range a.Why {
		if i > 0 {
			a.Sentence += ". "
			r.Text = console.Capital(r.Text)
		}
		a.Sentence += console.Reason(r, now)
	}
	a.Sentence = fmt.Sprintf("schedule %s is %s: %s.", s.Name, status, a.Sentence)
	return a, true, nil
}
