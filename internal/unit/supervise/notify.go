package supervise

import (
	"log/slog"
	"strings"

	"github.com/coreos/go-systemd/v22/daemon"
)

// Notify sends lines (sd_notify(3)) to the service manager that NOTIFY_SOCKET names,
// if there is one.
func Notify(log *slog.Logger, lines ...string) {
	if _, err := daemon.SdNotify(false, strings.Join(lines, "\n")); err != nil {
		log.Warn("cannot notify systemd", "error", err)
	}
}
