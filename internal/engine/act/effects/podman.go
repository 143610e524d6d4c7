package effects

import (
	"context"
	"time"

	"github.com/podtask/podtask/internal/host/libpod"
)

// Podman is the part of *libpod.Client that effects need. Calls that create objects adopt
// existing ones, errors are *libpod.Error, and only the context limits the time of a call.
type Podman interface {
	Pods
	Networks
	Containers
	Watcher
	Volumes
}

// Pods creates, starts, stops and removes the pods of tasks.
type Pods interface {
	CreatePod(ctx context.Context, p libpod.PodSpec) (id string, err error)
	StartPod(ctx context.Context, name, taskID string) (libpod.Pod, error)
	StopPod(ctx context.Context, name, taskID string, grace time.Duration) error
	RemovePod(ctx context.Context, name, taskID string) error
}

// Networks creates and removes the networks of tasks in bridge mode.
type Networks interface {
	EnsureNetwork(ctx context.Context, n libpod.NetworkSpec) error
	RemoveNetwork(ctx context.Context, name, taskID string) error
}

// Containers creates, starts, stops and removes single containers.
type Containers interface {
	CreateContainer(ctx context.Context, s libpod.ContainerSpec) (libpod.Observed, error)
	StartContainer(ctx context.Context, name string) error
	StopContainer(ctx context.Context, name string, grace time.Duration) error
	RemoveContainer(ctx context.Context, name, taskID string) error
}

// Watcher inspects containers, waits for them and runs checks in them.
type Watcher interface {
	InspectContainer(ctx context.Context, name string) (libpod.Observed, error)
	WaitContainer(ctx context.Context, name string) error
	SeenExit(name string, started time.Time) (o libpod.Observed, ok bool)
	Probe(ctx context.Context, name string) (libpod.ProbeResult, error)
	RunExec(ctx context.Context, name string, command []string, limit time.Duration) (libpod.ExecResult, error)
}

// Volumes creates and removes named volumes.
type Volumes interface {
	EnsureVolume(ctx context.Context, v libpod.VolumeSpec) error
	HoldVolume(ctx context.Context, name string) error
	KeepGroup(ctx context.Context, name string) error
	HasVolume(ctx context.Context, name string) (bool, error)
	RemoveVolumes(ctx context.Context, taskID string) error
}
