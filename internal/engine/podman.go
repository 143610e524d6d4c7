package engine

import (
	"github.com/podtask/podtask/internal/engine/admit"
	"github.com/podtask/podtask/internal/engine/cleanup"
	"github.com/podtask/podtask/internal/engine/cleanup/leftover"
	"github.com/podtask/podtask/internal/engine/conn"
	"github.com/podtask/podtask/internal/engine/effects"
	"github.com/podtask/podtask/internal/engine/endpoint"
	"github.com/podtask/podtask/internal/engine/imagestore"
	"github.com/podtask/podtask/internal/engine/logdelivery"
	"github.com/podtask/podtask/internal/engine/observe"
	"github.com/podtask/podtask/internal/engine/preflight"
	"github.com/podtask/podtask/internal/engine/prober"
	"github.com/podtask/podtask/internal/engine/tasksecrets"
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
