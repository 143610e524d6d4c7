package schedule

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// SystemdCalendar answers questions about calendar expressions with systemd-analyze, so that a schedule and its
// timer agree. Its methods may be called concurrently.
type SystemdCalendar struct {
	// Path is where programs are looked for, as in PATH.
	Path string
}

// atOnce is the number of times that are asked for in one call.
const atOnce = 100

// Check returns the reason why an expression cannot be used: systemd does not understand it, it is never due, or
// it has fractions of a second.
func (c SystemdCalendar) Check(ctx context.Context, expression string) error {
	times, normalized, err := c.times(ctx, expression, time.Time{}, 1)
	switch {
	case err != nil:
		return err
	case len(times) == 0:
		return fmt.Errorf("%q is never due again", expression)
	case strings.Contains(strings.ReplaceAll(normalized, "..", ""), "."):
		return fmt.Errorf("%q has fractions of a second: a schedule has whole seconds", expression)
	}
	return nil
}

// Next returns the first time after a time at which one of the expressions is due; zero if there is none.
func (c SystemdCalendar) Next(ctx context.Context, expressions []string, after time.Time) (next time.Time, err error) {
	for _, e := range expressions {
		times, _, err := c.times(ctx, e, after, 1)
		if err != nil {
			return next, err
		}
		if len(times) > 0 && (next.IsZero() || times[0].Before(next)) {
			next = times[0]
		}
	}
	return next, nil
}

// lookBack is how far before its end a long span is searched for its latest time, the nearest first.
var lookBack = []time.Duration{time.Minute, time.Hour, 24 * time.Hour, 40 * 24 * time.Hour, 400 * 24 * time.Hour}

// Between returns the due times after one time up to another.
func (c SystemdCalendar) Between(ctx context.Context, expressions []string, after, until time.Time) (Due, error) {
	var all []time.Time
	for _, e := range expressions {
		times, _, err := c.times(ctx, e, after, atOnce)
		if err != nil {
			return Due{}, err
		}
		times = slices.DeleteFunc(times, func(t time.Time) bool { return t.After(until) })
		if len(times) == atOnce { // there may be later ones
			late, err := c.latest(ctx, e, until)
			if err != nil {
				return Due{}, err
			}
			times = append(times, late...)
		}
		all = append(all, times...)
	}
	slices.SortFunc(all, time.Time.Compare)
	all = slices.CompactFunc(all, time.Time.Equal)
	if len(all) == 0 {
		return Due{}, nil
	}
	return Due{Latest: all[len(all)-1], Count: len(all)}, nil
}

// latest returns the last time of an expression up to a time.
func (c SystemdCalendar) latest(ctx context.Context, expression string, until time.Time) ([]time.Time, error) {
	for _, back := range lookBack {
		times, _, err := c.times(ctx, expression, until.Add(-back), atOnce)
		if err != nil {
			return nil, err
		}
		if times = slices.DeleteFunc(times, func(t time.Time) bool { return t.After(until) }); len(times) > 0 {
			return times[len(times)-1:], nil
		}
	}
	return nil, nil
}

// times returns the first n times at which an expression is due after a time; the zero time is now.
func (c SystemdCalendar) times(ctx context.Context, expression string, after time.Time, n int) (times []time.Time, normalized string, err error) {
	program, err := exec.LookPath("systemd-analyze")
	if err != nil {
		return nil, "", errors.New("systemd-analyze is not installed: schedules need it to know when they are due; install systemd whole")
	}
	args := []string{"calendar", "--iterations=" + strconv.Itoa(n)}
	if !after.IsZero() {
		args = append(args, "--base-time=@"+strconv.FormatInt(after.Unix(), 10))
	}
	cmd := exec.CommandContext(ctx, program, append(args, "--", expression)...)
	// Not TZ: the timer does not see it either.
	cmd.Env = []string{"LC_ALL=C", "PATH=" + c.Path}
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		if ctx.Err() != nil {
			return nil, "", context.Cause(ctx)
		}
		return nil, "", fmt.Errorf("%q is not a calendar time: %s; write an event of systemd such as 'Mon..Fri 03:00' (man systemd.time), or the five fields of cron such as '0 3 * * 1-5'", expression, strings.TrimSpace(said.String()))
	}
	times, normalized, err = parseTimes(string(out))
	return slices.DeleteFunc(times, func(t time.Time) bool { return !t.After(after) }), normalized, err
}

// parseTimes reads what `systemd-analyze calendar` prints. If the local time is not UTC, a line of a time is
// followed by one in UTC.
func parseTimes(text string) (times []time.Time, normalized string, err error) {
	pending := ""
	flush := func() {
		if pending == "" {
			return
		}
		t, parseErr := time.Parse("Mon 2006-01-02 15:04:05 MST", pending)
		if parseErr != nil || !strings.HasSuffix(pending, " UTC") {
			err = fmt.Errorf("systemd-analyze says %q, which is no time in UTC", pending)
		}
		times, pending = append(times, t), ""
	}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		value = strings.TrimSpace(value)
		switch {
		case key == "Normalized form":
			normalized = value
		case key == "Next elapse", strings.HasPrefix(key, "Iter"):
			flush()
			if value != "never" {
				pending = value
			}
		case key == "(in UTC)":
			pending = value
		}
	}
	flush()
	return times, normalized, err
}
