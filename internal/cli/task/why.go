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
	"github.com/podtask/podtask/internal/cli/part"
	"github.com/podtask/podtask/internal/cli/reason"
	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/internal/unitfile/unitdir"
	"github.com/podtask/podtask/pkg/api"
	"github.com/urfave/cli/v2"
)

// WhyCommand is `podtask why`.
func WhyCommand(p *command.Program, build part.Build) *cli.Command {
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
		Action: command.WithMachine(p, newWhy(build)),
	}
}

type whyOptions struct {
	out    io.Writer
	reader command.TaskReader
	owners *connect.Connector
	getenv func(string) string
	// parts explain what is no task and no service.
	parts []part.Explainer
}

func newWhy(build part.Build) func(*command.Machine) whyOptions {
	return func(m *command.Machine) whyOptions {
		o := whyOptions{out: m.Program.Stdout, reader: m.TaskReader(), owners: m.Connector, getenv: m.Program.Getenv}
		for _, p := range build.Parts {
			if p.Explain != nil {
				o.parts = append(o.parts, p.Explain(m))
			}
		}
		return o
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
				explanations = append(explanations, o.explainService(ctx, s, time.Now()))
				continue
			}
			if a, found, partErr := o.ofParts(ctx, ref); found || partErr != nil {
				if found {
					explanations = append(explanations, a)
				}
				if partErr != nil {
					errs = append(errs, partErr)
				}
				continue
			}
		}
		switch {
		case err == nil:
			for _, p := range o.parts {
				if p.Task != nil {
					t.Why = append(t.Why, p.Task(t)...)
				}
			}
			explanations = append(explanations, reason.Task(t, time.Now()))
		case connect.IsGone(err) && !c.Bool("ignore"):
			if unit := unitdir.Named(o.getenv, ref); unit != nil {
				errs = append(errs, unit)
				continue
			}
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

// ofParts asks the parts, one after the other, what a word means.
func (o whyOptions) ofParts(ctx context.Context, ref string) (a reason.Explanation, found bool, err error) {
	for _, p := range o.parts {
		if p.Ref == nil {
			continue
		}
		if a, found, err = p.Ref(ctx, ref); found || err != nil {
			return a, found, err
		}
	}
	return a, false, nil
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

// explainService makes sentences of the first reasons of a service, and of those that parts know.
func (o whyOptions) explainService(ctx context.Context, s api.Service, now time.Time) reason.Explanation {
	a := reason.Explanation{Name: s.ServiceName, Status: s.Status, Why: s.Why}
	a.Sentence = fmt.Sprintf("service %s: %s", s.ServiceName, console.Reason(s.Why[0], now))
	for _, r := range s.Why[1:min(serviceReasons, len(s.Why))] {
		a.Sentence += ". " + console.Capital(console.Reason(r, now))
	}
	for _, p := range o.parts {
		if p.Service == nil {
			continue
		}
		for _, r := range p.Service(ctx, s) {
			a.Why = append(a.Why, r)
			a.Sentence += ". " + console.Capital(console.Reason(r, now))
		}
	}
	a.Sentence += "."
	return a
}
