package effects

import (
	"github.com/podtask/podtask/internal/engine/facts/taskspec"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/logs/logfiles"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// The paths in a log router's container of its configuration and of its socket (ECS agent,
// AddFirelensContainerBindMounts).
const (
	fluentdConfig   = "/fluentd/etc/fluent.conf"
	fluentBitConfig = "/fluent-bit/etc/fluent-bit.conf"
	routerSockets   = "/var/run"
)

// mountRouter adds the mounts of a log router to spec if container i is the task's.
func (r *Interpreter) mountRouter(spec *libpod.ContainerSpec, s lifecycle.State, i int) error {
	if i != taskdef.RouterOf(s.Task, s.Options.Logs) {
		return nil
	}
	files, router := logfiles.In(r.StateDir).Router(s.ID), s.Task.Containers[i].FireLens
	if err := files.Place(taskspec.RouterConfig(s)); err != nil {
		return err
	}
	if router.Path != "" {
		if err := files.PlaceExternal(router.Path); err != nil {
			return err
		}
		spec.Binds = append(spec.Binds, libpod.Bind{HostPath: files.External(), Path: router.Include(), Relabel: "Z"})
	}
	inside := fluentBitConfig
	if router.Fluentd() {
		inside = fluentdConfig
	}
	spec.Binds = append(spec.Binds,
		libpod.Bind{HostPath: files.Config(), Path: inside, Relabel: "Z"},
		libpod.Bind{HostPath: files.Sockets(), Path: routerSockets, Relabel: "Z"})
	return nil
}
