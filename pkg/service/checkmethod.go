package service

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/lazy"
)

// The limits of ECS for hooks.
const (
	// MaxHooks is the greatest number of hooks that are called, and of pauses.
	MaxHooks = 10
	// MaxHookTimeout and MaxPause are the longest timeouts.
	MaxHookTimeout = 24 * time.Hour
	MaxPause       = 14 * 24 * time.Hour
	// MaxBake is the longest bake time, of a step too.
	MaxBake = 24 * time.Hour
	// maxDetails is the size of the details of a hook in bytes.
	maxDetails = 16 << 10
)

// hookStages are those that have hooks.
var hookStages = []Stage{Reconcile, PreScaleUp, PostScaleUp, TestShift, PostTestShift, PreProduction, Production, PostProduction}

var hookName = lazy.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]*$`)

// checkMethod returns what is wrong with how a service is deployed.
func checkMethod(c Config) (errs []error) {
	m := c.Method
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	checkStep(m, refuse)
	if m.Bake < 0 || m.Bake > MaxBake {
		refuse("the bake time is up to %s, not %s", MaxBake, m.Bake)
	}
	checkHooks(m.Hooks, refuse)
	if e := m.Early; e.Enable {
		least := 100
		if c.Bounds != nil {
			least = c.Bounds.MinimumHealthyPercent
		}
		switch {
		case !m.rolls():
			refuse("early success is for the strategy ROLLING, not %s", m.Strategy)
		case e.HealthyPercent < 0 || e.HealthyPercent > 100:
			refuse("the healthy percent of early success is 0 to 100, not %d", e.HealthyPercent)
		case e.HealthyPercent < least:
			refuse("the healthy percent of early success is at least the minimum healthy percent, %d, not %d", least, e.HealthyPercent)
		}
	}
	if m.Alarms.Enable && len(m.Alarms.Alarms) == 0 {
		refuse("alarms are enabled, and none is named")
	}
	for i, a := range m.Alarms.Alarms {
		if a.Name == "" || slices.ContainsFunc(m.Alarms.Alarms[:i], func(o Alarm) bool { return o.Name == a.Name }) {
			refuse("the alarm %q has no name, or the one of another", a.Name)
		}
	}
	switch t := c.Breaker.Threshold; t.Type {
	case "":
		if t.Value != 0 {
			refuse("a threshold of the circuit breaker needs a type: COUNT, BOUNDED_PERCENT or UNBOUNDED_PERCENT")
		}
	case ThresholdCount:
		if t.Value < 1 {
			refuse("the threshold COUNT of the circuit breaker is at least 1, not %d", t.Value)
		}
	case BoundedPercent, UnboundedPercent:
		if t.Value < 1 || t.Value > 100 {
			refuse("the threshold %s of the circuit breaker is 1 to 100, not %d", t.Type, t.Value)
		}
	default:
		refuse("the threshold of the circuit breaker is COUNT, BOUNDED_PERCENT or UNBOUNDED_PERCENT, not %q", t.Type)
	}
	return errs
}

// checkStep refuses a strategy that there is not, and steps that it does not have.
func checkStep(m Method, refuse func(string, ...any)) {
	least := map[Strategy]Permille{Linear: 30, Canary: 1}[m.Strategy]
	switch s := m.Step; {
	case !slices.Contains([]Strategy{"", Rolling, BlueGreen, Linear, Canary}, m.Strategy):
		refuse("the strategy is ROLLING, BLUE_GREEN, LINEAR or CANARY, not %q", m.Strategy)
	case least == 0 && s != (Increment{}):
		refuse("the strategy %s has no steps: leave out their percent and bake time, or choose LINEAR or CANARY", orRolling(m.Strategy))
	case least > 0 && (s.Part < least || s.Part > Whole):
		refuse("the percent of a step of %s is %g to 100, in tenths, not %g", m.Strategy, least.Percent(), s.Part.Percent())
	case s.Bake < 0 || s.Bake > MaxBake:
		refuse("the bake time of a step is up to %s, not %s", MaxBake, s.Bake)
	}
}

func orRolling(s Strategy) Strategy {
	if s == "" {
		return Rolling
	}
	return s
}

// checkHooks refuses hooks that could not be called, or not in their stages.
func checkHooks(hooks []Hook, refuse func(string, ...any)) {
	pauses := 0
	for i, h := range hooks {
		if h.Target.Kind == HookPause {
			pauses++
		}
		if len(h.Name) > 128 || !hookName.MatchString(h.Name) {
			refuse("the name of the hook %q is not one of 1 to 128 letters, digits, dots, dashes and underscores", h.Name)
		}
		if slices.ContainsFunc(hooks[:i], func(o Hook) bool { return o.Name == h.Name }) {
			refuse("there are two hooks %q", h.Name)
		}
		checkHook(h, func(format string, args ...any) { refuse("hook %s: "+format, append([]any{h.Name}, args...)...) })
	}
	if pauses > MaxHooks || len(hooks)-pauses > MaxHooks {
		refuse("a service has at most %d hooks that are called and %d pauses, not %d and %d", MaxHooks, MaxHooks, len(hooks)-pauses, pauses)
	}
}

func checkHook(h Hook, refuse func(string, ...any)) {
	pause := h.Target.Kind == HookPause
	if len(h.Stages) == 0 {
		refuse("it has no stage; one of %s", stageList())
	}
	for i, s := range h.Stages {
		switch {
		case !slices.Contains(hookStages, s):
			refuse("%q is not a stage with hooks; one of %s", s, stageList())
		case pause && s.shifts():
			refuse("a pause is not possible in %s, because that stage is repeated on the way back", s)
		case slices.Contains(h.Stages[:i], s):
			refuse("the stage %s is there twice", s)
		}
	}
	switch t := h.Target; t.Kind {
	case HookPause:
		if t.Value != "" || len(t.Command) > 0 || h.Role != "" {
			refuse("a pause has neither a target nor a role")
		}
	case HookLambda, HookURL, HookTask:
		if t.Value == "" {
			refuse("the target is missing")
		}
		if t.Kind == HookURL && !strings.HasPrefix(t.Value, "http://") && !strings.HasPrefix(t.Value, "https://") {
			refuse("the target %q is not an http or https URL", t.Value)
		}
	case HookCommand:
		if len(t.Command) == 0 || !filepath.IsAbs(t.Command[0]) {
			refuse("the command is a program with an absolute path, not %q", strings.Join(t.Command, " "))
		}
	default:
		refuse("the kind of the target is AWS_LAMBDA, PAUSE, COMMAND, URL or TASK, not %q", t.Kind)
	}
	most := MaxHookTimeout
	if pause {
		most = MaxPause
	}
	if h.Timeout < 0 || h.Timeout > most {
		refuse("the timeout is up to %s, not %s", most, h.Timeout)
	}
	if !slices.Contains([]TimeoutAction{"", TimeoutRollback, TimeoutContinue}, h.OnTimeout) {
		refuse("the action after the timeout is ROLLBACK or CONTINUE, not %q", h.OnTimeout)
	}
	if len(h.Details) > maxDetails || len(h.Details) > 0 && !json.Valid(h.Details) {
		refuse("the details are a JSON value of up to %d bytes", maxDetails)
	}
}

func stageList() string {
	var names []string
	for _, s := range hookStages {
		names = append(names, string(s))
	}
	return strings.Join(names, ", ")
}
