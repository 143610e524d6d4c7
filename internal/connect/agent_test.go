package connect_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/connect"
)

// With the socket alone, no service comes up at boot until a command asks for one: the advice enables the agent, too.
func TestTheAdviceWithoutAnAgentOutlivesABoot(t *testing.T) {
	t.Parallel()
	c := connect.Connector{AgentSocket: filepath.Join(t.TempDir(), "none.sock")}
	if _, err := c.RequireAgent(t.Context()); err == nil || !strings.Contains(err.Error(), "`systemctl --user enable --now podtask.socket podtask.service`") {
		t.Error(err)
	}
}
