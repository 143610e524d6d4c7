package adapter

import (
	"context"
	"errors"
	"time"

	run "github.com/podtask/podtask/internal/engine/run/scaling"
	"github.com/podtask/podtask/pkg/scaling"
)

// Scaling are the services that scale: an awsapi.Scaling.
type Scaling struct {
	Store    *run.Store
	Calendar run.Calendar
}

// All implements awsapi.Scaling.
func (s Scaling) All() ([]scaling.State, error) { return s.Store.All() }

// Get implements awsapi.Scaling.
func (s Scaling) Get(service string) (state scaling.State, found bool, err error) {
	return s.Store.Find(service)
}

// Configure implements awsapi.Scaling.
func (s Scaling) Configure(ctx context.Context, service string, change func(c scaling.Config, found bool) (scaling.Config, error)) (scaling.State, error) {
	return s.Store.Configure(ctx, service, time.Now().Round(0).UTC(), change)
}

// End implements awsapi.Scaling.
func (s Scaling) End(ctx context.Context, service string) error {
	err := s.Store.End(ctx, service)
	if missing := (*run.NotFoundError)(nil); errors.As(err, &missing) {
		return nil
	}
	return err
}

// Times implements awsapi.Scaling.
func (s Scaling) Times(ctx context.Context, schedule, zone string) ([]string, error) {
	return run.Times(ctx, s.Calendar, schedule, zone)
}
