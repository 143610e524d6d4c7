package ownerapi

import (
	"fmt"
	"slices"
	"time"

	"github.com/docker/go-units"
	"github.com/podtask/podtask/internal/engine/act/logdelivery"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// stalled is the time for which output must wait to be sent before it is a reason to tell.
const stalled = time.Minute

// WithLogs adds how far the output of a task was sent, and to its reasons what stands still.
func WithLogs(t api.Task, d *logdelivery.Deliverer, s lifecycle.State, now time.Time) api.Task {
	routes, err := d.Routes(s)
	if err != nil {
		d.Log.Warn("the log files cannot be measured", "task", s.ID, "error", err)
	}
	why := slices.Clone(t.Why)
	for _, r := range routes {
		t.Logs = append(t.Logs, r)
		if !r.Stalled() || now.Sub(r.Since) < stalled {
			continue
		}
		why = append(why, api.Reason{
			Code: api.WhyLogsStalled, Container: r.Container, Since: r.Since,
			Text: fmt.Sprintf("%s of the output of %s wait to be sent to %s: %s", units.BytesSize(float64(r.WaitingBytes)), r.Container, r.Destination, r.Error),
		})
	}
	t.Why = why
	return t
}
