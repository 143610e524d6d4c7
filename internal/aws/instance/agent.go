package instance

import (
	"context"
	"sync"

	"github.com/podtask/podtask/pkg/api"
)

// Agent runs tasks. A Socket is one.
type Agent interface {
	// Create has a task run. A name that is in use is a Conflict.
	Create(ctx context.Context, t api.NewTask) (api.Task, error)
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

// byECS is who asks for the end of tasks, as their stopped reasons have it.
const byECS = "Amazon ECS"

// Socket is the agent behind a socket. It is dialed at the first call, and again while there is no
// agent. It is safe for concurrent use.
type Socket struct {
	path string

	mu     sync.Mutex
	client *api.Client
}

// NewSocket returns the agent that serves the socket at path, now or later.
func NewSocket(path string) *Socket { return &Socket{path: path} }

// dial connects once: the client connects again by itself when the agent has restarted.
func (s *Socket) dial(ctx context.Context) (*api.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != nil {
		return s.client, nil
	}
	c, err := api.Dial(ctx, s.path)
	if err != nil {
		return nil, err
	}
	s.client = c
	return c, nil
}

// Create implements Agent.
func (s *Socket) Create(ctx context.Context, t api.NewTask) (api.Task, error) {
	c, err := s.dial(ctx)
	if err != nil {
		return api.Task{}, err
	}
	return c.Create(ctx, t)
}

// Task implements Agent.
func (s *Socket) Task(ctx context.Context, ref string) (api.Task, error) {
	c, err := s.dial(ctx)
	if err != nil {
		return api.Task{}, err
	}
	return c.Task(ctx, ref)
}

// Tasks implements Agent.
func (s *Socket) Tasks(ctx context.Context) ([]api.Task, error) {
	c, err := s.dial(ctx)
	if err != nil {
		return nil, err
	}
	return c.Tasks(ctx)
}

// Watch implements Agent.
func (s *Socket) Watch(ctx context.Context, id string, fn func(api.Task) bool) error {
	c, err := s.dial(ctx)
	if err != nil {
		return err
	}
	return c.Watch(ctx, id, fn)
}

// Stop implements Agent.
func (s *Socket) Stop(ctx context.Context, id string) error {
	c, err := s.dial(ctx)
	if err != nil {
		return err
	}
	return c.Stop(ctx, id, byECS, false)
}

// Remove implements Agent.
func (s *Socket) Remove(ctx context.Context, id string) error {
	c, err := s.dial(ctx)
	if err != nil {
		return err
	}
	return c.Remove(ctx, id, byECS, true)
}

// Version implements Agent.
func (s *Socket) Version(ctx context.Context) (api.Version, error) {
	c, err := s.dial(ctx)
	if err != nil {
		return api.Version{}, err
	}
	return c.Version(ctx)
}
