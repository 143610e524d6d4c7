package main

import (
	"strings"

	"github.com/coreos/go-systemd/v22/daemon"
)

// tell sends lines (sd_notify(3)) to the service manager that NOTIFY_SOCKET names,
// if there is one.
func (s *session) tell(lines ...string) {
	if _, err := daemon.SdNotify(false, strings.Join(lines, "\n")); err != nil {
		s.Log.Warn("systemd cannot be told", "error", err)
	}
}
