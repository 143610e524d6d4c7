//go:build e2e && bed_vm

package vm

import (
	"path/filepath"
	"strings"
	"testing"
)

// leftovers are what is there of tasks: records, objects in Podman, slices with their
// cgroups, units that failed. Nothing, when all tasks have been removed.
func leftovers(t *testing.T) (found []string) {
	t.Helper()
	for what, list := range map[string][]string{
		"task":      {bin(), "ps", "--all", "--quiet"},
		"container": {"podman", "ps", "--all", "--filter", "label=podtask.task-id", "--format", "{{.Names}}"},
		"pod":       {"podman", "pod", "ps", "--filter", "label=podtask.task-id", "--format", "{{.Name}}"},
		"network":   {"podman", "network", "ls", "--filter", "label=podtask.task-id", "--format", "{{.Name}}"},
		"volume":    {"podman", "volume", "ls", "--filter", "label=podtask.task-id", "--format", "{{.Name}}"},
		"secret":    {"podman", "secret", "ls", "--filter", "name=podtask-", "--format", "{{.Name}}"},
		"unit":      {"systemctl", "--user", "list-units", "--all", "--plain", "--no-legend", "podtask*.slice"},
		"failure":   {"systemctl", "--user", "list-units", "--failed", "--plain", "--no-legend", "libpod-*", "podtask*"},
	} {
		for line := range strings.Lines(must(t, list[0], list[1:]...)) {
			found = append(found, what+" "+strings.TrimSpace(line))
		}
	}
	groups, err := filepath.Glob(filepath.Join(manager(), "podtask*.slice"))
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range groups {
		found = append(found, "cgroup "+g)
	}
	return found
}
