package scaling

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/podtask/podtask/internal/lazy"
)

// Metric is a measurement that a policy tracks, as an average over the healthy copies of a service.
type Metric string

// The metrics.
const (
	CPU         Metric = "cpu"         // in percent of the CPU limit of the task; of one CPU without a limit
	Memory      Metric = "memory"      // in percent of the memory limit of the task; of the host's memory without a limit
	Requests    Metric = "requests"    // requests to the public addresses, for each copy in a minute
	Connections Metric = "connections" // connections to the listeners, for each copy in a minute
)

// Metrics are all values of Metric but those of the copies' own endpoints; see Own.
var Metrics = []Metric{CPU, Memory, Requests, Connections}

// Limits of a configuration.
const (
	// MaxCopies is the largest maximum.
	MaxCopies = 1000
	// MaxPolicies is the largest number of policies of a service.
	MaxPolicies = 10
	// MaxActions is the largest number of scheduled actions of a service.
	MaxActions = 100
	// MaxCooldown is the longest cool-down.
	MaxCooldown = 24 * time.Hour
	// DefaultCooldown is the cool-down of a policy that names none, as for services of ECS.
	DefaultCooldown = 5 * time.Minute
)

// Config is the configuration of the scaling of a service.
type Config struct {
	// Min and Max bound the number of copies.
	Min int `json:"min"`
	Max int `json:"max"`
	// Policies and Actions have names of their own.
	Policies []Policy `json:"policies,omitempty"`
	Actions  []Action `json:"actions,omitempty"`
	// Suspended are the changes that are not made for now.
	Suspended Suspended `json:"suspended,omitzero"`
}

// Suspended are the changes that are not made for now.
type Suspended struct {
	In        bool `json:"in,omitempty"`
	Out       bool `json:"out,omitempty"`
	Scheduled bool `json:"scheduled,omitempty"`
}

// Policy tracks a target, or has steps.
type Policy struct {
	Name   string  `json:"name"`
	Metric Metric  `json:"metric"`
	Target float64 `json:"target"`
	// Steps are used in place of a target. A step in percent changes MinAdjustment copies at least.
	Steps         []Step `json:"steps,omitempty"`
	MinAdjustment int    `json:"minAdjustment,omitempty"`
	// OutCooldown and InCooldown are the times after a change during which it is still expected to have its effect.
	OutCooldown time.Duration `json:"outCooldown"`
	InCooldown  time.Duration `json:"inCooldown"`
	// OnlyOut: the policy never scales in, and does not keep others from it.
	OnlyOut bool `json:"onlyOut,omitempty"`
}

// Action changes the bounds at set times.
type Action struct {
	Name string `json:"name"`
	// Source is the time as the user wrote it: rate(), cron() or at() of EventBridge, or a calendar event of systemd. Calendar has
	// the expressions of systemd for it.
	Source   string   `json:"source"`
	Calendar []string `json:"calendar"`
	// Timezone is the time zone of Source; empty for the default of its form.
	Timezone string `json:"timezone,omitempty"`
	// Start and End bound the times; zero for no bound.
	Start time.Time `json:"start,omitzero"`
	End   time.Time `json:"end,omitzero"`
	// Min and Max are the new bounds; nil leaves one as it is.
	Min *int `json:"min,omitempty"`
	Max *int `json:"max,omitempty"`
}

var validName = lazy.MustCompile(`^\S.{0,254}$`)

// Check returns all that is wrong with a configuration, by member.
func (c Config) Check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	errs = append(errs, checkBounds("", c.Min, c.Max))
	if len(c.Policies) > MaxPolicies {
		bad("policies: there are %d, more than %d", len(c.Policies), MaxPolicies)
	}
	if len(c.Actions) > MaxActions {
		bad("actions: there are %d, more than %d", len(c.Actions), MaxActions)
	}
	for i, p := range c.Policies {
		errs = append(errs, p.check())
		if slices.ContainsFunc(c.Policies[:i], func(q Policy) bool { return q.Name == p.Name }) {
			bad("policies: %q is there twice", p.Name)
		}
		if slices.ContainsFunc(c.Policies[:i], func(q Policy) bool { return q.Metric == p.Metric }) {
			bad("policy %q: another policy tracks %s already; change its target instead", p.Name, p.Metric)
		}
	}
	for i, a := range c.Actions {
		errs = append(errs, a.check(c))
		if slices.ContainsFunc(c.Actions[:i], func(b Action) bool { return b.Name == a.Name }) {
			bad("actions: %q is there twice", a.Name)
		}
	}
	return errors.Join(errs...)
}

// checkBounds checks a minimum and a maximum; of is what they are of, with a space behind it.
func checkBounds(of string, least, most int) error {
	switch {
	case least < 0:
		return fmt.Errorf("%sminimum: it is 0 or more, not %d", of, least)
	case most > MaxCopies:
		return fmt.Errorf("%smaximum: it is %d or less, not %d", of, MaxCopies, most)
	case most < least:
		return fmt.Errorf("%smaximum: %d is less than the minimum %d", of, most, least)
	}
	return nil
}

func (p Policy) check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !validName.MatchString(p.Name) {
		bad("policy: a name has 1 to 255 characters, not %q", p.Name)
	}
	if !slices.Contains(Metrics, p.Metric) {
		if err := p.Metric.checkOwn(); err != nil {
			bad("policy %q: %w", p.Name, err)
		}
	}
	if len(p.Steps) > 0 {
		errs = append(errs, p.checkSteps())
	} else if math.IsNaN(p.Target) || math.IsInf(p.Target, 0) || p.Target <= 0 {
		bad("policy %q: the target is more than 0, not %v", p.Name, p.Target)
	}
	if p.Target > 100 && p.Metric == Memory {
		bad("policy %q: the target of %s is a percentage, at most 100, not %v", p.Name, p.Metric, p.Target)
	}
	for what, d := range map[string]time.Duration{"out": p.OutCooldown, "in": p.InCooldown} {
		if d < 0 || d > MaxCooldown {
			bad("policy %q: the cool-down for scaling %s is 0s to %s, not %s", p.Name, what, MaxCooldown, d)
		}
	}
	return errors.Join(errs...)
}

func (a Action) check(c Config) error {
	of := fmt.Sprintf("action %q: ", a.Name)
	switch {
	case !validName.MatchString(a.Name):
		return fmt.Errorf("action: a name has 1 to 255 characters, not %q", a.Name)
	case len(a.Calendar) == 0:
		return errors.New(of + "it has no times")
	case a.Min == nil && a.Max == nil:
		return errors.New(of + "it changes nothing: it needs a minimum, a maximum, or both")
	case !a.End.IsZero() && !a.End.After(a.Start):
		return errors.New(of + "its end is not after its start")
	}
	c = c.apply(a)
	if a.Min != nil && a.Max != nil {
		return checkBounds(of, *a.Min, *a.Max)
	}
	if a.Min != nil {
		return checkBounds(of, *a.Min, max(c.Max, *a.Min))
	}
	return checkBounds(of, min(c.Min, *a.Max), *a.Max)
}

// apply returns the configuration with the bounds of an action. A bound that it does not name gives way to the other.
func (c Config) apply(a Action) Config {
	if a.Min != nil {
		c.Min, c.Max = *a.Min, max(c.Max, *a.Min)
	}
	if a.Max != nil {
		c.Max, c.Min = *a.Max, min(c.Min, *a.Max)
	}
	return c
}
