package effects

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/podtask/podtask/internal/engine/facts/taskspec"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// ensureVolumes creates the task's volumes and host directories. It reports all errors at once.
func (r *Interpreter) ensureVolumes(ctx context.Context, podman Volumes, s lifecycle.State) error {
	var errs []error
	for i, v := range s.Task.Volumes {
		if err := ensureVolume(ctx, podman, s, i); err != nil {
			errs = append(errs, fmt.Errorf("volume %s: %w", v.Name, err))
			continue
		}
		if v.SetGroup && !inMemory(v) { // else an option of the mount says so
			if err := podman.KeepGroup(ctx, taskspec.VolumeName(s, i)); err != nil {
				r.Log.Warn("new files in the volume have the group of their process", "task", s.ID, "volume", v.Name, "error", err)
			}
		}
		if inMemory(v) {
			if err := podman.HoldVolume(ctx, taskspec.VolumeName(s, i)); err != nil {
				r.Log.Warn("the volume loses its content whenever no container has it", "task", s.ID, "volume", v.Name, "error", err)
			}
		}
	}
	return errors.Join(errs...)
}

// inMemory reports whether a volume of the task is an emptyDir in memory, which keeps its content as
// long as its Pod.
func inMemory(v taskdef.Volume) bool {
	return v.Kind == taskdef.VolumeTask && v.Empty && v.DriverOpts["type"] == "tmpfs"
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
			err = errors.New(`it does not exist and autoprovision is not set; create it with "podman volume create", or set "autoprovision": true`)
		}
		return err
	default:
		return fmt.Errorf("it is %s, which cannot be mounted here; give --map-volume %s=PATH", v.Remote, v.Name)
	}
}

// ensureHostPath creates the directory of a bind mount if there is nothing at its path, as
// Docker and therefore ECS do. The directory belongs to the user and is never removed.
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
		return fmt.Errorf("host path: %w; create it, or give this user access to it", err)
	}
	return nil
}

// ensureBelow creates path, a directory inside dir, if it does not exist. It refuses a path
// whose symbolic links lead out of dir: a container that can write there could otherwise
// choose what another one mounts.
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

// checkMounts checks the host directories that a container mounts again, just before it
// starts, because a symbolic link may have changed.
func checkMounts(s lifecycle.State, i int) error {
	for _, m := range s.Task.Mounts(i) {
		if v, ok := s.Task.Volume(m.Volume); ok && v.Below != "" {
			if err := ensureHostPath(v); err != nil {
				return fmt.Errorf("volume %s: %w", v.Name, err)
			}
		}
	}
	return nil
}

// removeVolumes removes the volumes that belong to the task.
func removeVolumes(ctx context.Context, podman Volumes, s lifecycle.State) error {
	for _, v := range s.Task.Volumes {
		if v.Kind == taskdef.VolumeTask {
			return podman.RemoveVolumes(ctx, s.ID)
		}
	}
	return nil
}
