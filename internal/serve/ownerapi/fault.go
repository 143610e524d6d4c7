package ownerapi

import (
	"context"
	"time"

	"github.com/podtask/podtask/internal/engine/act/endpoint"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/fault"
)

// faulty is an Owner that injects faults.
type faulty interface{ Faults() *endpoint.Faults }

// faults are those of the task.
func (b Backend) faults() (*endpoint.Faults, error) {
	if o, ok := b.Owner.(faulty); ok {
		return o.Faults(), nil
	}
	return nil, api.Failed(api.Unsupported, "this process injects no faults")
}

// StartFault implements api.FaultBackend.
func (b Backend) StartFault(ctx context.Context, _ string, f fault.Fault, duration time.Duration) error {
	faults, err := b.faults()
	if err != nil {
		return err
	}
	return faults.Start(ctx, f, duration)
}

// StopFaults implements api.FaultBackend.
func (b Backend) StopFaults(ctx context.Context, _ string, like fault.Fault) error {
	faults, err := b.faults()
	if err != nil {
		return err
	}
	return faults.Stop(ctx, like)
}
