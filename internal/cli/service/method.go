package service

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/shlex"
	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/service"
	"github.com/urfave/cli/v2"
)

// methodFlags are those that say how copies are replaced by another revision.
func methodFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "strategy", Usage: "replace copies by `STRATEGY` rolling, blue-green, linear or canary", DefaultText: "rolling"},
		&cli.DurationFlag{Name: "bake", Usage: "keep the old copies for `TIME` when the new ones have all connections", DefaultText: "0s"},
		&cli.Float64Flag{Name: "step-percent", Usage: "linear: shift `PERCENT` of the connections in each step", DefaultText: "10"},
		&cli.DurationFlag{Name: "step-bake", Usage: "linear: wait `TIME` after each step", DefaultText: "6m"},
		&cli.Float64Flag{Name: "canary-percent", Usage: "canary: shift `PERCENT` of the connections first", DefaultText: "5"},
		&cli.DurationFlag{Name: "canary-bake", Usage: "canary: wait `TIME` before the rest", DefaultText: "10m"},
		&cli.StringSliceFlag{Name: "test-listen", Usage: "forward connections to the new copies before --listen does: `[IP:]PORT=CONTAINER:PORT`, or none"},
		&cli.StringSliceFlag{Name: "hook", Usage: "ask in stages of a deployment: `[NAME@]STAGE[:TIMEOUT]=TARGET`, a command, URL, ARN, task:FAMILY or pause; or none"},
		&cli.StringSliceFlag{Name: "alarm", Usage: "give a deployment up when the alarm `NAME` is raised, which a reference answers, or none"},
		&cli.StringFlag{Name: "breaker-threshold", Usage: "give a deployment up after `NUMBER|PERCENT%` failed copies; a percentage is 3 to 200 copies, with a plus behind it without bounds", DefaultText: "50%"},
		&cli.BoolFlag{Name: "breaker-cumulative", Usage: "add up failed copies although others become healthy"},
		&cli.IntFlag{Name: "early-success", Usage: "rolling: complete a deployment when `PERCENT` of the copies are healthy and the old ones are gone"},
		&cli.BoolFlag{Name: "early-deferred", Usage: "with --early-success: do not wait for the old copies"},
	}
}

// breakerOf returns the circuit breaker that the flags ask for; nil if they do not. What they do not name is as in
// present, that of the service; nil for a new one.
func breakerOf(c *cli.Context, present *api.DeploymentCircuitBreaker) (*api.DeploymentCircuitBreaker, error) {
	if !c.IsSet("no-rollback") && !c.IsSet("breaker-threshold") && !c.IsSet("breaker-cumulative") {
		return nil, nil
	}
	b := &api.DeploymentCircuitBreaker{Rollback: true}
	if present != nil {
		*b = *present
	}
	b.Enable = true
	if c.IsSet("no-rollback") {
		b.Rollback = !c.Bool("no-rollback")
	}
	if c.IsSet("breaker-cumulative") {
		b.Cumulative = c.Bool("breaker-cumulative")
	}
	word := c.String("breaker-threshold")
	if word == "" {
		return b, nil
	}
	kind := service.ThresholdCount
	number, unbounded := strings.CutSuffix(word, "%+")
	number, bounded := strings.CutSuffix(number, "%")
	switch {
	case unbounded:
		kind = service.UnboundedPercent
	case bounded:
		kind = service.BoundedPercent
	}
	value, err := strconv.Atoi(number)
	if err != nil || value < 1 {
		return nil, command.Usagef(command.Path(c), "--breaker-threshold is a number of copies as in 3, or a percentage as in 50%% or 50%%+, not %q", word)
	}
	b.Threshold = &api.BreakerThreshold{Type: string(kind), Value: value}
	return b, nil
}

// methodOf returns how copies are replaced, as the flags say. What belongs to a flag that is given, and
// they do not name, is as in present, the configuration of the service; zero for a new one.
func methodOf(c *cli.Context, present api.DeploymentConfiguration) (d api.DeploymentMethod, err error) {
	refuse := func(format string, args ...any) (api.DeploymentMethod, error) {
		return d, command.Usagef(command.Path(c), format, args...)
	}
	if c.IsSet("strategy") {
		d.Strategy = strings.ToUpper(strings.ReplaceAll(c.String("strategy"), "-", "_"))
		if all := []service.Strategy{service.Rolling, service.BlueGreen, service.Linear, service.Canary}; !slices.Contains(all, service.Strategy(d.Strategy)) {
			return refuse("--strategy is rolling, blue-green, linear or canary, not %q", c.String("strategy"))
		}
	}
	if d.BakeSeconds, err = secondsFlag(c, "bake"); err != nil {
		return d, err
	}
	if d.Linear, err = stepOf(c, "step", present.Linear); err != nil {
		return d, err
	}
	if d.Canary, err = stepOf(c, "canary", present.Canary); err != nil {
		return d, err
	}
	if c.IsSet("hook") {
		hooks, err := parseHooks(c.StringSlice("hook"))
		if err != nil {
			return refuse("--hook %v", err)
		}
		d.Hooks = &hooks
	}
	if c.IsSet("alarm") {
		names := c.StringSlice("alarm")
		if slices.Equal(names, []string{"none"}) {
			names = []string{}
		}
		rollback := present.DeploymentCircuitBreaker == nil || present.DeploymentCircuitBreaker.Rollback
		if c.IsSet("no-rollback") {
			rollback = !c.Bool("no-rollback")
		}
		d.Alarms = &api.Alarms{Enable: len(names) > 0, Rollback: rollback, Names: names}
	}
	if c.IsSet("early-success") || c.IsSet("early-deferred") {
		if !c.IsSet("early-success") {
			return refuse("--early-deferred needs --early-success")
		}
		percent := c.Int("early-success")
		deferred := c.Bool("early-deferred")
		if !c.IsSet("early-deferred") && present.EarlySuccess != nil {
			deferred = present.EarlySuccess.Deferred
		}
		d.EarlySuccess = &api.EarlySuccess{Enable: percent > 0, HealthyPercent: percent, Deferred: deferred}
	}
	return d, nil
}

