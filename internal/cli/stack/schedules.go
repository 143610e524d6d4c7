package stack

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/define"
	"github.com/podtask/podtask/internal/define/catalog"
	"github.com/podtask/podtask/internal/define/pod"
	"github.com/podtask/podtask/internal/define/stackfile"
	"github.com/podtask/podtask/internal/engine/decide/stack"
	"github.com/podtask/podtask/internal/engine/run/schedule"
	"github.com/podtask/podtask/internal/engine/run/stacks"
	"github.com/podtask/podtask/internal/serve"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/cgroups"
)

// scheduleRequest describes a schedule, without its definition and images.
type scheduleRequest struct {
	api.NewTask
	Times schedule.Times `json:"times"`
}

// schedule makes a member a schedule, whose times are flags of podtask schedule create.
func (m *member) schedule(words []string) error {
	m.Kind, m.Notes = stack.Schedule, nil
	set := flag.NewFlagSet("schedule create", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.Func("at", "", func(at string) error { m.Times.At = append(slices.Clone(m.Times.At), at); return nil })
	set.Func("overlap", "", func(word string) error { m.Times.Overlap = schedule.Overlap(word); return nil })
	set.StringVar(&m.Times.Zone, "timezone", m.Times.Zone, "")
	set.BoolVar(&m.Times.Paused, "paused", m.Times.Paused, "")
	catchUp := set.Bool("catch-up", false, "")
	if err := set.Parse(words); err != nil {
		return err
	}
	set.Visit(func(f *flag.Flag) {
		if f.Name == "catch-up" {
			m.Times.CatchUp = catchUp
		}
	})
	return nil
}

// checkTimes returns what is wrong with the times of a member that is a schedule.
func (k call) checkTimes(ctx context.Context, m *member) error {
	if m.Kind != stack.Schedule {
		return nil
	}
	var s schedule.State
	err := m.Times.Set(ctx, schedule.SystemdCalendar{Path: k.getenv("PATH")}, &s, m.finds.Definition.Manifest.CronJob)
	if now, found, _ := k.schedules.Find(m.Object); found && slices.Equal(now.Calendar, s.Calendar) { // a time that has passed was right once
		return nil
	}
	return err
}

// scheduleOf makes a member of a stack file a schedule, if the file or its definition has times.
func (m *member) scheduleOf(one stackfile.Member) error {
	times := slices.ContainsFunc(one.Times, func(word string) bool { return strings.HasPrefix(word, "--at=") })
	var errs []error
	switch {
	case one.Job && len(one.Times) > 0:
		errs = append(errs, errors.New("it is a job, which runs once in a change, and has times: leave job or the times out"))
	case m.Kind != stack.Schedule && !times:
		for _, word := range one.Times {
			errs = append(errs, fmt.Errorf("%s is for schedules: write at: 'Mon..Fri 03:00' besides", strings.TrimPrefix(word, "--")))
		}
		return errors.Join(errs...)
	}
	for _, word := range one.Settings {
		if stackfile.IsOfServices(word) {
			errs = append(errs, fmt.Errorf("%s is for services, and this is a schedule: leave it out", strings.TrimPrefix(word, "--")))
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	m.words = nil // those of a service that the definition describes
	if times {
		m.Times.At = nil
	}
	return m.schedule(one.Times)
}

// free returns an error if a new schedule cannot have its name.
func (k call) free(m *member, of string) error {
	now, found, err := k.schedules.Find(m.Object)
	switch {
	case err != nil:
		return err
	case found && now.ID != stacks.ScheduleID(of, m.Object):
		return fmt.Errorf("%s: there is a schedule %s already, which is not of this stack: remove it with `podtask schedule rm %s`, or give the stack another name with --name", m.Place, m.Object, m.Object)
	case found:
		return nil
	}
	return k.units.Free(m.Object)
}

// timers connects to systemd's user manager, without which no schedule is woken.
func (k call) timers(ctx context.Context) (*cgroups.User, error) {
	manager, err := cgroups.Dial(ctx, k.getenv)
	if err != nil {
		return nil, fmt.Errorf("no schedule without systemd's user manager, whose timers wake it: %w", err)
	}
	return manager, nil
}

// schedules implements stacks.Schedules.
type schedules struct{ call }

func (k schedules) Apply(ctx context.Context, of string, m stack.Member, images map[string]string) error {
	var q scheduleRequest
	if err := json.Unmarshal(m.Request, &q); err != nil {
		return fmt.Errorf("the record of %s cannot be read: %w", m.Name, err)
	}
	lock, err := k.schedules.LockWait(ctx, m.Object)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	s, found, err := k.schedules.Find(m.Object)
	id, now := stacks.ScheduleID(of, m.Object), time.Now().UTC()
	switch {
	case err != nil:
		return err
	case found && s.ID != id:
		return fmt.Errorf("there is a schedule %s already, which is not of this stack", m.Object)
	case !found:
		s = schedule.State{ID: id, Name: m.Object, Created: now, Decided: now}
	}
	before := s
	q.TaskSettings.Images = images
	cron, err := k.defined(ctx, q, m.Definition, &s)
	if err != nil {
		return err
	}
	if err := q.Times.Set(ctx, schedule.SystemdCalendar{Path: k.getenv("PATH")}, &s, cron); err != nil {
		return err
	}
	if before.Paused && !s.Paused || !slices.Equal(before.Calendar, s.Calendar) { // times before this change are not its own
		s.Decided = now
	}
	manager, err := k.timers(ctx)
	if err != nil {
		return err
	}
	defer manager.Close()
	if err := k.schedules.Put(s); err != nil {
		return err
	}
	if s.Paused {
		return k.units.Uninstall(ctx, manager, s.Name)
	}
	return k.units.Install(ctx, manager, s)
}

// defined gives a schedule the task of a registered definition, and returns what that says about times if it is a CronJob.
func (k schedules) defined(ctx context.Context, q scheduleRequest, definition string, s *schedule.State) (*pod.CronJob, error) {
	d, err := k.definition(k.c, "")
	if err != nil {
		return nil, err
	}
	ref, err := catalog.ParseRef(definition)
	if err != nil {
		return nil, err
	}
	registered, err := k.catalog(k.c)
	if err != nil {
		return nil, err
	}
	r, text, err := registered.Find(ref)
	if err != nil {
		return nil, err
	}
	if d.Changes, err = serve.ChangesOf(q.TaskSettings, q.TaskOptions); err != nil {
		return nil, err
	}
	_, f, err := d.Unlocked().Check(define.Registered(r, text))
	if err == nil {
		err = f.Definition.Err()
	}
	if err != nil {
		return nil, err
	}
	s.Options = f.Definition.Options
	s.Options.Namespace = q.Namespace
	if s.Task, s.Files, err = f.Definition.PrepareCopies(ctx, k.engine.Secrets); err != nil {
		return nil, err
	}
	return f.Definition.Manifest.CronJob, schedule.CheckSources(s.Task, s.Files)
}

func (k schedules) Remove(ctx context.Context, of string, h stack.Had) error {
	lock, err := k.schedules.LockWait(ctx, h.Object)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	s, found, err := k.schedules.Find(h.Object)
	if err != nil || !found || s.ID != stacks.ScheduleID(of, h.Object) {
		return err
	}
	manager, err := k.timers(ctx)
	if err != nil {
		return err
	}
	defer manager.Close()
	if err := k.units.Uninstall(ctx, manager, s.Name); err != nil {
		return err
	}
	for _, r := range s.Runs {
		if r.Task == "" {
			continue
		}
		err := k.agent.Remove(ctx, r.Task, "podtask stack", true)
		if err == nil {
			err = k.agent.Watch(ctx, r.Task, func(api.Task) bool { return true })
		}
		if err != nil && !api.Is(err, api.NotFound) {
			return err
		}
	}
	return k.schedules.Delete(s.Name)
}

// scheduled returns the schedule of a member; found is false if it is gone.
func (k call) scheduled(of stack.State, h stack.Had) (s schedule.State, found bool, err error) {
	s, found, err = k.schedules.Find(h.Object)
	if found = found && s.ID == stacks.ScheduleID(of.Name, h.Object); found {
		s, _, _ = schedule.Fold(s, k.engine.Tasks.Lookup)
	}
	return s, found, err
}

// runs lists the tasks that a schedule of a stack has run.
func (k call) runs(of stack.State, h stack.Had) (ids []string, err error) {
	if h.Kind != stack.Schedule {
		return nil, nil
	}
	s, _, err := k.scheduled(of, h)
	for _, r := range s.Runs {
		if r.Task != "" {
			ids = append(ids, r.Task)
		}
	}
	return ids, err
}

func (k call) scheduleRow(of stack.State, h stack.Had, r memberRow) (memberRow, error) {
	s, found, err := k.scheduled(of, h)
	switch {
	case !found:
		r.Status = "gone"
	case s.Paused:
		r.Status = "paused"
	default:
		r.Status = "active"
	}
	if n := len(s.Runs); n > 0 {
		r.Reason = "the latest run: " + string(s.Runs[n-1].Status)
	}
	return r, err
}

func (k call) whySchedule(ctx context.Context, of stack.State, h stack.Had) ([]api.Reason, error) {
	s, found, err := k.scheduled(of, h)
	if err != nil || !found {
		return []api.Reason{}, err
	}
	_, why, err := s.Why(ctx, k.getenv)
	return why, err
}
