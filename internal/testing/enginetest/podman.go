package enginetest

import (
	"context"

	"github.com/podtask/podtask/internal/engine/act/effects"
	"github.com/podtask/podtask/internal/host/libpod"
)

// Podman is what the suite holds the fake and the real Podman to: the sum of the small
// interfaces that the packages of podtask declare. Its contracts are libpod's: calls adopt
// what exists, errors are *libpod.Error, and no call has a time limit but its context.
type Podman interface {
	effects.Podman
	Storage
	Secrets
	RemoveVolume(ctx context.Context, name, taskID string) error
	InitContainer(ctx context.Context, name string, on libpod.OwnNetwork) (libpod.Observed, error)
	Logs(ctx context.Context, name string, o libpod.LogOptions, fn func(libpod.LogLine)) error
	// List returns all that carries libpod.TaskLabel, whatever task it belongs to.
	List(ctx context.Context) ([]libpod.Found, error)
	// Host tells about the machine; Close ends the connection.
	Host(ctx context.Context) (libpod.Host, error)
	Close() error
}

// Storage is the local image store, which is the user's.
type Storage interface {
	Image(ctx context.Context, ref string) (libpod.Image, error)
	Pull(ctx context.Context, ref string, o libpod.PullOptions) (string, error)
	Tag(ctx context.Context, imageID, ref string) error
	Images(ctx context.Context) ([]libpod.Image, error)
	RemoveUnusedImage(ctx context.Context, m libpod.Image) error
}

// Secrets are Podman's secrets: the user's, which are only read, and a task's own.
type Secrets interface {
	Secret(ctx context.Context, name string) ([]byte, error)
	HasSecret(ctx context.Context, name string) (bool, error)
	EnsureSecret(ctx context.Context, name, taskID string, read func(context.Context) ([]byte, error)) error
	RemoveSecrets(ctx context.Context, prefix, taskID string) error
}

var _ Podman = (*libpod.Client)(nil)
