package instance

import (
	"context"

	"github.com/podtask/podtask/pkg/api"
)

// Agent runs tasks. A Socket is one.
type Agent interface {
	// Create has a task run. A name that is in use is a Conflict.
	Create(ctx context.Context, t api.NewTask) (api.Task, error)
	// Void has no task made of a client token any more. If there is one, the error is a Conflict.
	Void(ctx context.Context, clientToken string) error
	// Task returns a task by its ID or name, Tasks all.
	Task(ctx context.Context, ref string) (api.Task, error)
	Tasks(ctx context.Context) ([]api.Task, error)
	// Watch calls fn with the task now and after each change, until fn returns false or nothing
	// follows.
	Watch(ctx context.Context, id string, fn func(api.Task) bool) error
	Stop(ctx context.Context, id string) error
	Remove(ctx context.Context, id string) error
	Version(ctx context.Context) (api.Version, error)
}

// byECS stands in the stopped reason of a task that ECS has stopped: "stopped by Amazon ECS".
const byECS = "Amazon ECS"

// Socket is the agent behind a socket.
type Socket struct{ *api.Socket }

// NewSocket returns the agent that serves the socket at path, now or later.
func NewSocket(path string) Socket { return Socket{api.NewSocket(path)} }

// Stop implements Agent.
func (s Socket) Stop(ctx context.Context, id string) error {
	c, err := s.Client(ctx)
	if err != nil {
		return err
	}
	return c.Stop(ctx, id, byECS, false)
}

// Remove implements Agent.
func (s Socket) Remove(ctx context.Context, id string) error {
	c, err := s.Client(ctx)
	if err != nil {
		return err
	}
	return c.Remove(ctx, id, byECS, true)
}
