package effects

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/podtask/podtask/internal/engine/taskspec"
	"github.com/podtask/podtask/internal/host/libpod"
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
	v, name := s.Task.Volumes[i], taskspec.VolumeName(s, i)
	switch v.Kind {
	case taskdef.VolumeBind:
		return ensureHostPath(v)
	case taskdef.VolumeTask:
		own := taskspec.Labels(s, -1)
		for key, value := range v.Labels {
			if _, ours := own[key]; !ours {
				own[key] = value
			}
		}
		spec := libpod.VolumeSpec{Name: name, TaskID: s.ID, Labels: own, Options: v.DriverOpts}
		if v.Empty && v.DriverOpts["type"] == "" {
			spec.Mode = 0o777
		}
		return podman.EnsureVolume(ctx, spec)
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
func ensureHostPath(v taskdef.Volume) error {
	whole := cmp.Or(v.Below, v.HostPath)
	_, err := os.Stat(whole)
	if filepath.Base(whole) == "docker.sock" && errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("host path %s: Docker does not run here; the socket of this user's Podman, which speaks Docker's API, is $XDG_RUNTIME_DIR/podman/podman.sock (systemctl --user enable --now podman.socket)", whole)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = os.MkdirAll(whole, 0o755)
	}
	if err == nil && v.Below != "" {
		err = ensureBelow(v.Below, v.HostPath)
	}
	if err != nil {
		return fmt.Errorf("host path: %w; make it, or let this user reach it", err)
	}
	return nil
}

// ensureBelow makes a directory below another where there is nothing, and reports a path
// that symbolic links lead out of it: a container that writes there could choose what
// another one mounts.
func ensureBelow(dir, path string) error {
	rest, err := filepath.Rel(dir, path)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if _, err = root.Stat(rest); errors.Is(err, fs.ErrNotExist) {
		err = root.MkdirAll(rest, 0o755)
	}
	return err
}

// ensureBound looks once more, before a container starts, where the directories lead that it
// mounts.
func ensureBound(s lifecycle.State, i int) error {
	for _, m := range s.Task.Mounts(i) {
		if v, ok := s.Task.Volume(m.Volume); ok && v.Below != "" {
			if err := ensureHostPath(v); err != nil {
				return fmt.Errorf("volume %s: %w", v.Name, err)
			}
		}
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
