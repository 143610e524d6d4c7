package kubenode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/podtask/podtask/pkg/api"
)

// Request is a request to the agent about one task.
type Request int

// The requests.
const (
	Stop     Request = iota // with the stop timeouts of its containers
	ShutDown                // the same, because the host shuts down
	Kill                    // at once
	Remove                  // after it has stopped: its containers and its record
)

// Agent runs tasks. Failures that it reports are *api.Failure.
type Agent interface {
	Tasks(ctx context.Context) ([]api.Task, error)
	Create(ctx context.Context, t api.NewTask) (api.Task, error)
	// Watch works as the method of api.Client.
	Watch(ctx context.Context, id string, fn func(api.Task) bool) error
	// Pod returns a task as a Pod with its status.
	Pod(ctx context.Context, id string) (*corev1.Pod, error)
	// Ask returns when the request is accepted.
	Ask(ctx context.Context, id string, what Request) error
	// SetNames is api.SetNodeNames.
	SetNames(ctx context.Context, node string, n api.NodeNames) error
	// Resize is api.Resize.
	Resize(ctx context.Context, id string, r api.PodResources) error
}

// Host reports the capacity of an agent. A Socket is both.
type Host interface {
	Version(ctx context.Context) (api.Version, error)
	Budget(ctx context.Context) (api.Budget, error)
}

// Socket is the agent behind a socket.
type Socket struct{ *api.Socket }

// NewSocket returns the agent that serves the socket at path, now or later.
func NewSocket(path string) Socket { return Socket{api.NewSocket(path)} }

// These stand in the stopped reasons of tasks: "stopped by Kubernetes".
const (
	byKubernetes = "Kubernetes"
	byShutdown   = "the shutdown of the node"
)

// Pod implements Agent.
func (s Socket) Pod(ctx context.Context, id string) (*corev1.Pod, error) {
	c, err := s.Client(ctx)
	if err != nil {
		return nil, err
	}
	text, err := api.PodStatus(ctx, c, id)
	if err != nil {
		return nil, err
	}
	p := new(corev1.Pod)
	if err := json.Unmarshal(text, p); err != nil {
		return nil, fmt.Errorf("the Pod of task %s: %w", id, err)
	}
	return p, nil
}

// Ask implements Agent.
func (s Socket) Ask(ctx context.Context, id string, what Request) error {
	c, err := s.Client(ctx)
	if err != nil {
		return err
	}
	switch what {
	case Remove:
		return c.Remove(ctx, id, byKubernetes, true)
	case ShutDown:
		return c.Stop(ctx, id, byShutdown, false)
	}
	return c.Stop(ctx, id, byKubernetes, what == Kill)
}

// Resize implements Agent.
func (s Socket) Resize(ctx context.Context, id string, r api.PodResources) error {
	c, err := s.Client(ctx)
	if err != nil {
		return err
	}
	return api.Resize(ctx, c, id, r)
}

// SetNames implements Agent.
func (s Socket) SetNames(ctx context.Context, node string, n api.NodeNames) error {
	c, err := s.Client(ctx)
	if err != nil {
		return err
	}
	return api.SetNodeNames(ctx, c, node, n)
}

// Budget implements Host.
func (s Socket) Budget(ctx context.Context) (api.Budget, error) {
	c, err := s.Client(ctx)
	if err != nil {
		return api.Budget{}, err
	}
	return api.BudgetOf(ctx, c)
}

// isNotFound reports whether an agent does not know a task.
func isNotFound(err error) bool { return failedWith(err, api.NotFound) }

func failedWith(err error, code api.Code) bool {
	var f *api.Failure
	return errors.As(err, &f) && f.Code == code
}
