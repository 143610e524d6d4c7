package connect

import (
	"net"

	"github.com/podtask/podtask/pkg/api"
)

// Listen opens the socket of a task. If that fails, the task runs without a socket, and
// other commands cannot reach it.
func (s *Connector) Listen(id string) net.Listener {
	l, err := api.Listen(s.Socket(id))
	if err != nil {
		s.Warnf("other commands cannot reach the task while this one runs: %v", err)
		return nil
	}
	return l
}
