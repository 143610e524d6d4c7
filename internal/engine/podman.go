package engine

import (
	"github.com/podtask/podtask/internal/engine/act/admit"
	"github.com/podtask/podtask/internal/engine/act/effects"
	"github.com/podtask/podtask/internal/engine/act/endpoint"
	"github.com/podtask/podtask/internal/engine/act/imagestore"
	"github.com/podtask/podtask/internal/engine/act/leftover"
	"github.com/podtask/podtask/internal/engine/act/logdelivery"
	"github.com/podtask/podtask/internal/engine/act/observe"
	"github.com/podtask/podtask/internal/engine/act/preflight"
	"github.com/podtask/podtask/internal/engine/act/prober"
	"github.com/podtask/podtask/internal/engine/act/tasksecrets"
	"github.com/podtask/podtask/internal/engine/facts/conn"
	"github.com/podtask/podtask/internal/engine/run/cleanup"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/pkg/images"
)

// *libpod.Client is the Podman of every component. conn.As binds it at run time, because
// tests bind a fake.
var (
	_ admit.Lister               = (*libpod.Client)(nil)
	_ cleanup.Podman             = (*libpod.Client)(nil)
	_ conn.Podman                = (*libpod.Client)(nil)
	_ effects.Podman             = (*libpod.Client)(nil)
	_ endpoint.DockerStatsReader = (*libpod.Client)(nil)
	_ endpoint.Podman            = (*libpod.Client)(nil)
	_ imagestore.Podman          = (*libpod.Client)(nil)
	_ imagestore.SecretReader    = (*libpod.Client)(nil)
	_ leftover.Podman            = (*libpod.Client)(nil)
	_ logdelivery.Describer      = (*libpod.Client)(nil)
	_ logdelivery.Podman         = (*libpod.Client)(nil)
	_ observe.ContainerReader    = (*libpod.Client)(nil)
	_ observe.Execer             = (*libpod.Client)(nil)
	_ observe.Freezer            = (*libpod.Client)(nil)
	_ observe.Lister             = (*libpod.Client)(nil)
	_ observe.LogReader          = (*libpod.Client)(nil)
	_ observe.StatsReader        = (*libpod.Client)(nil)
	_ preflight.Podman           = (*libpod.Client)(nil)
	_ prober.Podman              = (*libpod.Client)(nil)
	_ tasksecrets.Podman         = (*libpod.Client)(nil)
)

var _ imagestore.Registry = (*images.Resolver)(nil)
