package instance

import (
	"context"

	"github.com/podtask/podtask/pkg/api"
)

// Agent runs tasks. An api.Client is one.
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
	// Stop and Remove work as the methods of api.Client.
	Stop(ctx context.Context, id, by string, force bool) error
	Remove(ctx context.Context, id, by string, force bool) error
	Version(ctx context.Context) (api.Version, error)
}

// ByECS stands in the stopped reason of a task that ECS has stopped: "stopped by Amazon ECS".
const ByECS = "Amazon ECS"
