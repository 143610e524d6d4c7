package conn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/podtask/podtask/internal/host/libpod"
)

// Lazy is the connection to Podman, which is made on first use.
type Lazy struct {
	Dial func(context.Context) (Podman, error)

	mu     sync.Mutex // guards podman
	podman Podman
}

// Get returns the connection, making it on first use.
func (c *Lazy) Get(ctx context.Context) (Podman, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.podman == nil {
		podman, err := c.Dial(ctx)
		if err != nil {
			return nil, err
		}
		c.podman = podman
	}
	return c.podman, nil
}

// Outage is a Podman that does not answer although calls wait for it.
type Outage = libpod.Outage

// Outage reports whether calls in flight wait for a Podman that does not answer. It neither
// connects nor waits.
func (c *Lazy) Outage() (Outage, bool) {
	if !c.mu.TryLock() {
		return Outage{}, false // it connects just now
	}
	defer c.mu.Unlock()
	podman, ok := c.podman.(interface{ Outage() (Outage, bool) })
	if !ok {
		return Outage{}, false
	}
	return podman.Outage()
}

// Close ends the connection, if one was made.
func (c *Lazy) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.podman == nil {
		return nil
	}
	return c.podman.Close()
}

// Podman is a connection to Podman; *libpod.Client is one. What else of Podman a package
// needs it declares itself, as a small interface, and gets by As or Bind.
type Podman interface {
	HostReader
	Close() error
}

// HostReader asks Podman about the machine.
type HostReader interface {
	Host(ctx context.Context) (libpod.Host, error)
}

// As returns a function that connects and gives the connection as a T. For a Podman that
// is no T, as a fake may be, the error is errors.ErrUnsupported.
func As[T any](c *Lazy) func(context.Context) (T, error) {
	return func(ctx context.Context) (as T, err error) {
		err = Bind(ctx, c, &as)
		return as, err
	}
}

// Bind connects and assigns the connection, as As gives it.
func Bind[T any](ctx context.Context, c *Lazy, to *T) error {
	podman, err := c.Get(ctx)
	if err != nil {
		return err
	}
	as, ok := podman.(T)
	if !ok {
		return fmt.Errorf("this Podman is no %T: %w", to, errors.ErrUnsupported)
	}
	*to = as
	return nil
}

// Dial connects to the real Podman: the socket in CONTAINER_HOST, the user's, or a
// service that podtask starts. Requests are logged at the level debug.
func Dial(ctx context.Context, getenv func(string) string, log *slog.Logger) (Podman, error) {
	c, err := libpod.Dial(ctx, libpod.Options{URI: getenv("CONTAINER_HOST"), RuntimeDir: getenv("XDG_RUNTIME_DIR"), Log: log})
	if err != nil {
		return nil, err
	}
	return c, nil
}
