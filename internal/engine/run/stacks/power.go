package stacks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/podtask/podtask/internal/engine/decide/stack"
	"github.com/podtask/podtask/pkg/api"
)

// StartAll gives each service of a stack its copies, in order, each after those that it waits for, and waits until all are healthy. Jobs are
// left: they have succeeded. The record stays as it is.
func (r Runner) StartAll(ctx context.Context, s stack.State, told func(text string)) error {
	members := stack.Order(s.Current.Members)
	for _, m := range members {
		if m.Kind != stack.Service {
			continue
		}
		for _, d := range s.Current.Awaits(m) {
			if err := r.wait(ctx, stack.Step{Name: d.Name, Member: *s.Current.Find(d.Name), Is: d.Is}); err != nil {
				return err
			}
		}
		var n api.NewService
		if err := json.Unmarshal(m.Request, &n); err != nil {
			return fmt.Errorf("the record of %s cannot be read: %w", m.Name, err)
		}
		if err := r.count(ctx, s, m, n.DesiredCount); err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
		told(m.Name + " starts")
	}
	for _, m := range members {
		if m.Kind == stack.Service {
			if err := r.wait(ctx, stack.Step{Name: m.Name, Member: m, Is: stack.Healthy}); err != nil {
				return err
			}
		}
	}
	return nil
}

// StopAll takes their copies from the services of a stack, those that wait for others first. A service that cannot be stopped does not keep
// the others from it.
func (r Runner) StopAll(ctx context.Context, s stack.State, told func(text string)) error {
	var errs []error
	none := 0
	for _, m := range slices.Backward(stack.Order(s.Current.Members)) {
		if m.Kind != stack.Service {
			continue
		}
		err := r.count(ctx, s, m, none)
		if err == nil {
			err = r.Agent.WatchService(ctx, m.Object, func(s api.Service) bool { return s.RunningCount > 0 || len(s.Tasks) > 0 && !s.Steady })
		}
		if err != nil && !api.Is(err, api.NotFound) {
			errs = append(errs, fmt.Errorf("%s: %w", m.Name, err))
			continue
		}
		told(m.Name + " is stopped")
	}
	return errors.Join(errs...)
}

// count sets the desired count of a service of the stack.
func (r Runner) count(ctx context.Context, s stack.State, m stack.Member, n int) error {
	now, err := r.Agent.Service(ctx, m.Object)
	if err == nil && !Owns(s.Have[m.Name], now) {
		err = notOurs(m.Object)
	}
	if err == nil {
		_, err = r.Agent.UpdateService(ctx, m.Object, api.ServiceUpdate{DesiredCount: &n})
	}
	return err
}

// wait waits for a condition of a service, for as long as a step may take.
func (r Runner) wait(ctx context.Context, step stack.Step) error {
	if r.Limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.Limit)
		defer cancel()
	}
	if _, err := r.awaitService(ctx, step); err != nil {
		return fmt.Errorf("%s is not %s: %w", step.Name, step.Is, err)
	}
	return nil
}
