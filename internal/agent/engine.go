package agent

import (
	"context"
	"time"

	"github.com/podtask/podtask/pkg/libpod"
)

// Engine is what podtask needs of Podman; *libpod.Client is one. Its contracts
// are libpod's: calls adopt what exists, errors are *libpod.Error, and no call
// has a time limit but its context.
type Engine interface {
	Pods
	Containers
	Storage
	// Host tells about the machine; Close ends the connection.
	Host(ctx context.Context) (libpod.Host, error)
	Close() error
}

// Pods makes, stops and removes a task's pod.
type Pods interface {
	EnsurePod(ctx context.Context, p libpod.PodSpec) (libpod.Pod, error)
	StopPod(ctx context.Context, name, taskID string) error
	RemovePod(ctx context.Context, name, taskID string) error
}

// Containers moves and observes single containers.
type Containers interface {
	CreateContainer(ctx context.Context, s libpod.ContainerSpec) (string, error)
	StartContainer(ctx context.Context, name string) error
	StopContainer(ctx context.Context, name string, grace time.Duration) error
	InspectContainer(ctx context.Context, name string) (libpod.Observed, error)
	WaitContainer(ctx context.Context, name string) error
	Probe(ctx context.Context, name string) (libpod.ProbeResult, error)
	Logs(ctx context.Context, name string, o libpod.LogOptions, fn func(libpod.LogLine)) error
}

// Storage is the local image store.
type Storage interface {
	Image(ctx context.Context, ref string) (libpod.Image, error)
	Pull(ctx context.Context, ref string, o libpod.PullOptions) (string, error)
	Tag(ctx context.Context, imageID, ref string) error
}

var _ Engine = (*libpod.Client)(nil)

// dialPodman is the real Engine: the socket in CONTAINER_HOST, the user's, or a
// service of our own.
func dialPodman(ctx context.Context, getenv func(string) string) (Engine, error) {
	c, err := libpod.Dial(ctx, libpod.Options{URI: getenv("CONTAINER_HOST"), RuntimeDir: getenv("XDG_RUNTIME_DIR")})
	if err != nil {
		return nil, err
	}
	return c, nil
}
