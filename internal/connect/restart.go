package connect

import (
	"fmt"

	"github.com/podtask/podtask/pkg/lifecycle"
)

// Restartable returns an error for a task that something else starts again.
func Restartable(s lifecycle.State) error {
	switch {
	case s.Options.Service != "":
		return fmt.Errorf("task %s is a copy for service %s: `podtask service update --force %s` replaces its copies", s.DisplayName(), s.Options.Service, s.Options.Service)
	case s.Options.Unit != "":
		return fmt.Errorf("task %s is run by %s: `systemctl --user restart %s` restarts it", s.DisplayName(), s.Options.Unit, s.Options.Unit)
	}
	return nil
}
