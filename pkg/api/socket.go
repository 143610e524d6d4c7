package api

import (
	"context"
	"sync"
)

// Socket is the server behind a socket, for programs that outlive it: it is dialed at the first call, and again
// while there is no server. After that the client connects again by itself when the server has restarted. It is
// safe for concurrent use. Errors are those of Dial and of Client.
type Socket struct {
	path string

	mu     sync.Mutex
	client *Client
}

// NewSocket returns the server of the socket at path, now or later.
func NewSocket(path string) *Socket { return &Socket{path: path} }

// Client returns the connected client, which belongs to the Socket.
func (s *Socket) Client(ctx context.Context) (*Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != nil {
		return s.client, nil
	}
	c, err := Dial(ctx, s.path)
	if err != nil {
		return nil, err
	}
	s.client = c
	return c, nil
}

// Create is Client.Create.
func (s *Socket) Create(ctx context.Context, t NewTask) (Task, error) {
	c, err := s.Client(ctx)
	if err != nil {
		return Task{}, err
	}
	return c.Create(ctx, t)
}

// Task is Client.Task.
func (s *Socket) Task(ctx context.Context, ref string) (Task, error) {
	c, err := s.Client(ctx)
	if err != nil {
		return Task{}, err
	}
	return c.Task(ctx, ref)
}

// Tasks is Client.Tasks.
func (s *Socket) Tasks(ctx context.Context) ([]Task, error) {
	c, err := s.Client(ctx)
	if err != nil {
		return nil, err
	}
	return c.Tasks(ctx)
}

// Void is Client.Void.
func (s *Socket) Void(ctx context.Context, clientToken string) error {
	c, err := s.Client(ctx)
	if err != nil {
		return err
	}
	return c.Void(ctx, clientToken)
}

// Watch is Client.Watch.
func (s *Socket) Watch(ctx context.Context, id string, fn func(Task) bool) error {
	c, err := s.Client(ctx)
	if err != nil {
		return err
	}
	return c.Watch(ctx, id, fn)
}

// Version is Client.Version.
func (s *Socket) Version(ctx context.Context) (Version, error) {
	c, err := s.Client(ctx)
	if err != nil {
		return Version{}, err
	}
	return c.Version(ctx)
}
