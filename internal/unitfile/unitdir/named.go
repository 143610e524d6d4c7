package unitdir

import (
	"fmt"
	"os"
	"strings"

	"github.com/podtask/podtask/internal/unitfile/taskunit"
)

// Named returns an error for a reference to a task that is not there, if a .task unit has that name: the service removes its
// task when it stops. It is nil without such a unit. For the unit web.task, the references are web, web.task, web-task and
// web-task.service.
func Named(getenv func(string) string, ref string) error {
	dirs, err := Search(getenv, os.Getuid())
	if err != nil {
		return nil
	}
	sources, _ := Load(dirs)
	for _, s := range sources {
		base, isTask := strings.CutSuffix(s.Name, taskunit.Extension)
		service := strings.TrimSuffix(s.ServiceName(), ".service")
		if isTask && (ref == base || ref == s.Name || ref == service || ref == s.ServiceName()) {
			return fmt.Errorf("no task %q, but there is the unit %s: `systemctl --user status %s` says what it does, `journalctl --user -u %[3]s` has its log", ref, s.Name, service)
		}
	}
	return nil
}
