package cli

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/run"
	"github.com/podtask/podtask/internal/cli/service"
	"github.com/podtask/podtask/internal/unitfile/taskunit"
	"github.com/podtask/podtask/pkg/api"
)

// otherWays are the flags of run with the member of POST /v1/tasks and of services that does
// the same, or the reason why there is none. A reason has a blank.
var otherWays = map[string]struct{ task, service, unit string }{
	"auto-update":    {"an agent's tasks have no unit", "autoUpdate", "AutoUpdate"},
	"clamp-ulimits":  {"clampUlimits", "clampUlimits", "ClampUlimits"},
	"cpu-period":     {"cpuPeriod", "cpuPeriod", "CPUQuotaPeriodSec"},
	"cpus":           {"cpus", "cpus", "CPUQuota"},
	"detach":         {"the agent owns the task", "the agent owns the copies", "systemd runs the owner"},
	"dry-run":        {"validate and plan check a definition", "validate and plan check a definition", "validate and plan check a definition"},
	"env":            {"environment", "environment", "Environment"},
	"env-file":       {"environment: the caller reads its files", "environment: the caller reads its files", "EnvironmentFile"},
	"leave-out":      {"leaveOut", "leaveOut", "LeaveOut"},
	"lenient":        {"lenient", "a registered definition was checked when it was registered", "UnknownMembers"},
	"limits":         {"limits", "limits", "Limits"},
	"locked":         {"images: the caller reads the lockfile", "images", "Locked"},
	"logs":           {"the agent's key logs", "the agent's key logs", "PodtaskArgs passes it on"},
	"map-env-file":   {"references", "references", "MapEnvironmentFile"},
	"map-log-config": {"references", "references", "MapLogConfig"},
	"map-secret":     {"references", "references", "MapSecret"},
	"map-volume":     {"references", "references", "MapVolume"},
	"memory":         {"memory", "memory", "MemoryMax"},
	"minimum-age":    {"minimumAge", "minimumAge", "MinimumAge"},
	"name":           {"name", "serviceName", "TaskName"},
	"namespace":      {"namespace", "namespace", "a unit has an owner of its own, and the agent serves names"},
	"network":        {"network", "network", "Network"},
	"notify":         {"there is no unit to notify", "there is no unit to notify", "Notify"},
	"override":       {"overrides", "overrides", "Override"},
	"pids-limit":     {"pidsLimit", "pidsLimit", "TasksMax"},
	"progress":       {"GET .../pulls reports progress", "GET .../pulls reports progress", "the journal has lines"},
	"publish":        {"publish", "publish", "PublishPort"},
	"pull":           {"pull", "pull", "Pull"},
	"quiet":          {"a reply has no progress", "a reply has no progress", "PodtaskArgs passes it on"},
	"replace":        {"the caller removes the other task first", "update replaces copies", "the unit always replaces"},
	"rm":             {"remove", "copies that stopped are always removed", "the unit always removes"},
	"secret":         {"secrets", "secrets", "Secret"},
	"settle":         {"for auto-update only", "for auto-update only", "PodtaskArgs passes it on"},
	"stop-after":     {"stopAfter", "stopAfter", "RuntimeMaxSec"},
	"stop-timeout":   {"stopTimeout", "stopTimeout", "StopTimeout"},
	"strict":         {"for authors: validate --strict", "for authors: validate --strict", "for authors: validate --strict"},
	"timeout":        {"GET .../watch lasts as long as the caller wants", "GET .../watch lasts as long as the caller wants", "TimeoutStartSec of the service"},
	"var":            {"vars", "vars", "Variable"},
	"without":        {"without", "without", "Without"},
	"wait":           {"GET .../watch", "GET .../watch", "Notify of the unit"},
}

// TestEveryFlagOfRunIsThereForOthers: whatever run accepts, a request, a service and a unit
// accept too, or the reason is written above.
func TestEveryFlagOfRunIsThereForOthers(t *testing.T) {
	t.Parallel()
	known := map[string][]string{"task": members(reflect.TypeFor[api.NewTask]()), "service": members(reflect.TypeFor[api.NewService]()), "unit": taskunit.Keys()}
	var flags []string
	for _, f := range run.Command(&command.Program{}).Flags {
		name := f.Names()[0]
		flags = append(flags, name)
		row, ok := otherWays[name]
		if !ok {
			t.Errorf("run --%s: give POST /v1/tasks and services a member and .task files a key for it, or write the reason here", name)
			continue
		}
		for where, answer := range map[string]string{"task": row.task, "service": row.service, "unit": row.unit} {
			if !strings.Contains(answer, " ") && !slices.Contains(known[where], answer) {
				t.Errorf("run --%s: a %s has no %q, it has %q", name, where, answer, known[where])
			}
		}
	}
	for name := range otherWays {
		if !slices.Contains(flags, name) {
			t.Errorf("run has no flag --%s", name)
		}
	}
}

// members are the JSON members of a type.
func members(typ reflect.Type) []string {
	var names []string
	for _, f := range reflect.VisibleFields(typ) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// TestServicesHaveTheFlagsOfRun: what a service accepts through the API, its command line
// accepts too.
func TestServicesHaveTheFlagsOfRun(t *testing.T) {
	t.Parallel()
	var have []string
	for _, f := range service.SettingsFlags() {
		have = append(have, f.Names()[0])
	}
	for flag, row := range otherWays {
		if !strings.Contains(row.service, " ") && flag != "name" && !slices.Contains(have, flag) {
			t.Errorf("service create has no --%s", flag)
		}
	}
}
