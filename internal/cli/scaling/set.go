package scaling

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
	run "github.com/podtask/podtask/internal/engine/run/scaling"
	"github.com/podtask/podtask/pkg/scaling"
)

// set changes the bounds and targets of a service.
func (o call) set(ctx context.Context, args []string) error {
	client, err := o.connector.RequireAgent(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	if _, err := client.Service(ctx, args[0]); err != nil {
		return err
	}
	s, err := o.store.Configure(ctx, args[0], o.now().Round(0).UTC(), func(c scaling.Config, found bool) (scaling.Config, error) {
		if !found {
			if !o.c.IsSet("max") {
				return c, command.Usagef(command.Path(o.c), "--max is missing: how many copies may %s have at most?", args[0])
			}
			c.Min = 1
		}
		o.bounds(&c.Min, &c.Max)
		return c, o.targets(&c)
	})
	if err != nil {
		return err
	}
	if len(s.Config.Policies)+len(s.Config.Actions) == 0 {
		o.warn("%s has no target, so that its desired count only stays between %d and %d: set one, such as --cpu 60", args[0], s.Config.Min, s.Config.Max)
	}
	return nil
}

// bounds takes over --min and --max.
func (o call) bounds(least, most *int) {
	if o.c.IsSet("min") {
		*least = o.c.Int("min")
	}
	if o.c.IsSet("max") {
		*most = o.c.Int("max")
	}
}

// targets takes over the flags about policies. The policy of a metric has its name.
func (o call) targets(c *scaling.Config) error {
	c.Policies = slices.Clone(c.Policies)
	for _, m := range scaling.Metrics {
		if o.c.IsSet(string(m)) {
			setTarget(c, string(m), m, o.c.Float64(string(m)))
		}
	}
	var errs []error
	for _, word := range o.c.StringSlice("metric") {
		i := strings.LastIndexByte(word, '=')
		own, err := run.ParseOwn(word[:max(i, 0)])
		value, notNumber := strconv.ParseFloat(word[i+1:], 64)
		if err != nil || notNumber != nil {
			errs = append(errs, command.Usagef(command.Path(o.c), "--metric %s: write CONTAINER:PORT[/PATH] NAME=NUMBER, such as 'app:9090/metrics jobs_waiting=10'", word))
			continue
		}
		setTarget(c, own.Series, own.Metric(), value)
	}
	errs = append(errs, o.steps(c))
	for i := range c.Policies {
		p := &c.Policies[i]
		if o.c.IsSet("cooldown-out") {
			p.OutCooldown = o.c.Duration("cooldown-out")
		}
		if o.c.IsSet("cooldown-in") {
			p.InCooldown = o.c.Duration("cooldown-in")
		}
		if o.c.IsSet("only-out") {
			p.OnlyOut = o.c.Bool("only-out")
		}
	}
	return errors.Join(errs...)
}

// steps takes over --step, which replaces the steps of its metric, or its target.
func (o call) steps(c *scaling.Config) error {
	var errs []error
	var metrics []scaling.Policy
	for _, word := range o.c.StringSlice("step") {
		i := strings.LastIndexByte(word, ' ')
		name := word[:max(i, 0)]
		m := scaling.Metric(name)
		if !slices.Contains(scaling.Metrics, m) {
			own, err := run.ParseOwn(name)
			if err != nil {
				errs = append(errs, command.Usagef(command.Path(o.c), "--step %s: write METRIC FROM..TO=CHANGE; the metric is one of %v, or CONTAINER:PORT[/PATH] NAME", word, scaling.Metrics))
				continue
			}
			m, name = own.Metric(), own.Series
		}
		step, err := scaling.ParseStep(word[i+1:])
		if err != nil {
			errs = append(errs, command.Usagef(command.Path(o.c), "--step %s: %v", word, err))
			continue
		}
		k := slices.IndexFunc(metrics, func(p scaling.Policy) bool { return p.Metric == m })
		if k < 0 {
			k = len(metrics)
			metrics = append(metrics, scaling.Policy{Name: name, Metric: m, OutCooldown: scaling.DefaultCooldown, InCooldown: scaling.DefaultCooldown})
		}
		metrics[k].Steps = append(metrics[k].Steps, step)
	}
	for _, p := range metrics {
		if i := slices.IndexFunc(c.Policies, func(q scaling.Policy) bool { return q.Metric == p.Metric }); i >= 0 {
			c.Policies[i].Steps, c.Policies[i].Target = p.Steps, 0
		} else {
			c.Policies = append(c.Policies, p)
		}
	}
	if o.c.IsSet("min-adjustment") {
		for i := range c.Policies {
			if len(c.Policies[i].Steps) > 0 {
				c.Policies[i].MinAdjustment = o.c.Int("min-adjustment")
			}
		}
	}
	return errors.Join(errs...)
}

// setTarget sets the target of a metric. The target 0 removes its policy.
func setTarget(c *scaling.Config, name string, m scaling.Metric, target float64) {
	i := slices.IndexFunc(c.Policies, func(p scaling.Policy) bool { return p.Metric == m })
	switch {
	case target == 0 && i >= 0:
		c.Policies = slices.Delete(c.Policies, i, i+1)
	case target == 0:
	case i >= 0:
		c.Policies[i].Target, c.Policies[i].Steps, c.Policies[i].MinAdjustment = target, nil, 0
	default:
		c.Policies = append(c.Policies, scaling.Policy{
			Name: name, Metric: m, Target: target, OutCooldown: scaling.DefaultCooldown, InCooldown: scaling.DefaultCooldown,
		})
	}
}

// at makes, changes or removes an action.
func (o call) at(ctx context.Context, args []string) error {
	remove, path := o.c.Bool("rm"), command.Path(o.c)
	switch {
	case remove && (len(args) == 3 || o.c.IsSet("min") || o.c.IsSet("max")):
		return command.Usagef(path, "--rm removes a change; it takes no time and no bounds")
	case !remove && len(args) < 3:
		return command.Usagef(path, "when is it due? podtask service scaling at %s %s 'Mon..Fri 07:00' --min 3", args[0], args[1])
	}
	a := scaling.Action{Name: args[1], Timezone: o.c.String("timezone")}
	if !remove {
		a.Source = args[2]
		times, err := run.Times(ctx, o.calendar, a.Source, a.Timezone)
		if err != nil {
			return err
		}
		a.Calendar = times
		for name, bound := range map[string]**int{"min": &a.Min, "max": &a.Max} {
			if o.c.IsSet(name) {
				n := o.c.Int(name)
				*bound = &n
			}
		}
	}
	_, err := o.store.Configure(ctx, args[0], o.now().Round(0).UTC(), func(c scaling.Config, found bool) (scaling.Config, error) {
		if !found {
			return c, &run.NotFoundError{Service: args[0]}
		}
		i := slices.IndexFunc(c.Actions, func(b scaling.Action) bool { return b.Name == a.Name })
		switch c.Actions = slices.Clone(c.Actions); {
		case remove && i < 0:
			return c, fmt.Errorf("the service %s has no change %q: `podtask service scaling show %s` lists them", args[0], a.Name, args[0])
		case remove:
			c.Actions = slices.Delete(c.Actions, i, i+1)
		case i >= 0:
			c.Actions[i] = a
		default:
			c.Actions = append(c.Actions, a)
		}
		return c, nil
	})
	return err
}

func (o call) suspend(ctx context.Context, names []string, s scaling.Suspended) error {
	return each(names, func(name string) error {
		_, err := o.store.Configure(ctx, name, o.now().Round(0).UTC(), func(c scaling.Config, found bool) (scaling.Config, error) {
			if !found {
				return c, &run.NotFoundError{Service: name}
			}
			c.Suspended = s
			return c, nil
		})
		return err
	})
}

func (o call) rm(ctx context.Context, names []string) error {
	return each(names, func(name string) error { return o.store.End(ctx, name) })
}

// each does something with all names, and returns all that went wrong.
func each(names []string, do func(string) error) error {
	var errs []error
	for _, name := range names {
		errs = append(errs, do(name))
	}
	return errors.Join(errs...)
}

// span prints a time without zero units behind it.
func span(d time.Duration) string {
	if d%time.Minute == 0 && d > 0 {
		return fmt.Sprintf("%dm", int(d.Minutes()))
	}
	return d.String()
}
