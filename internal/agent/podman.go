package agent

import (
	"github.com/podtask/podtask/internal/cleanup"
	"github.com/podtask/podtask/internal/conn"
	"github.com/podtask/podtask/internal/effects"
	"github.com/podtask/podtask/internal/endpoint"
	"github.com/podtask/podtask/internal/imagestore"
	"github.com/podtask/podtask/internal/logdelivery"
	"github.com/podtask/podtask/internal/observe"
	"github.com/podtask/podtask/internal/preflight"
	"github.com/podtask/podtask/internal/queue"
	"github.com/podtask/podtask/internal/tasksecrets"
	"github.com/podtask/podtask/pkg/images"
	"github.com/podtask/podtask/pkg/libpod"
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
