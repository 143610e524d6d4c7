package scaling

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/define/calendar"
	"github.com/podtask/podtask/internal/engine/run/schedule"
	"github.com/podtask/podtask/pkg/scaling"
)

// Calendar answers questions about expressions of systemd.time(7).
type Calendar interface {
	Check(ctx context.Context, expression string) error
	Next(ctx context.Context, expressions []string, after time.Time) (time.Time, error)
	Between(ctx context.Context, expressions []string, after, until time.Time) (schedule.Due, error)
}

// Times converts rate(), cron() and at() of EventBridge, the five fields of cron, or a calendar event to expressions of
// systemd. Without a zone those of EventBridge are in UTC, and the others in local time.
func Times(ctx context.Context, c Calendar, source, zone string) (expressions []string, err error) {
	if _, err := time.LoadLocation(zone); err != nil {
		return nil, fmt.Errorf("there is no time zone %q; write one such as Europe/Berlin", zone)
	}
	switch {
	case calendar.IsEventBridge(source):
		expressions, err = calendar.EventBridge(source)
		zone = cmp.Or(zone, "UTC")
	case calendar.IsCron(source):
		expressions, err = calendar.Cron(source)
	default:
		expressions = []string{source}
	}
	if err != nil {
		return nil, err
	}
	for i := range expressions {
		if zone != "" {
			expressions[i] += " " + zone
		}
		if err := c.Check(ctx, expressions[i]); err != nil {
			return nil, err
		}
	}
	return expressions, nil
}

// clock knows when actions are due. It asks the calendar only about those that are new or were due.
type clock struct {
	calendar Calendar
	next     map[string]time.Time // by service, action and times
	used     map[string]time.Time // those of the present round
}

// begin begins a round. What the round before did not ask for is forgotten.
func (c *clock) begin() { c.next, c.used = c.used, make(map[string]time.Time) }

// due returns the actions of a service that are due since its record was decided, in the order of their times. Passed:
// there was a time of an action, within its bounds or not.
func (c *clock) due(ctx context.Context, s scaling.State, now time.Time) (actions []scaling.Action, passed bool, err error) {
	type late struct {
		scaling.Action
		at time.Time
	}
	var all []late
	for _, a := range s.Config.Actions {
		next, err := c.nextOf(ctx, s, a)
		if err != nil {
			return nil, false, err
		}
		if next.IsZero() || next.After(now) {
			continue
		}
		due, err := c.calendar.Between(ctx, a.Calendar, s.Decided, now)
		if err != nil {
			return nil, false, fmt.Errorf("action %s of service %s: %w", a.Name, s.Service, err)
		}
		passed = true
		if at := due.Latest; !at.IsZero() && !at.Before(a.Start) && (a.End.IsZero() || !at.After(a.End)) {
			all = append(all, late{a, at})
		}
	}
	slices.SortStableFunc(all, func(a, b late) int { return a.at.Compare(b.at) })
	for _, l := range all {
		actions = append(actions, l.Action)
	}
	return actions, passed, nil
}

// nextOf returns the first time of an action after the record was decided; zero for none.
func (c *clock) nextOf(ctx context.Context, s scaling.State, a scaling.Action) (next time.Time, err error) {
	key := strings.Join(append([]string{s.Service, a.Name, s.Decided.String()}, a.Calendar...), "\x00")
	next, known := c.next[key]
	if !known {
		if next, err = c.calendar.Next(ctx, a.Calendar, s.Decided); err != nil {
			return next, fmt.Errorf("action %s of service %s: %w", a.Name, s.Service, err)
		}
	}
	c.used[key] = next
	return next, nil
}
