package kubepods

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/podtask/podtask/pkg/api"
)

// Agent runs tasks. Failures that it reports are *api.Failure.
type Agent interface {
	Tasks(ctx context.Context) ([]api.Task, error)
	Create(ctx context.Context, t api.NewTask) (api.Task, error)
	// Watch works as the method of api.Client.
	Watch(ctx context.Context, id string, fn func(api.Task) bool) error
	// Pod returns a task as a Pod with its status.
	Pod(ctx context.Context, id string) (*corev1.Pod, error)
	// Stop and Remove work as the methods of api.Client.
	Stop(ctx context.Context, id, by string, force bool) error
	Remove(ctx context.Context, id, by string, force bool) error
	// SetNames is api.SetNodeNames.
	SetNames(ctx context.Context, node string, n api.NodeNames) error
	// Resize is api.Resize.
	Resize(ctx context.Context, id string, r api.PodResources) error
}

// Socket is a client of the agent that serves a socket.
type Socket struct{ *api.Client }

// NewSocket returns the agent that serves the socket at path, now or later.
func NewSocket(path string) Socket { return Socket{api.NewClient(path)} }

// Pod implements Agent.
func (s Socket) Pod(ctx context.Context, id string) (*corev1.Pod, error) {
	text, err := api.PodStatus(ctx, s.Client, id)
	if err != nil {
		return nil, err
	}
	p := new(corev1.Pod)
	if err := json.Unmarshal(text, p); err != nil {
		return nil, fmt.Errorf("the Pod of task %s: %w", id, err)
	}
	return p, nil
}

// Resize implements Agent.
func (s Socket) Resize(ctx context.Context, id string, r api.PodResources) error {
	return api.Resize(ctx, s.Client, id, r)
}

// SetNames implements Agent.
func (s Socket) SetNames(ctx context.Context, node string, n api.NodeNames) error {
	return api.SetNodeNames(ctx, s.Client, node, n)
}

// Budget returns the budget of the host for all tasks.
func (s Socket) Budget(ctx context.Context) (api.Budget, error) { return api.BudgetOf(ctx, s.Client) }

// isNotFound reports whether an agent does not know a task.
func isNotFound(err error) bool { return api.Is(err, api.NotFound) }