// stepOf returns the step of --NAME-percent and --NAME-bake, with the other half of present if only one is given;
// nil if neither is.
func stepOf(c *cli.Context, name string, present *api.TrafficStep) (*api.TrafficStep, error) {
	bake, err := secondsFlag(c, name+"-bake")
	if err != nil || bake == nil && !c.IsSet(name+"-percent") {
		return nil, err
	}
	s := &api.TrafficStep{}
	if present != nil {
		*s = *present
	}
	if bake != nil {
		s.BakeSeconds = bake
	}
	if c.IsSet(name + "-percent") {
		percent := c.Float64(name + "-percent")
		s.Percent = &percent
	}
	return s, nil
}

// secondsFlag returns the value of a flag in whole seconds; nil if it is not given.
func secondsFlag(c *cli.Context, name string) (*int, error) {
	if !c.IsSet(name) {
		return nil, nil
	}
	d := c.Duration(name)
	if d < 0 || d != d.Truncate(time.Second) || d.Seconds() > math.MaxInt32 {
		return nil, command.Usagef(command.Path(c), "--%s is a number of seconds, minutes or hours as in 90s or 5m, not %s", name, d)
	}
	seconds := int(d.Seconds())
	return &seconds, nil
}

// parseHooks reads the words of --hook; the only word "none" stands for no hook.
func parseHooks(words []string) ([]api.Hook, error) {
	hooks := []api.Hook{}
	if slices.Equal(words, []string{"none"}) {
		return hooks, nil
	}
	var errs []error
	for i, w := range words {
		h, err := parseHook(w)
		if err != nil {
			errs = append(errs, fmt.Errorf("%q: %w", w, err))
			continue
		}
		if h.Name == "" {
			h.Name = fmt.Sprintf("hook-%d", i+1)
		}
		hooks = append(hooks, h)
	}
	return hooks, errors.Join(errs...)
}

func parseHook(word string) (h api.Hook, err error) {
	where, target, found := strings.Cut(word, "=")
	if !found || where == "" || target == "" {
		return h, errors.New("write STAGE=TARGET, as in post-test-traffic-shift=/usr/local/bin/smoke-test")
	}
	if name, rest, named := strings.Cut(where, "@"); named {
		h.Name, where = name, rest
	}
	parts := strings.Split(where, ":")
	for s := range strings.SplitSeq(parts[0], ",") {
		h.Stages = append(h.Stages, stageOf(s))
	}
	if len(parts) > 1 {
		timeout, err := time.ParseDuration(parts[1])
		if err != nil || timeout < time.Second {
			return h, fmt.Errorf("the timeout %q is not a time of at least 1s, as in 90s", parts[1])
		}
		h.TimeoutSeconds = int(timeout.Round(time.Second).Seconds())
	}
	switch {
	case len(parts) == 3 && strings.EqualFold(parts[2], "continue"):
		h.TimeoutAction = string(service.TimeoutContinue)
	case len(parts) == 3 && strings.EqualFold(parts[2], "rollback"):
		h.TimeoutAction = string(service.TimeoutRollback)
	case len(parts) > 2:
		return h, fmt.Errorf("after the timeout comes continue or rollback, not %q", strings.Join(parts[2:], ":"))
	}
	switch {
	case target == "pause":
		h.Kind = string(service.HookPause)
	case strings.HasPrefix(target, "arn:"):
		h.Kind, h.Target = string(service.HookLambda), target
	case strings.HasPrefix(target, "http://"), strings.HasPrefix(target, "https://"):
		h.Kind, h.Target = string(service.HookURL), target
	case strings.HasPrefix(target, "task:"):
		h.Kind, h.Target = string(service.HookTask), strings.TrimPrefix(target, "task:")
	case strings.HasPrefix(target, "/"):
		h.Kind = string(service.HookCommand)
		if h.Command, err = shlex.Split(target); err != nil {
			return h, fmt.Errorf("the command: %w", err)
		}
	default:
		return h, errors.New("the target is pause, a command that begins with /, a URL, an ARN, or task:FAMILY")
	}
	return h, nil
}

// stageOf returns the stage that a word stands for: post-test-traffic-shift, or post-test for short.
func stageOf(word string) string {
	stage := strings.ToUpper(strings.ReplaceAll(word, "-", "_"))
	if slices.Contains([]string{"TEST", "POST_TEST", "PRE_PRODUCTION", "PRODUCTION", "POST_PRODUCTION"}, stage) {
		return stage + "_TRAFFIC_SHIFT"
	}
	if stage == "RECONCILE" {
		return string(service.Reconcile)
	}
	return stage
}
