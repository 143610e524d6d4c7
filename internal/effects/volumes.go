package effects

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/podtask/podtask/internal/podspec"
	"github.com/podtask/podtask/pkg/libpod"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// Volumes are the named volumes a task mounts.
type Volumes interface {
	EnsureVolume(ctx context.Context, v libpod.VolumeSpec) error
	HasVolume(ctx context.Context, name string) (bool, error)
	RemoveVolumes(ctx context.Context, taskID string) error
}

// ensureVolumes makes what the task's volumes need. It reports all that fails.
func ensureVolumes(ctx context.Context, podman Volumes, s lifecycle.State) error {
	var errs []error
	for i, v := range s.Task.Volumes {
		if err := ensureVolume(ctx, podman, s, i); err != nil {
			errs = append(errs, fmt.Errorf("volume %s: %w", v.Name, err))
		}
	}
	return errors.Join(errs...)
}

func ensureVolume(ctx context.Context, podman Volumes, s lifecycle.State, i int) error {
	v, name := s.Task.Volumes[i], podspec.VolumeName(s, i)
	switch v.Kind {
	case taskdef.VolumeBind:
		return ensureHostPath(v.HostPath)
	case taskdef.VolumeTask:
		own := podspec.Labels(s, -1)
		for key, value := range v.Labels {
			if _, ours := own[key]; !ours {
				own[key] = value
			}
		}
		return podman.EnsureVolume(ctx, libpod.VolumeSpec{Name: name, TaskID: s.ID, Labels: own, Options: v.DriverOpts})
	case taskdef.VolumeShared:
		if v.Autoprovision {
			return podman.EnsureVolume(ctx, libpod.VolumeSpec{Name: name, Labels: v.Labels, Options: v.DriverOpts})
		}
		there, err := podman.HasVolume(ctx, name)
		if err == nil && !there {
			err = errors.New(`it does not exist and is not to be made; "podman volume create" it, or set "autoprovision": true`)
		}
		return err
	default:
		return fmt.Errorf("it is %s, which cannot be mounted here; give --map-volume %s=PATH", v.Remote, v.Name)
	}
}

// ensureHostPath makes a directory where there is nothing, as Docker and so ECS
// does. It is the user's and is never removed.
func ensureHostPath(path string) error {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = os.MkdirAll(path, 0o755)
	}
	if err != nil {
		return fmt.Errorf("host path: %w; make it, or let this user reach it", err)
	}
	return nil
}

// removeVolumes removes the task's own.
func removeVolumes(ctx context.Context, podman Volumes, s lifecycle.State) error {
	for _, v := range s.Task.Volumes {
		if v.Kind == taskdef.VolumeTask {
			return podman.RemoveVolumes(ctx, s.ID)
		}
	}
	return nil
}
