package adapter

import (
	"context"
	"errors"

	"github.com/podtask/podtask/internal/aws/awsapi"
	"github.com/podtask/podtask/internal/aws/awsapi/protocol"
	"github.com/podtask/podtask/internal/engine/run/services"
	"github.com/podtask/podtask/internal/serve"
	"github.com/podtask/podtask/pkg/api"
	svc "github.com/podtask/podtask/pkg/service"
	"github.com/podtask/podtask/pkg/transient"
)

// ECSServices are the services that the ECS API of an agent shows: an awsapi.Services.
type ECSServices struct{ backend serve.ServiceBackend }

// NewECSServices returns the services of an agent for its ECS API.
func NewECSServices(b serve.AgentBackend) ECSServices { return ECSServices{b.ServiceBackend} }

// States implements awsapi.Services.
func (e ECSServices) States() []svc.State { return e.backend.Controller.States() }

// State implements awsapi.Services.
func (e ECSServices) State(name string) (svc.State, bool) {
	s, err := e.backend.Controller.State(name)
	return s, err == nil
}

// Create implements awsapi.Services.
func (e ECSServices) Create(ctx context.Context, n awsapi.NewService) (svc.State, error) {
	spec, err := e.backend.Spec(ctx, n.Definition, api.ServiceSettings{}, n.Count)
	if err != nil {
		return svc.State{}, clientFailure(err)
	}
	s, err := e.backend.Controller.Create(ctx, n.Name, spec, n.Count, n.Config)
	return s, clientFailure(err)
}

// Update implements awsapi.Services.
func (e ECSServices) Update(ctx context.Context, name string, c awsapi.ServiceChange) (svc.State, error) {
	change := services.Change{From: c.From, DesiredCount: c.Count, Config: c.Config, Force: c.Force, Notes: c.Notes}
	if c.Definition != "" {
		now, err := e.backend.Controller.State(name)
		if err != nil {
			return now, clientFailure(err)
		}
		count := now.DesiredCount
		if c.Count != nil {
			count = *c.Count
		}
		spec, err := e.backend.Spec(ctx, c.Definition, api.ServiceSettings{}, count)
		if err != nil {
			return svc.State{}, clientFailure(err)
		}
		if now, found := e.State(name); found {
			if spec, err = e.backend.Follow(ctx, name, api.ServiceSettings{AutoUpdate: now.Config.AutoUpdate}, spec, now.Primary().Spec); err != nil {
				return svc.State{}, clientFailure(err)
			}
		}
		change.Spec = &spec
	}
	s, err := e.backend.Controller.Update(ctx, name, change)
	return s, clientFailure(err)
}

// Remove implements awsapi.Services.
func (e ECSServices) Remove(ctx context.Context, name string) (svc.State, error) {
	s, err := e.backend.Controller.Remove(ctx, name, true)
	return s, clientFailure(err)
}

// StopAttempt implements awsapi.Services.
func (e ECSServices) StopAttempt(ctx context.Context, name string, number int, abort bool) error {
	_, err := e.backend.Controller.Ask(ctx, name, func(s svc.State) (svc.Input, error) { return svc.StopAttempt(s, number, abort) })
	return clientFailure(err)
}

// ContinueAttempt implements awsapi.Services.
func (e ECSServices) ContinueAttempt(ctx context.Context, name string, number int, pause string, rollback bool) error {
	_, err := e.backend.Controller.Ask(ctx, name, func(s svc.State) (svc.Input, error) { return svc.ContinueAttempt(s, number, pause, rollback) })
	return clientFailure(err)
}

// clientFailure converts an error that a client has caused. What may pass by itself, as when
// Podman does not answer, is none: clients try again.
func clientFailure(err error) error {
	var refused *api.Failure
	switch {
	case transient.Is(err):
		return err
	case errors.Is(err, services.ErrChanged):
		return awsapi.ErrChanged
	case errors.As(err, &refused):
		return &protocol.Failure{Code: "InvalidParameterException", Message: withProblems(refused)}
	case errors.As(err, new(*services.BadServiceError)), errors.Is(err, services.ErrServiceExists):
		return &protocol.Failure{Code: "InvalidParameterException", Message: err.Error()}
	case errors.Is(err, svc.ErrEnded):
		return &protocol.Failure{Code: "ConflictException", Message: err.Error()}
	case errors.Is(err, svc.ErrNoReturn), errors.Is(err, svc.ErrNotPaused):
		return &protocol.Failure{Code: "InvalidParameterException", Message: err.Error()}
	case errors.Is(err, svc.ErrNoAttempt):
		return &protocol.Failure{Code: "ServiceDeploymentNotFoundException", Message: "Service deployment not found."}
	case errors.Is(err, services.ErrNoService):
		return &protocol.Failure{Code: "ServiceNotFoundException", Message: "Service not found."}
	}
	return err
}
