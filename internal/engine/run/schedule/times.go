package schedule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/define/calendar"
	"github.com/podtask/podtask/internal/define/pod"
	"github.com/podtask/podtask/pkg/taskdef"
)

// Times are the times of a schedule as users write them.
type Times struct {
	// At lists calendar events of systemd.time(7), lines of cron, and expressions of EventBridge; it may be empty for a CronJob.
	At []string `json:"at,omitempty"`
	// Zone is the time zone; empty for the one of each kind of expression.
	Zone string `json:"timezone,omitempty"`
	// Overlap is empty for Forbid, or what the CronJob says.
	Overlap Overlap `json:"overlap,omitempty"`
	// CatchUp is nil for no, or as Kubernetes does for a CronJob.
	CatchUp *bool `json:"catchUp,omitempty"`
	Paused  bool  `json:"paused,omitempty"`
}

// Set gives a schedule its times, those of a CronJob where users write none. All problems are reported at once.
func (t Times) Set(ctx context.Context, c SystemdCalendar, s *State, cron *pod.CronJob) error {
	s.Overlap, s.CatchUp, s.Within, s.Paused = cmp.Or(t.Overlap, Forbid), t.CatchUp != nil && *t.CatchUp, 0, t.Paused
	if cron != nil {
		if t.Overlap == "" {
			s.Overlap = Overlap(strings.ToLower(cron.ConcurrencyPolicy))
		}
		s.Paused = s.Paused || cron.Suspend
		if t.CatchUp == nil { // Kubernetes makes up for the latest time
			s.CatchUp, s.Within = true, cron.StartingDeadline
		}
	}
	var errs []error
	if !slices.Contains(Overlaps, s.Overlap) {
		errs = append(errs, fmt.Errorf("overlap is forbid, replace or allow, not %q", s.Overlap))
	}
	s.Calendar = nil
	add := func(events []string, err error, zone string) {
		errs = append(errs, err)
		for _, e := range events {
			if zone != "" {
				e += " " + zone
			}
			errs = append(errs, c.Check(ctx, e))
			s.Calendar = append(s.Calendar, e)
		}
	}
	s.Source = strings.Join(t.At, "; ")
	zone := t.Zone
	for _, at := range t.At {
		switch {
		case calendar.IsEventBridge(at):
			events, err := calendar.EventBridge(at)
			add(events, err, cmp.Or(t.Zone, "UTC"))
		case calendar.IsCron(at): // in local time, as cron has it
			events, err := calendar.Cron(at)
			add(events, err, t.Zone)
		default:
			add([]string{at}, nil, t.Zone)
		}
	}
	if len(t.At) == 0 && cron != nil {
		s.Source = cron.Schedule
		events, err := calendar.Cron(cron.Schedule)
		zone = cmp.Or(t.Zone, cron.TimeZone)
		add(events, err, cmp.Or(zone, "UTC"))
	}
	s.Source = strings.TrimSuffix(s.Source+" "+zone, " ")
	return errors.Join(errs...)
}

// CheckSources refuses secrets from variables of this process, which has ended when the schedule is due.
func CheckSources(t taskdef.Task, files map[string][]byte) error {
	var errs []error
	for _, c := range t.Containers {
		for _, secret := range c.Secrets {
			name, inEnv := strings.CutPrefix(secret.Source, "env:")
			if _, provided := files[name]; inEnv && !provided {
				errs = append(errs, fmt.Errorf("container %s: the secret %s comes from the variable %s of this process, which does not exist when the schedule is due: use podman:NAME or file:PATH", c.Name, cmp.Or(secret.Name, name), name))
			}
		}
	}
	return errors.Join(errs...)
}
