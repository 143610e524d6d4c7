package effects

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// volumeStub notes which volumes are held, and which keep their group.
type volumeStub struct {
	Volumes
	held, grouped []string
	err           error
}

func (v *volumeStub) EnsureVolume(context.Context, libpod.VolumeSpec) error { return nil }

func (v *volumeStub) HoldVolume(_ context.Context, name string) error {
	v.held = append(v.held, name)
	return v.err
}

func (v *volumeStub) KeepGroup(_ context.Context, name string) error {
	v.grouped = append(v.grouped, name)
	return v.err
}

// Of an emptyDir with an fsGroup new files have that group. In memory an option of the mount says so.
func TestEmptyDirsKeepTheirGroup(t *testing.T) {
	t.Parallel()
	s := lifecycle.State{ID: "0123456789abcdef0123456789abcdef", Task: taskdef.Task{Family: "f", Volumes: []taskdef.Volume{
		{Name: "disk", Kind: taskdef.VolumeTask, Empty: true, SetGroup: true, DriverOpts: map[string]string{"o": "uid=0,gid=5"}},
		{Name: "memory", Kind: taskdef.VolumeTask, Empty: true, SetGroup: true, DriverOpts: map[string]string{"type": "tmpfs"}},
		{Name: "plain", Kind: taskdef.VolumeTask, Empty: true},
	}}}
	for _, failure := range []error{nil, errors.New("no podman")} {
		var log bytes.Buffer
		r, podman := &Interpreter{Log: slog.New(slog.NewTextHandler(&log, nil))}, &volumeStub{err: failure}
		if err := r.ensureVolumes(t.Context(), podman, s); err != nil {
			t.Error(err)
		}
		if len(podman.grouped) != 1 || !strings.HasSuffix(podman.grouped[0], "-0-disk") {
			t.Errorf("volumes that keep their group are %v", podman.grouped)
		}
		if said := strings.Contains(log.String(), "volume=disk"); said != (failure != nil) {
			t.Errorf("%v: the log is %q", failure, log.String())
		}
	}
}

// TestEmptyDirsInMemoryAreHeld: they keep their content while none of their containers runs. A task
// runs without that where the volume cannot be held, and the log says so.
func TestEmptyDirsInMemoryAreHeld(t *testing.T) {
	t.Parallel()
	tmpfs := map[string]string{"type": "tmpfs", "device": "tmpfs"}
	s := lifecycle.State{ID: "0123456789abcdef0123456789abcdef", Task: taskdef.Task{Family: "f", Volumes: []taskdef.Volume{
		{Name: "memory", Kind: taskdef.VolumeTask, Empty: true, DriverOpts: tmpfs},
		{Name: "disk", Kind: taskdef.VolumeTask, Empty: true, DriverOpts: map[string]string{"o": "uid=0"}},
		{Name: "ecs", Kind: taskdef.VolumeTask, DriverOpts: tmpfs},
	}}}
	for _, failure := range []error{nil, errors.New("no podman")} {
		var log bytes.Buffer
		r, podman := &Interpreter{Log: slog.New(slog.NewTextHandler(&log, nil))}, &volumeStub{err: failure}
		if err := r.ensureVolumes(t.Context(), podman, s); err != nil {
			t.Error(err)
		}
		if len(podman.held) != 1 || !strings.HasSuffix(podman.held[0], "-0-memory") {
			t.Errorf("held are %v", podman.held)
		}
		if said := strings.Contains(log.String(), "volume=memory"); said != (failure != nil) {
			t.Errorf("%v: the log is %q", failure, log.String())
		}
	}
}
