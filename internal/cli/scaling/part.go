package scaling

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/part"
	"github.com/podtask/podtask/internal/engine"
	"github.com/podtask/podtask/internal/engine/act/observe"
	run "github.com/podtask/podtask/internal/engine/run/scaling"
	"github.com/podtask/podtask/internal/engine/run/schedule"
	"github.com/podtask/podtask/internal/engine/run/services"
	"github.com/podtask/podtask/internal/serve/metrics/scalingmetrics"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/scaling"
	"golang.org/x/sys/unix"
)

// Part is the part scaling.
func Part() part.Part {
	return part.Part{
		Name: "scaling",
		Commands: func(p *command.Program) []part.Command {
			return []part.Command{{Command: Command(p), Under: "service", After: "scale"}}
		},
		Routes: func() map[string]part.Route {
			routes := map[string]part.Route{}
			for _, v := range verbs() {
				routes["service scaling "+v.Name] = part.Route{}
			}
			return routes
		},
		Agent:   agent,
		Explain: newExplainer,
	}
}

// newExplainer explains a change of the desired count that a target asks for and that is not made.
func newExplainer(m *command.Machine) part.Explainer {
	return part.Explainer{Service: func(_ context.Context, s api.Service) []api.Reason {
		store, err := run.Open(m.Connector.StateDir, state.OS{})
		if err != nil {
			return nil
		}
		record, err := store.Get(s.ServiceName)
		if err != nil {
			return nil // it does not scale
		}
		return reasons(record, s.RunningCount, measured(context.Background(), m.Connector.AgentSocket)[s.ServiceName])
	}}
}

func reasons(s scaling.State, running int, values scaling.Rows) []api.Reason {
	r := newRow(s, values)
	r.Running = &running
	text := r.note()
	if text == command.NoValue {
		return nil
	}
	return []api.Reason{{Code: api.WhyScalingHeld, Text: "the number of copies does not change: " + text, Since: s.Held.Since}}
}

// valuesPath is the path of the latest measurements in the API of the agent.
const valuesPath = "/v1/scaling/values"

// agent makes an agent scale services.
func agent(a *part.Agent) error {
	store, err := run.Open(a.StateDir, state.OS{})
	if err != nil {
		return err
	}
	runner := &run.Runner{
		Store: store, Services: a.Backend.Controller, Host: host{a.Engine, a.Backend.Controller}, Now: time.Now, Tick: time.After, Log: a.Log,
		Calendar: schedule.SystemdCalendar{Path: a.Getenv("PATH")},
	}
	a.Collect(scalingmetrics.New(store.All, runner.Rows))
	a.Handle("GET "+valuesPath, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		all, _ := store.All() // those that cannot be read have no values
		values := map[string]scaling.Rows{}
		for _, s := range all {
			values[s.Service] = runner.Rows(s.Service)
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(values); err != nil {
			a.Log.Debug("values of services that scale", "error", err)
		}
	}))
	a.Run(func(ctx context.Context) error {
		if err := runner.Run(ctx); err != nil {
			a.Log.Error("no service scales until the agent starts again", "error", err)
			<-ctx.Done() // tasks matter more
		}
		return nil
	})
	return nil
}

// host is this host.
type host struct {
	engine   *engine.Engine
	services *services.Services
}

func (h host) Task(id string) (lifecycle.State, bool) { return h.engine.Tasks.Lookup(id) }

func (h host) Usage(ctx context.Context, tasks []lifecycle.State) ([]*observe.Usage, error) {
	return h.engine.Stats.ReadAll(ctx, tasks)
}

func (h host) Dial(ctx context.Context, task lifecycle.State, i int, address string) (net.Conn, error) {
	return h.engine.Prober.Dial(ctx, task, i, address)
}

func (h host) Memory() uint64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return info.Totalram * uint64(info.Unit)
}

func (h host) Requests(ctx context.Context) map[string]uint64 {
	if h.services.Routes == nil {
		return nil
	}
	status, err := h.services.Routes.Ask(ctx)
	if err != nil || status == nil {
		return nil
	}
	counts := make(map[string]uint64)
	for _, c := range status.Requests {
		counts[c.Service] += c.Count
	}
	return counts
}

func (h host) Connections() map[string]uint64 {
	counts := make(map[string]uint64)
	for _, t := range h.services.Traffic() {
		for _, n := range t.Forwarded {
			counts[t.Service] += n
		}
		counts[t.Service] += t.Refused
	}
	return counts
}
