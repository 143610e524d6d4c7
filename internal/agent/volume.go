package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"github.com/podtask/podtask/pkg/libpod"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// volumeName is Podman's name of volume i. A shared one is called as in the
// definition, so that tasks share it (ECS); a task's own is at most 196 bytes.
func volumeName(s lifecycle.State, i int) string {
	v := s.Task.Volumes[i]
	if v.Kind == taskdef.VolumeShared {
		return v.Name
	}
	return podName(s) + "-" + strconv.Itoa(i) + "-" + v.Name[:min(len(v.Name), 128)]
}

// ensureVolumes makes what the task's volumes need. It reports all that fails.
func ensureVolumes(ctx context.Context, podman Podman, s lifecycle.State) error {
	var errs []error
	for i, v := range s.Task.Volumes {
		if err := ensureVolume(ctx, podman, s, i); err != nil {
			errs = append(errs, fmt.Errorf("volume %s: %w", v.Name, err))
		}
	}
	return errors.Join(errs...)
}

func ensureVolume(ctx context.Context, podman Podman, s lifecycle.State, i int) error {
	v, name := s.Task.Volumes[i], volumeName(s, i)
	switch v.Kind {
	case taskdef.VolumeBind:
		return ensureHostPath(v.HostPath)
	case taskdef.VolumeTask:
		own := labels(s, -1)
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
func removeVolumes(ctx context.Context, podman Podman, s lifecycle.State) error {
	for _, v := range s.Task.Volumes {
		if v.Kind == taskdef.VolumeTask {
			return podman.RemoveVolumes(ctx, s.ID)
		}
	}
	return nil
}

// mountVolumes adds to the specification what container i mounts.
func mountVolumes(spec *libpod.ContainerSpec, s lifecycle.State, i int) {
	index := make(map[string]int)
	for n, v := range s.Task.Volumes {
		index[v.Name] = n
	}
	for _, m := range s.Task.Mounts(i) {
		n, known := index[m.Volume]
		if !known {
			continue // no Task has that
		}
		v := s.Task.Volumes[n]
		if v.Kind == taskdef.VolumeBind {
			spec.Binds = append(spec.Binds, libpod.Bind{HostPath: v.HostPath, Path: m.Path, ReadOnly: m.ReadOnly, Relabel: relabel[v.Relabel]})
			continue
		}
		spec.Volumes = append(spec.Volumes, libpod.NamedVolume{Name: volumeName(s, n), Path: m.Path, ReadOnly: m.ReadOnly})
	}
}

// relabel are Podman's words for what taskdef calls Volume.Relabel.
var relabel = map[string]string{"shared": "z", "private": "Z"}
