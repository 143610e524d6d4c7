package ownerapi

import (
	"fmt"
	"slices"

	"github.com/podtask/podtask/internal/engine/facts/conn"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// WithOutage adds to the reasons of an owned task that waits for Podman, as the first one, that
// Podman does not answer.
func WithOutage(t api.Task, podman *conn.Lazy) api.Task {
	if len(t.Why) == 0 || t.Why[0].Code != lifecycle.WhyOperation && t.Why[0].Code != lifecycle.WhyInspect {
		return t
	}
	outage, ok := podman.Outage()
	if !ok {
		return t
	}
	r := api.Reason{Code: api.WhyPodmanNotResponding, Since: outage.Since}
	r.Text = fmt.Sprintf("Podman's service at %s does not answer; if it does not continue, end it "+
		"(systemctl --user kill -s KILL podman.service, unless it was started in another way)", outage.Socket)
	if outage.Replaced {
		r.Text = fmt.Sprintf("Podman's service at %s does not answer; podtask ends a service that it has started and that stays silent, and starts another one", outage.Socket)
	}
	t.Why = slices.Insert(slices.Clone(t.Why), 0, r)
	return t
}
