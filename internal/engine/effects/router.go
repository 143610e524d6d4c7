package effects

import (
	"github.com/podtask/podtask/internal/engine/taskspec"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/logs/logfiles"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// Where a log router has its configuration and makes its socket (ECS agent,
// AddFirelensContainerBindMounts).
const (
	fluentdConfig   = "/fluentd/etc/fluent.conf"
	fluentBitConfig = "/fluent-bit/etc/fluent-bit.conf"
	routerSockets   = "/var/run"
)

// mountRouter gives container i its configuration, if it is the log router of the task.
func mountRouter(spec *libpod.ContainerSpec, dir logfiles.Dir, s lifecycle.State, i int) error {
	if i != taskdef.RouterOf(s.Task, s.Options.Logs) {
		return nil
	}
	files, router := dir.Router(s.ID), s.Task.Containers[i].FireLens
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
