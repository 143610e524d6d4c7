package notify

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/part"
	"github.com/podtask/podtask/internal/cli/reason"
	"github.com/podtask/podtask/internal/config"
	"github.com/podtask/podtask/internal/engine"
	"github.com/podtask/podtask/internal/engine/decide/stack"
	"github.com/podtask/podtask/internal/engine/run/imagelook"
	"github.com/podtask/podtask/internal/engine/run/schedule"
	"github.com/podtask/podtask/internal/engine/run/stacks"
	"github.com/podtask/podtask/internal/notice"
	"github.com/podtask/podtask/internal/notice/deliver"
	"github.com/podtask/podtask/internal/notice/settings"
	"github.com/podtask/podtask/internal/notice/watch"
	"github.com/podtask/podtask/internal/serve/metrics/noticemetrics"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// Part is the part notices.
func Part() part.Part {
	return part.Part{
		Name: "notices",
		Commands: func(p *command.Program) []part.Command {
			return []part.Command{{Command: Command(p), Group: "Services and systemd", After: "schedule"}}
		},
		Routes: func() map[string]part.Route {
			return map[string]part.Route{"notify ls": {}, "notify log": {}, "notify test": {}, "notify send": {}, "notify rules": {}}
		},
		Complete: complete,
		Explain:  newExplainer,
		Agent:    agent,
	}
}

// agent makes an agent tell people.
func agent(a *part.Agent) error {
	rules, err := settings.Load(config.Source{Getenv: a.Getenv})
	if err != nil {
		return err
	}
	store, err := watch.Open(a.StateDir, state.OS{})
	if err != nil {
		return err
	}
	host := looker{engine: a.Engine, stateDir: a.StateDir, getenv: a.Getenv, updates: imagelook.New(a.Log, a.Engine.Images, a.Engine.Tasks, a.StateDir)}
	a.Collect(noticemetrics.New(func() (notice.State, error) {
		s, _, err := store.Get()
		return s, err
	}, host.look))
	if len(rules) == 0 {
		return nil
	}
	w := newWatcher(a.Engine, a.StateDir, a.Getenv, store, rules)
	w.Log = a.Log
	for _, r := range rules {
		for _, c := range r.On {
			if f, _ := notice.FactOf(c); f.Looked {
				w.Looks = host.look
			}
		}
	}
	a.Log.Info("telling people", "rules", len(rules))
	a.Run(func(ctx context.Context) error {
		if err := w.Run(ctx); err != nil {
			a.Log.Error("nobody is told of anything until the agent starts again", "error", err)
			<-ctx.Done() // tasks matter more
		}
		return nil
	})
	return nil
}

// newWatcher returns a watcher without a log.
func newWatcher(e *engine.Engine, stateDir string, getenv func(string) string, store *watch.Store, rules []settings.Rule) *watch.Watcher {
	sender := newSender(e, getenv)
	facts := watch.Facts{
		Task: e.Tasks.Lookup, Tags: labels, StackOf: stackOf(stateDir),
		ScheduleOf: func(name, task string) bool {
			schedules, err := schedule.Open(stateDir, state.OS{})
			if err != nil {
				return false
			}
			s, err := schedules.Get(name)
			for _, r := range s.Runs {
				if r.Task == task {
					return err == nil
				}
			}
			return false
		},
	}
	return &watch.Watcher{
		Rules: rules, Store: store, Events: e.Events, About: facts.About, Now: time.Now, Spread: rand.Float64,
		Send: func(ctx context.Context, r settings.Rule, m notice.Message) error {
			return sender.Send(ctx, r.Target, m)
		},
		Failure: failureOf,
	}
}

// stackOf returns a function that finds the stack of a service or of the task of a job.
func stackOf(stateDir string) func(service, task string) string {
	return func(service, task string) string {
		if service == "" && task == "" {
			return ""
		}
		store, err := stacks.Open(stateDir, state.OS{})
		if err != nil {
			return ""
		}
		all, _ := store.All() // of a record that cannot be read, nothing is known
		for _, s := range all {
			for _, h := range s.Have {
				if h.Kind == stack.Service && h.Object == service || service == "" && h.Kind == stack.Job && task == fmt.Sprintf("%s-%d", h.Object, h.Run) {
					return s.Name
				}
			}
		}
		return ""
	}
}

func failureOf(err error) notice.Failure {
	if e, ok := errors.AsType[*deliver.Error](err); ok {
		return e.Failure
	}
	return notice.Failure{Text: err.Error()}
}

func newSender(e *engine.Engine, getenv func(string) string) deliver.Sender {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return deliver.Sender{Host: host, Secret: e.Secrets.ReadSecret, Getenv: getenv, Now: time.Now}
}

// labels are the labels of a task's containers.
func labels(s lifecycle.State) map[string]string {
	all := map[string]string{}
	for _, c := range s.Task.Containers {
		maps.Copy(all, c.Labels)
	}
	return all
}

// names returns the names of all rules; none if the configuration has problems.
func names(getenv func(string) string) (all []string) {
	rules, err := settings.Load(config.Source{Getenv: getenv})
	if err != nil {
		return nil
	}
	for _, r := range rules {
		all = append(all, r.Name)
	}
	return all
}

func complete(q part.Completion) ([]string, bool) {
	if q.Path[0] != "notify" {
		return nil, false
	}
	if strings.Join(q.Path, " ") != "notify test" {
		return nil, true
	}
	return names(os.Getenv), true
}

// newExplainer explains why a rule of a name has told nothing.
func newExplainer(m *command.Machine) part.Explainer {
	return part.Explainer{Ref: func(_ context.Context, ref string) (a reason.Explanation, found bool, err error) {
		name, is := strings.CutPrefix(ref, "notify/")
		if !is {
			return a, false, nil
		}
		store, err := watch.Open(m.Connector.StateDir, state.OS{})
		if err != nil {
			return a, false, err
		}
		s, _, err := store.Get()
		if err != nil {
			return a, false, err
		}
		r, waiting := s.Rules[name], 0
		for _, w := range s.Outbox {
			if w.Rule == name {
				waiting++
			}
		}
		why := api.Reason{Code: "running", Text: "nothing waits to be delivered"}
		switch {
		case waiting > 0:
			why = api.Reason{Code: "retry", Text: fmt.Sprintf("%d notices wait, because of the latest attempt: %s", waiting, r.Error), Until: r.Next, Then: "the next attempt"}
		case r.Held > 0:
			why = api.Reason{Code: "held", Text: fmt.Sprintf("%d notices are held back, because many came in a short time", r.Held), Until: r.From.Add(r.Length), Then: "one message with their number"}
		}
		return reason.Explanation{Name: ref, Status: why.Code, Sentence: "Notices of " + name + ": " + why.Text + ".", Why: []api.Reason{why}}, true, nil
	}}
}

// storageDir is the directory of Podman's images, unless it is configured otherwise.
func storageDir(getenv func(string) string) string {
	if dir := getenv("XDG_DATA_HOME"); dir != "" {
		return filepath.Join(dir, "containers", "storage")
	}
	return filepath.Join(getenv("HOME"), ".local", "share", "containers", "storage")
}
