package enginetest

import (
	"context"
	"time"

	"github.com/podtask/podtask/internal/host/libpod"
)

// Podman is what the suite holds the fake and the real Podman to: the sum of the small
// interfaces that the packages of podtask declare. Its contracts are libpod's: calls adopt
// what exists, errors are *libpod.Error, and no call has a time limit but its context.
type Podman interface {
	Pods
	Networks
	Containers
	Storage
	Volumes
	Secrets
	// List returns all that carries libpod.TaskLabel, whatever task it belongs to.
	List(ctx context.Context) ([]libpod.Found, error)
	// Host tells about the machine; Close ends the connection.
	Host(ctx context.Context) (libpod.Host, error)
	Close() error
}

// Pods makes, stops and removes a task's pod.
type Pods interface {
	CreatePod(ctx context.Context, p libpod.PodSpec) (id string, err error)
	StartPod(ctx context.Context, name, taskID string) (libpod.Pod, error)
	StopPod(ctx context.Context, name, taskID string, grace time.Duration) error
	RemovePod(ctx context.Context, name, taskID string) error
}

// Networks are those of tasks whose containers are part of one by themselves.
type Networks interface {
	EnsureNetwork(ctx context.Context, n libpod.NetworkSpec) error
	RemoveNetwork(ctx context.Context, name, taskID string) error
}

// Containers moves and observes single containers.
type Containers interface {
	CreateContainer(ctx context.Context, s libpod.ContainerSpec) (libpod.Observed, error)
	InitContainer(ctx context.Context, name string, on libpod.OwnNetwork) (libpod.Observed, error)
	StartContainer(ctx context.Context, name string) error
	StopContainer(ctx context.Context, name string, grace time.Duration) error
	RemoveContainer(ctx context.Context, name, taskID string) error
	InspectContainer(ctx context.Context, name string) (libpod.Observed, error)
	WaitContainer(ctx context.Context, name string) error
	Probe(ctx context.Context, name string) (libpod.ProbeResult, error)
	RunExec(ctx context.Context, name string, command []string, limit time.Duration) (libpod.ExecResult, error)
	Logs(ctx context.Context, name string, o libpod.LogOptions, fn func(libpod.LogLine)) error
}

// Storage is the local image store, which is the user's.
type Storage interface {
	Image(ctx context.Context, ref string) (libpod.Image, error)
	Pull(ctx context.Context, ref string, o libpod.PullOptions) (string, error)
	Tag(ctx context.Context, imageID, ref string) error
	Images(ctx context.Context) ([]libpod.Image, error)
	RemoveUnusedImage(ctx context.Context, m libpod.Image) error
}

// Volumes are the named volumes a task mounts.
type Volumes interface {
	EnsureVolume(ctx context.Context, v libpod.VolumeSpec) error
	HoldVolume(ctx context.Context, name string) error
	KeepGroup(ctx context.Context, name string) error
	HasVolume(ctx context.Context, name string) (bool, error)
	RemoveVolumes(ctx context.Context, taskID string) error
}

// Secrets are Podman's secrets: the user's, which are only read, and a task's own.
type Secrets interface {
	Secret(ctx context.Context, name string) ([]byte, error)
	HasSecret(ctx context.Context, name string) (bool, error)
	EnsureSecret(ctx context.Context, name, taskID string, read func(context.Context) ([]byte, error)) error
	RemoveSecrets(ctx context.Context, prefix, taskID string) error
}

var _ Podman = (*libpod.Client)(nil)
