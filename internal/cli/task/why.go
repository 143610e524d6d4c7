package task

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/cli/reason"
	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/engine/run/schedule"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/cgroups"
	"github.com/urfave/cli/v2"
)

// WhyCommand is `podtask why`.
func WhyCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "why",
		Usage:     "explain in a sentence or two what a task, service or schedule waits for, or why it stopped",
		ArgsUsage: "TASK|SERVICE|SCHEDULE ...",
		Description: `The sentence comes from the state that podtask itself uses: the queue, failed attempts
and the time of the next one, dependencies and their progress, health checks, stop
timeouts. With --format json all reasons are listed, the root cause first; their codes are
stable.

Examples:
  podtask why web
  podtask why nightly
  podtask why --format json web | jq -r '.[0].why[0].code'`,
		Flags:  []cli.Flag{command.FormatFlag(command.ItemFormats), command.IgnoreFlag()},
		Action: command.WithMachine(p, newWhy),
	}
}

// whyOptions is what `podtask why` uses.
type whyOptions struct {
	out    io.Writer
	reader command.TaskReader
	owners *connect.Connector
	getenv func(string) string

	schedules *schedule.Store
	tasks     *record.Tasks
}

func newWhy(m *command.Machine) whyOptions {
	return whyOptions{
		out:    m.Program.Stdout,
		reader: m.TaskReader(),
		owners: m.Connector,
		getenv: m.Program.Getenv,

		schedules: m.Engine.Schedules,
		tasks:     m.Engine.Tasks,
	}
}

// Run implements command.Runner.
func (o whyOptions) Run(ctx context.Context, c *cli.Context) error {
	if !c.Args().Present() {
		return command.Usagef("why", "no TASK to explain")
	}
	explanations := []reason.Explanation{}
	var errs []error
	for _, ref := range c.Args().Slice() {
		t, err := o.reader.Inspect(ctx, ref)
		if connect.IsGone(err) || err == nil && byFamily(t, ref) { // a service and a schedule come before a family
			if s, ok := o.findService(ctx, ref); ok {
				explanations = append(explanations, explainService(s, time.Now()))
				continue
			}
			if a, found, scheduleErr := o.explainSchedule(ctx, ref); found || scheduleErr != nil {
				if found {
					explanations = append(explanations, a)
				}
				if scheduleErr != nil {
					errs = append(errs, scheduleErr)
				}
				continue
			}
			if a, found := explainECS(o.ecsWaits(), ref, time.Now()); found {
				explanations = append(explanations, a)
				continue
			}
		}
		switch {
		case err == nil:
			t.Why = append(t.Why, ecsReasons(o.ecsWaits(), t)...)
			explanations = append(explanations, reason.Task(t, time.Now()))
		case connect.IsGone(err) && !c.Bool("ignore"):
			errs = append(errs, fmt.Errorf("no task, service or schedule %q: list them with `podtask ps -a`, `podtask service ls` and `podtask schedule ls`", ref))
		case !connect.IsGone(err):
			errs = append(errs, err)
		}
	}
	err := command.PrintItems(o.out, c, explanations, func(bool) error {
		for _, a := range explanations {
			fmt.Fprintln(o.out, command.OnTerminal(o.out, "", a.Sentence))
		}
		return nil
	})
	return errors.Join(append(errs, err)...)
}

// byFamily reports whether ref names the task by nothing but its family.
func byFamily(t api.Task, ref string) bool {
	return t.Name == "" && t.Family == ref && !strings.HasPrefix(t.ID, ref)
}

// findService asks the agent, if there is one, for a service.
func (o whyOptions) findService(ctx context.Context, name string) (api.Service, bool) {
	c := o.owners.DialAgent(ctx)
	if c == nil {
		return api.Service{}, false
	}
	defer c.Close()
	s, err := c.Service(ctx, name)
	return s, err == nil
}

// serviceReasons limits the sentences about a service; --format json has all reasons.
const serviceReasons = 3

// explainService makes sentences of the first reasons of a service.
func explainService(s api.Service, now time.Time) reason.Explanation {
	a := reason.Explanation{Name: s.ServiceName, Status: s.Status, Why: s.Why}
	a.Sentence = fmt.Sprintf("service %s: %s", s.ServiceName, console.Reason(s.Why[0], now))
	for _, r := range s.Why[1:min(serviceReasons, len(s.Why))] {
		a.Sentence += ". " + console.Capital(console.Reason(r, now))
	}
	a.Sentence += "."
	return a
}

// explainSchedule makes a sentence of the reasons of a schedule, if there is one of that name.
func (o whyOptions) explainSchedule(ctx context.Context, name string) (a reason.Explanation, found bool, err error) {
	s, err := o.schedules.Get(name)
	if missing := (*schedule.NotFoundError)(nil); errors.As(err, &missing) {
		return a, false, nil
	}
	if err != nil {
		return a, false, err
	}
	s, _, _ = schedule.Fold(s, o.tasks.Lookup)
	now, timer, status := time.Now(), false, "active"
	if manager, dialErr := cgroups.Dial(ctx, o.getenv); dialErr == nil {
		state, stateErr := manager.ActiveState(ctx, schedule.TimerName(s.Name))
		timer = stateErr == nil && state == "active"
		manager.Close()
	}
	var next time.Time
	switch {
	case s.Paused:
		status = "paused"
	case !timer:
		status = "no-timer"
	default:
		if next, err = (schedule.SystemdCalendar{Path: o.getenv("PATH")}).Next(ctx, s.Calendar, now); err != nil {
			return a, false, err
		}
	}
	a = reason.Explanation{Name: s.Name, Status: status, Why: schedule.Explain(s, next, timer)}
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
