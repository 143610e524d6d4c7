package engine

import (
	"github.com/podtask/podtask/internal/engine/cleanup"
	"github.com/podtask/podtask/internal/engine/conn"
	"github.com/podtask/podtask/internal/engine/effects"
	"github.com/podtask/podtask/internal/engine/endpoint"
	"github.com/podtask/podtask/internal/engine/imagestore"
	"github.com/podtask/podtask/internal/engine/logdelivery"
	"github.com/podtask/podtask/internal/engine/observe"
	"github.com/podtask/podtask/internal/engine/preflight"
	"github.com/podtask/podtask/internal/engine/queue"
	"github.com/podtask/podtask/internal/engine/tasksecrets"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/pkg/images"
)

// The real Podman is all that the components ask for.
var (
	_ conn.Podman                = (*libpod.Client)(nil)
	_ imagestore.Podman          = (*libpod.Client)(nil)
	_ imagestore.SecretReader    = (*libpod.Client)(nil)
	_ queue.Lister               = (*libpod.Client)(nil)
	_ tasksecrets.Podman         = (*libpod.Client)(nil)
	_ endpoint.Podman            = (*libpod.Client)(nil)
	_ endpoint.DockerStatsReader = (*libpod.Client)(nil)
	_ effects.Pods               = (*libpod.Client)(nil)
	_ effects.Networks           = (*libpod.Client)(nil)
	_ effects.Containers         = (*libpod.Client)(nil)
	_ effects.Watcher            = (*libpod.Client)(nil)
	_ effects.Volumes            = (*libpod.Client)(nil)
	_ preflight.Podman           = (*libpod.Client)(nil)
	_ cleanup.Podman             = (*libpod.Client)(nil)
	_ observe.LogReader          = (*libpod.Client)(nil)
	_ logdelivery.Podman         = (*libpod.Client)(nil)
	_ logdelivery.Describer      = (*libpod.Client)(nil)
	_ observe.StatsReader        = (*libpod.Client)(nil)
	_ observe.Execer             = (*libpod.Client)(nil)
	_ observe.Freezer            = (*libpod.Client)(nil)
)

var _ imagestore.Registry = (*images.Resolver)(nil)
