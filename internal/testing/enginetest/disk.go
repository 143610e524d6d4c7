package enginetest

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/host/libpod"
)

// disk is what a container sees of files: its own, and those of volumes that are
// mounted.
type disk struct {
	own    map[string]string
	mounts []mounted
}

type mounted struct {
	path     string
	readOnly bool
	files    map[string]string // by their whole path in the volume
}

func newDisk() *disk { return &disk{own: map[string]string{}} }

// find returns where a path's content is kept and under which name.
func (d *disk) find(path string) (files map[string]string, name string, readOnly bool) {
	for _, m := range d.mounts {
		if rest, below := strings.CutPrefix(path, m.path+"/"); below {
			return m.files, rest, m.readOnly
		}
	}
	return d.own, path, false
}

func (d *disk) read(path string) (content string, there bool) {
	files, name, _ := d.find(path)
	content, there = files[name]
	return content, there
}

// write reports whether the file can be written.
func (d *disk) write(path, content string) bool {
	files, name, readOnly := d.find(path)
	if !readOnly {
		files[name] = content
	}
	return !readOnly
}

func (d *disk) remove(path string) bool {
	files, name, readOnly := d.find(path)
	if !readOnly {
		delete(files, name)
	}
	return !readOnly
}

type volume struct {
	task   string // the label; empty: none
	files  map[string]string
	memory bool // a tmpfs
	held   bool // by HoldVolume
}

type secret struct {
	task, value string
}

// EnsureVolume implements Podman.
func (f *Fake) EnsureVolume(ctx context.Context, v libpod.VolumeSpec) error {
	_, err := request(ctx, f, "create volume", v.Name, func() (struct{}, error) {
		if f.volumes[v.Name] != nil {
			return struct{}{}, refusal(libpod.Conflict, "volume already exists")
		}
		f.volumes[v.Name] = &volume{task: v.TaskID, files: map[string]string{}, memory: v.Options["type"] == "tmpfs"}
		return struct{}{}, nil
	})
	if !errors.Is(err, libpod.Conflict) {
		return err
	}
	_, err = request(ctx, f, "adopt volume", v.Name, func() (struct{}, error) {
		there := f.volumes[v.Name]
		switch {
		case there == nil:
			return struct{}{}, refusal(libpod.Temporary, "it has just been removed")
		case v.TaskID == "":
			return struct{}{}, nil
		}
		return struct{}{}, owned(there.task, v.TaskID)
	})
	return err
}

// HoldVolume implements Podman.
func (f *Fake) HoldVolume(ctx context.Context, name string) error {
	_, err := request(ctx, f, "mount volume", name, func() (struct{}, error) {
		v := f.volumes[name]
		if v == nil {
			return struct{}{}, refusal(libpod.NotFound, "no such volume")
		}
		v.held = true
		return struct{}{}, nil
	})
	return err
}

// KeepGroup implements Podman.
func (f *Fake) KeepGroup(ctx context.Context, name string) error {
	_, err := request(ctx, f, "set the group of volume", name, func() (struct{}, error) {
		if f.volumes[name] == nil {
			return struct{}{}, refusal(libpod.NotFound, "no such volume")
		}
		return struct{}{}, nil
	})
	return err
}

// unmount drops the content of the volumes in memory that nothing has mounted any more, after a
// container has ended.
func (f *Fake) unmount(ended *container) {
	for _, m := range ended.spec.Volumes {
		v := f.volumes[m.Name]
		if v == nil || !v.memory || v.held {
			continue
		}
		used := false
		for _, c := range f.containers {
			used = used || c.status == libpod.Running && slices.ContainsFunc(c.spec.Volumes, func(o libpod.NamedVolume) bool { return o.Name == m.Name })
		}
		if !used {
			clear(v.files)
		}
	}
}

// volumeOf returns the volume of that name, which a container's creation makes if
// it is missing, as Podman's does.
func (f *Fake) volumeOf(name string) *volume {
	if f.volumes[name] == nil {
		f.volumes[name] = &volume{files: map[string]string{}}
	}
	return f.volumes[name]
}

// RemoveVolumes implements Podman.
func (f *Fake) RemoveVolumes(ctx context.Context, taskID string) error {
	_, err := request(ctx, f, "remove volumes of task", taskID, func() (struct{}, error) {
		for name, v := range f.volumes {
			switch {
			case v.task != taskID:
			case f.volumeInUse(name):
				return struct{}{}, refusal(libpod.Temporary, "volume %s is being used", name)
			default:
				delete(f.volumes, name)
			}
		}
		return struct{}{}, nil
	})
	return err
}

// RemoveVolume removes a volume of a task.
func (f *Fake) RemoveVolume(ctx context.Context, name, taskID string) error {
	_, err := request(ctx, f, "remove volume", name, func() (struct{}, error) {
		switch v := f.volumes[name]; {
		case v == nil || v.task != taskID:
		case f.volumeInUse(name):
			return struct{}{}, refusal(libpod.Temporary, "volume %s is being used", name)
		default:
			delete(f.volumes, name)
		}
		return struct{}{}, nil
	})
	return err
}

func (f *Fake) volumeInUse(name string) bool {
	for _, c := range f.containers {
		if slices.ContainsFunc(c.spec.Volumes, func(v libpod.NamedVolume) bool { return v.Name == name }) {
			return true
		}
	}
	return false
}

// EnsureSecret implements Podman.
func (f *Fake) EnsureSecret(ctx context.Context, name, taskID string, read func(context.Context) ([]byte, error)) error {
	there, err := request(ctx, f, "inspect secret", name, func() (bool, error) {
		if s := f.secrets[name]; s != nil {
			return true, owned(s.task, taskID)
		}
		return false, nil
	})
	if there || err != nil {
		return err
	}
	value, err := read(ctx)
	if err != nil {
		return err
	}
	_, err = request(ctx, f, "create secret", name, func() (struct{}, error) {
		if len(value) == 0 {
			return struct{}{}, refusal(libpod.InvalidSpec, "secret data must be larger than 0 and less than 512000 bytes")
		}
		f.secrets[name] = &secret{task: taskID, value: string(value)}
		return struct{}{}, nil
	})
	return err
}

// HasSecret implements Podman.
func (f *Fake) HasSecret(ctx context.Context, name string) (bool, error) {
	return request(ctx, f, "inspect secret", name, func() (bool, error) { return f.secrets[name] != nil, nil })
}

// Secret implements Podman.
func (f *Fake) Secret(ctx context.Context, name string) ([]byte, error) {
	return request(ctx, f, "read secret", name, func() ([]byte, error) {
		if s := f.secrets[name]; s != nil {
			return []byte(s.value), nil
		}
		return nil, refusal(libpod.NotFound, "no such secret")
	})
}

// RemoveSecrets implements Podman.
func (f *Fake) RemoveSecrets(ctx context.Context, prefix, taskID string) error {
	_, err := request(ctx, f, "remove secrets of task", taskID, func() (struct{}, error) {
		for name, s := range f.secrets {
			if s.task == taskID && strings.HasPrefix(name, prefix) {
				delete(f.secrets, name)
			}
		}
		return struct{}{}, nil
	})
	return err
}

// HasVolume implements Podman; anonymous volumes count.
func (f *Fake) HasVolume(ctx context.Context, name string) (bool, error) {
	return request(ctx, f, "inspect volume", name, func() (bool, error) {
		return f.volumes[name] != nil || f.hasAnonymous(name), nil
	})
}

func (f *Fake) hasAnonymous(name string) bool {
	for _, c := range f.containers {
		if c.volume == name {
			return true
		}
	}
	return false
}
