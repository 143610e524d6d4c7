package scaling

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/engine/run/services"
	"github.com/podtask/podtask/pkg/scaling"
	"github.com/podtask/podtask/pkg/service"
)

// Services are the services of the agent.
type Services interface {
	State(name string) (service.State, error)
	Update(ctx context.Context, name string, c services.Change) (service.State, error)
}

// Runner scales the services that have a record.
type Runner struct {
	Store    *Store
	Services Services
	Host     Host
	Calendar Calendar
	Now      func() time.Time
	// Tick returns what is to be read before each sample.
	Tick func(time.Duration) <-chan time.Time
	Log  *slog.Logger

	mu     sync.Mutex
	values map[string]scaling.Rows
	meter  meter
	clock  clock
}

// scaled is a service that scales.
type scaled struct {
	record  scaling.State
	service service.State
}

// Run scales until the context ends.
func (r *Runner) Run(ctx context.Context) error {
	r.meter, r.clock = meter{host: r.Host}, clock{calendar: r.Calendar}
	some := make(chan bool, 1)
	failed := make(chan error, 1)
	go func() {
		failed <- r.Store.Follow(ctx, func(is bool) {
			select {
			case <-some:
			default:
			}
			some <- is
		})
	}()
	var tick <-chan time.Time
	said := ""
	for {
		select {
		case err := <-failed:
			if ctx.Err() != nil {
				return nil
			}
			return err
		case is := <-some:
			if !is {
				tick = nil
			} else if tick == nil {
				tick = r.Tick(scaling.Interval)
			}
		case <-tick:
			err := r.Round(ctx)
			if text := fmt.Sprint(err); err != nil && ctx.Err() == nil && text != said {
				r.Log.Warn("scaling", "error", err)
				said = text // each round may find the same
			}
			tick = r.Tick(scaling.Interval)
		}
	}
}

// Rows returns what is known of the metrics of a service, by policy.
func (r *Runner) Rows(service string) scaling.Rows {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.values[service]
}

// Round takes a sample of each service and scales it.
func (r *Runner) Round(ctx context.Context) error {
	records, err := r.Store.All()
	errs := []error{err}
	var all []scaled
	for _, record := range records {
		s, err := r.Services.State(record.Service)
		switch {
		case errors.Is(err, services.ErrNoService):
			errs = append(errs, r.Store.End(ctx, record.Service))
		case err != nil:
			errs = append(errs, err)
		default:
			all = append(all, scaled{record, s})
		}
	}
	now := r.Now().Round(0).UTC()
	round, err := r.meter.newRound(ctx, now, all)
	errs = append(errs, err)
	r.clock.begin()
	values := make(map[string]scaling.Rows, len(all))
	for _, s := range all {
		rows, err := r.scale(ctx, s, round.sample(s.record, s.service))
		errs = append(errs, err)
		values[s.record.Service] = rows
	}
	r.mu.Lock()
	r.values = values
	r.mu.Unlock()
	return errors.Join(errs...)
}

// scale decides about a service, saves that, and has it done.
func (r *Runner) scale(ctx context.Context, s scaled, sample scaling.Sample) (scaling.Rows, error) {
	name, recorded := s.record.Service, s.record.Decided
	record, set := s.record.Mend(sample.At)
	s.record = record
	rows := r.Rows(name).Observe(s.record.Config, sample)
	due, passed, err := r.clock.due(ctx, s.record, sample.At)
	passed = passed || set
	facts := factsOf(s.service)
	next, desired, changed := scaling.Decide(s.record, facts, rows, sample, due)
	if !changed && !passed {
		return rows, err
	}
	errs := []error{err}
	if passed {
		next.Decided = sample.At
	}
	stale := false
	err = r.Store.update(ctx, name, func(now scaling.State) scaling.State {
		if stale = !now.Decided.Equal(recorded); stale {
			return now // it was configured meanwhile: the next sample decides
		}
		return next
	})
	if err != nil || stale || desired == facts.Desired {
		return rows, errors.Join(append(errs, err)...)
	}
	cause := next.Activities[len(next.Activities)-1].Cause
	if err := r.change(ctx, name, facts.Desired, desired, cause); err != nil {
		errs = append(errs, err, r.Store.update(ctx, name, func(now scaling.State) scaling.State { return now.Fail(err) }))
	}
	return nil, errors.Join(errs...)
}

// change changes the desired count of a service, unless somebody else has just done so.
func (r *Runner) change(ctx context.Context, name string, from, to int, cause string) error {
	if s, err := r.Services.State(name); err != nil || s.DesiredCount != from {
		return err
	}
	_, err := r.Services.Update(ctx, name, services.Change{DesiredCount: &to, Notes: []string{fmt.Sprintf("scales from %d to %d: %s.", from, to, cause)}})
	if err != nil {
		return fmt.Errorf("scale service %s to %d: %w", name, to, err)
	}
	r.Log.Info("scaled", "service", name, "from", from, "to", to)
	return nil
}

func factsOf(s service.State) scaling.Facts {
	f := scaling.Facts{
		Desired:   s.DesiredCount,
		Away:      s.Status != service.Active || s.Rest.Asleep || s.Rest.Waking,
		Deploying: s.Primary().Rollout == service.InProgress,
	}
	for _, t := range s.Tasks {
		f.Waiting = f.Waiting || !t.QueuedAt.IsZero() && t.Phase != service.Stopping
	}
	return f
}
