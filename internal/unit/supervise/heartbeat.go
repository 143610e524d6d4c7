package supervise

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/podtask/podtask/internal/engine/run/owner"
)

// Intervals and limits of the heartbeat. If a timeout expires and the manager has not
// received a message for extension, it ends the service.
const (
	interval  = 5 * time.Second
	extension = 30 * time.Second
	// cleanUp limits the time that a stop may take in addition to the containers' stop timeouts.
	cleanUp = time.Minute
	// stuck is longer than a live owner ever works on one batch of events.
	stuck = 30 * time.Second
)

// heartbeat feeds the watchdog of the service manager and extends its timeouts.
type heartbeat struct {
	log *slog.Logger
	// entered has a value when the phase has changed: a timeout that starts then may be
	// shorter than the interval. Its capacity is one.
	entered chan struct{}

	mu    sync.Mutex // guards the fields below
	phase phase
	owner *owner.Owner // nil between two tasks
	// stopBy is the time at which a stop must be complete; set while stopping.
	stopBy time.Time
}

func newHeartbeat(log *slog.Logger) *heartbeat {
	return &heartbeat{log: log, entered: make(chan struct{}, 1)}
}

// run sends messages at each interval and at each new phase, until ctx ends.
func (h *heartbeat) run(ctx context.Context) {
	every := interval
	if limit, err := daemon.SdWatchdogEnabled(false); err == nil && limit > 0 {
		every = min(every, limit/3)
	}
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		if lines := h.messages(time.Now()); len(lines) > 0 {
			Notify(h.log, lines...)
		}
		select {
		case <-t.C:
		case <-h.entered:
		case <-ctx.Done():
			return
		}
	}
}

// messages returns the messages that are due now.
func (h *heartbeat) messages(now time.Time) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var lines []string
	if h.owner == nil || h.owner.Busy(now) < stuck {
		lines = append(lines, daemon.SdNotifyWatchdog)
	}
	if h.phase == starting || h.phase == stopping && now.Before(h.stopBy) {
		lines = append(lines, fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", extension.Microseconds()))
	}
	return lines
}

// enter records the phase of the service. A stop may take stopBound plus cleanUp.
func (h *heartbeat) enter(p phase, o *owner.Owner, now time.Time, stopBound time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case p != stopping:
		h.stopBy = time.Time{}
	case h.stopBy.IsZero():
		h.stopBy = now.Add(stopBound + cleanUp)
	}
	if p != h.phase {
		select {
		case h.entered <- struct{}{}:
		default:
		}
	}
	h.phase, h.owner = p, o
}
