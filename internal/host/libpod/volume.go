package libpod

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/containers/podman/v5/pkg/bindings/volumes"
	entities "github.com/containers/podman/v5/pkg/domain/entities/types"
)

// VolumeSpec describes a named volume.
type VolumeSpec struct {
	Name string
	// TaskID becomes the TaskLabel of a volume that is removed with its task; "" means a
	// volume that outlives the task and that RemoveVolumes ignores.
	TaskID string
	Labels map[string]string
	// Options are options of Podman's local driver: type, device, o and others.
	Options map[string]string
	// Mode, if not 0, sets the permissions of the volume's directory. The caller must own the
	// directory: Options must set the user 0.
	Mode fs.FileMode
}

// EnsureVolume creates the volume or adopts an existing one of that name. A volume of a
// task must have the task's label; any other volume is accepted as it is, without
// comparing options (as in ECS).
//
// Classes to expect: Conflict, InvalidSpec.
func (c *Client) EnsureVolume(ctx context.Context, v VolumeSpec) error {
	labels := map[string]string{}
	maps.Copy(labels, v.Labels)
	if v.TaskID != "" {
		labels[TaskLabel] = v.TaskID
	}
	err := c.mutate(ctx, "create volume", v.Name, func(ctx context.Context) error {
		_, err := volumes.Create(ctx, entities.VolumeCreateOptions{Name: v.Name, Labels: labels, Options: inPages(v.Options, os.Getpagesize())}, nil)
		return err
	})
	if err == nil && v.Mode == 0 || err != nil && !errors.Is(err, Conflict) {
		return err
	}
	found, inspectErr := c.volume(ctx, v.Name)
	switch {
	case errors.Is(inspectErr, NotFound):
		return &Error{Op: "create volume", Object: v.Name, Class: Temporary, Cause: "it has just been removed"}
	case inspectErr != nil:
		return inspectErr
	case v.TaskID == "":
		return nil
	}
	if err := ownedBy(found.Labels, v.TaskID); err != nil {
		return fail(ctx, "adopt volume", v.Name, err)
	}
	if v.Mode == 0 {
		return nil
	}
	return fail(ctx, "create volume", v.Name, os.Chmod(found.Mountpoint, v.Mode))
}

// KeepGroup has new files in a volume on the disk belong to the group of its directory (setgid). Without root the kernel only
// lets a process in the user namespace do so, so this runs the command podman of this host.
//
// Classes to expect: NotFound, Unavailable.
func (c *Client) KeepGroup(ctx context.Context, name string) error {
	found, err := c.volume(ctx, name)
	if err != nil {
		return err
	}
	if info, err := os.Stat(found.Mountpoint); err == nil && info.Mode()&fs.ModeSetgid != 0 {
		return nil
	}
	return c.command(ctx, "set the group of volume", name, os.Getuid() != 0, "chmod", "g+s", found.Mountpoint)
}

// HoldVolume keeps a volume mounted until it is removed or the host restarts. Podman unmounts a
// volume when the last container with it stops, and a tmpfs then loses its content. Podman's API
// cannot mount a volume, so this runs the command podman of this host.
//
// Classes to expect: NotFound, Unavailable.
func (c *Client) HoldVolume(ctx context.Context, name string) error {
	const op = "mount volume"
	found, err := c.volume(ctx, name)
	if err != nil || found.MountCount > 0 {
		return err
	}
	// Mounts of rootless Podman are in a namespace of its own.
	return c.command(ctx, op, name, os.Getuid() != 0, c.service.podman, "volume", "mount", name)
}

// command runs a program of this host for an object of Podman, in the namespaces of rootless Podman if unshare is set.
func (c *Client) command(ctx context.Context, op, object string, unshare bool, args ...string) error {
	if unshare {
		args = append([]string{c.service.podman, "unshare"}, args...)
	}
	return c.mutate(ctx, op, object, func(ctx context.Context) error {
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Env, cmd.Dir = serviceEnv(os.Environ()), "/"
		if out, err := cmd.CombinedOutput(); err != nil {
			return unavailable("%s: %v: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
		}
		return nil
	})
}

// inPages converts the size of a tmpfs to pages (nr_blocks). Podman interprets size as a disk
// quota, and fails on hosts without quotas; it passes nr_blocks on to the kernel.
func inPages(options map[string]string, page int) map[string]string {
	if options["type"] != "tmpfs" {
		return options
	}
	words := strings.Split(options["o"], ",")
	for i, w := range words {
		size, is := strings.CutPrefix(w, "size=")
		if n, err := strconv.ParseInt(size, 10, 64); is && err == nil {
			words[i] = "nr_blocks=" + strconv.FormatInt((n+int64(page)-1)/int64(page), 10)
		}
	}
	out := maps.Clone(options)
	out["o"] = strings.Join(words, ",")
	return out
}

// wasFound reads the error of an inspection.
func wasFound(err error) (bool, error) {
	if errors.Is(err, NotFound) {
		return false, nil
	}
	return err == nil, err
}

// HasVolume reports whether a volume of that name exists, whichever tool created it.
func (c *Client) HasVolume(ctx context.Context, name string) (bool, error) {
	_, err := c.volume(ctx, name)
	return wasFound(err)
}

func (c *Client) volume(ctx context.Context, name string) (found *entities.VolumeConfigResponse, err error) {
	err = c.ask(ctx, "inspect volume", name, func(ctx context.Context) (err error) {
		found, err = volumes.Inspect(ctx, name, nil)
		return err
	})
	// Podman also finds a volume by a prefix of its name.
	if err == nil && found.Name != name {
		return nil, &Error{Op: "inspect volume", Object: name, Class: NotFound, Cause: "no such volume"}
	}
	return found, err
}

// RemoveVolumes removes every volume with the task's label. If a container still uses a
// volume, the error has class Temporary and names the volume; the others are removed.
func (c *Client) RemoveVolumes(ctx context.Context, taskID string) error {
	var found []*entities.VolumeListReport
	err := c.ask(ctx, "list volumes of task", taskID, func(ctx context.Context) (err error) {
		found, err = volumes.List(ctx, new(volumes.ListOptions).WithFilters(map[string][]string{"label": {TaskLabel + "=" + taskID}}))
		return err
	})
	if err != nil {
		return err
	}
	var errs []error
	for _, v := range found {
		errs = append(errs, c.removeVolume(ctx, v.Name))
	}
	return errors.Join(errs...)
}

// RemoveVolume is RemoveVolumes for the one of that name. One without the task's label stays.
func (c *Client) RemoveVolume(ctx context.Context, name, taskID string) error {
	found, err := c.volume(ctx, name)
	if errors.Is(err, NotFound) || err == nil && ownedBy(found.Labels, taskID) != nil {
		return nil
	}
	if err != nil {
		return err
	}
	return c.removeVolume(ctx, name)
}

func (c *Client) removeVolume(ctx context.Context, name string) error {
	err := c.erase(ctx, c.removals, "remove volume", name, func(ctx context.Context) error { return volumes.Remove(ctx, name, new(volumes.RemoveOptions)) })
	if errors.Is(err, NotFound) {
		return nil
	}
	return err
}
