package taskunit

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/pkg/taskdef/suggest"
)

// The sections of a .task file that are ours to understand.
const (
	unitSection    = "Unit"
	taskSection    = "Task"
	serviceSection = "Service"
	installSection = "Install"
	quadletSection = "Quadlet"
)

// key is a key of [Task].
type key struct {
	name string
	// many: each assignment counts; otherwise the last one.
	many bool
	// flag of `podtask run` and the values of it that an assignment gives. Keys
	// without are dealt with by the generator itself.
	flag string
	read func(e entry) ([]string, error)
}

// keys lists the keys of [Task] in the order of the command line. Spellings are those of Quadlet, and for limits those
// of systemd.resource-control(5).
var keys = []key{
	{name: "Definition"},
	{name: "DefinitionText"},
	{name: "TaskName"},
	{name: "ServiceName"},
	{name: "GlobalArgs", many: true},
	{name: "PodtaskArgs", many: true},
	{name: "Notify"},
	{name: "AutoUpdate", flag: "auto-update", read: oneOf(map[string]string{"registry": "registry"})},
	{name: "MinimumAge", flag: "minimum-age", read: readAge},
	{name: "Environment", many: true, flag: "env", read: readEnvironment},
	{name: "EnvironmentFile", many: true, flag: "env-file", read: readPath},
	{name: "Override", flag: "override", read: readPath},
	{name: "Variable", many: true, flag: "var", read: readEnvironment},
	{name: "MapVolume", many: true, flag: "map-volume", read: readPathMap},
	{name: "MapEnvironmentFile", many: true, flag: "map-env-file", read: readPathMap},
	{name: "MapLogConfig", many: true, flag: "map-log-config", read: readPathMap},
	{name: "MapSecret", many: true, flag: "map-secret", read: readSourceMap},
	{name: "UnknownMembers", flag: "lenient", read: oneOf(map[string]string{"refuse": "false", "warn": "true"})},
	{name: "Without", many: true, flag: "without", read: readWords},
	{name: "ClampUlimits", flag: "clamp-ulimits", read: oneOf(map[string]string{"true": "true", "false": "false"})},
	{name: "Secret", many: true, flag: "secret", read: readSecret},
	{name: "Locked", flag: "locked", read: readLocked},
	{name: "LeaveOut", many: true, flag: "leave-out", read: readWords},
	{name: "PublishPort", many: true, flag: "publish", read: readPort},
	{name: "Network", flag: "network", read: readNetwork},
	{name: "Pull", flag: "pull", read: oneOf(pulls)},
	{name: "Limits", flag: "limits", read: oneOf(map[string]string{"enforce": "enforce", "best-effort": "best-effort", "off": "off"})},
	{name: "MemoryMax", flag: "memory", read: readMemory},
	{name: "CPUQuota", flag: "cpus", read: readCPU},
	{name: "CPUQuotaPeriodSec", flag: "cpu-period", read: readPeriod},
	{name: "TasksMax", flag: "pids-limit", read: readCount},
	{name: "StopTimeout", flag: "stop-timeout", read: readSeconds},
	{name: "OnCalendar", many: true},
	{name: "Persistent"},
	{name: "ListenStream", many: true},
	{name: "SleepAfter"},
	{name: "RuntimeMaxSec", flag: "stop-after", read: readTimeSpan},
}

// pulls are podtask's pull behaviors, and Podman's words for them.
var pulls = map[string]string{
	"default": "default", "always": "always", "once": "once", "prefer-cached": "prefer-cached", "never": "never",
	"newer": "default", "missing": "prefer-cached",
}

// notifies are the values of Notify.
var notifies = map[string]string{"healthy": "healthy", "running": "running", "no": "no", "true": "running", "false": "no"}

// The keys of other sections that mean something to the generator.
var (
	installKeys = []string{"Alias", "Also", "DefaultInstance", "RequiredBy", "UpheldBy", "WantedBy"}
	quadletKeys = []string{"DefaultDependencies"}
	// dependencyKeys of [Unit] hold names of units (as in Quadlet 5.5).
	dependencyKeys = []string{
		"After", "Before", "BindsTo", "Conflicts", "OnFailure", "OnSuccess", "PartOf", "PropagatesReloadTo", "PropagatesStopTo",
		"ReloadPropagatedFrom", "Requires", "Requisite", "StopPropagatedFrom", "Upholds", "Wants",
	}
	// ownServiceKeys are written by the generator alone.
	ownServiceKeys = []string{"ExecStart", "PIDFile", "BusName", "NotifyAccess", "RemainAfterExit", "GuessMainPID"}
)

// Keys returns the names of the keys of [Task].
func Keys() []string {
	var names []string
	for _, k := range keys {
		names = append(names, k.name)
	}
	return names
}

// didYouMean is a question with the closest of the words, or empty.
func didYouMean(word string, list []string) string {
	if question := suggest.Question(word, list); question != "" {
		return "; " + question
	}
	return ""
}

func oneOf(values map[string]string) func(entry) ([]string, error) {
	return func(e entry) ([]string, error) {
		v, ok := values[e.value]
		if !ok {
			var list []string
			for name := range values {
				list = append(list, name)
			}
			slices.Sort(list)
			return nil, fmt.Errorf("%s=%s: it is one of %s", e.key, e.value, strings.Join(list, ", "))
		}
		return []string{v}, nil
	}
}

// readNetwork reads a mode, a program or the name of a network. Options, and more than
// one network, are for podman.
func readNetwork(e entry) ([]string, error) {
	if e.value == "" || strings.ContainsAny(e.value, ":, \t/") {
		return nil, fmt.Errorf("%s=%s: it is bridge, host, none, pasta, slirp4netns, shared, one file NAME.network, or the name of one network", e.key, e.value)
	}
	return []string{e.value}, nil
}

// readEnvironment reads NAME=VALUE words. Values are not repeated in errors:
// they may be secret.
func readEnvironment(e entry) ([]string, error) {
	list, ok := words(e.value)
	if !ok {
		return nil, fmt.Errorf("the value of Environment cannot be split into words: check quotes and backslashes")
	}
	for _, w := range list {
		if name, _, _ := strings.Cut(w, "="); name == "" || strings.ContainsAny(name, " \t") {
			return nil, fmt.Errorf("a word of Environment must be NAME=VALUE, or NAME to pass on a variable of the service")
		}
	}
	return list, nil
}

// readWords reads words without quotes.
func readWords(e entry) ([]string, error) {
	if strings.ContainsAny(e.value, `"'\%`) {
		return nil, fmt.Errorf("%s=%s: write names of members, separated by spaces", e.key, e.value)
	}
	return strings.Fields(e.value), nil
}

// readAge reads a minimum age of images.
func readAge(e entry) ([]string, error) {
	if e.value == "0" {
		return []string{e.value}, nil
	}
	return readTimeSpan(e)
}

// readLocked reads true, false or the path of a lockfile.
func readLocked(e entry) ([]string, error) {
	if e.value == "true" || e.value == "false" {
		return []string{e.value}, nil
	}
	return readPath(e)
}

func readPath(e entry) ([]string, error) {
	if strings.HasPrefix(e.value, "-") {
		return nil, fmt.Errorf("%s=%s: optional files are not supported; remove the dash", e.key, e.value)
	}
	return []string{forSystemd(e.path, e.value)}, nil
}

// readPathMap reads NAME=PATH; the path may also be a source, as in readSourceMap.
func readPathMap(e entry) ([]string, error) {
	_, value, ok := strings.Cut(e.value, "=")
	if kind, _, named := strings.Cut(value, ":"); ok && (!named || !slices.Contains([]string{"file", "podman", "tree", "command"}, kind)) {
		e.value = strings.TrimSuffix(e.value, value) + "file:" + value
	}
	return readSourceMap(e)
}

// readSourceMap reads REFERENCE=SOURCE. The path of a file starts in the directory of the
// unit.
func readSourceMap(e entry) ([]string, error) {
	name, source, ok := strings.Cut(e.value, "=")
	kind, rest, named := strings.Cut(source, ":")
	if !ok || name == "" || !named || rest == "" {
		return nil, fmt.Errorf("%s=%s: write what the definition names, = and where this host has it", e.key, e.value)
	}
	if kind == "file" {
		source = "file:" + forSystemd(e.path, rest)
	}
	return []string{name + "=" + source}, nil
}

// readPeriod reads a time of systemd in seconds or milliseconds.
func readPeriod(e entry) ([]string, error) {
	number, unit := strings.TrimSuffix(e.value, "ms"), "ms"
	if number == e.value {
		number, unit = strings.TrimSuffix(e.value, "s"), "s"
	}
	if n, err := strconv.ParseFloat(number, 64); err != nil || !(n > 0 && n <= 1000) {
		return nil, fmt.Errorf("CPUQuotaPeriodSec=%s: write a time from 8ms to 1s", e.value)
	}
	return []string{number + unit}, nil
}

// maxTimeSpan is the longest time limit of a task.
const maxTimeSpan = 365 * 24 * time.Hour

// timeSpanPart is a number with a unit of systemd.time(7); seconds without one.
var timeSpanPart = lazy.MustCompile(`^([0-9]+)(seconds|second|sec|s|minutes|minute|min|m|hours|hour|hr|h|days|day|d|weeks|week|w|)\s*`)

// readTimeSpan reads a time span of systemd in whole seconds, such as 90, 10min or 1h 30min.
func readTimeSpan(e entry) ([]string, error) {
	units := map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour, 'w': 7 * 24 * time.Hour}
	wrong := fmt.Errorf("%s=%s: write a time such as 90, 10min or 1h 30min, from 1 second to a year", e.key, e.value)
	total, rest := time.Duration(0), e.value
	for rest != "" && total <= maxTimeSpan {
		m := timeSpanPart.FindStringSubmatch(rest)
		if m == nil {
			return nil, wrong
		}
		unit := units[(m[2] + "s")[0]]
		n, err := strconv.ParseInt(m[1], 10, 32)
		if err != nil || time.Duration(n) > maxTimeSpan/unit {
			return nil, wrong
		}
		total += time.Duration(n) * unit
		rest = rest[len(m[0]):]
	}
	if total < time.Second || total > maxTimeSpan {
		return nil, wrong
	}
	return []string{total.String()}, nil
}

// absolute makes a path absolute by the directory of the file it stands in, as
// Quadlet does: unless it begins with a specifier.
func absolute(file, p string) string {
	if strings.HasPrefix(p, "%") || path.IsAbs(p) {
		return p
	}
	return path.Join(path.Dir(file), p)
}

// forSystemd is absolute for a line that systemd reads: a % in the directory of the file
// is no specifier, one that the author wrote is.
func forSystemd(file, p string) string {
	return absolute(noSpecifiers(file), p)
}

// readSecret checks NAME[,OPTION=VALUE...] as far as the options go.
func readSecret(e entry) ([]string, error) {
	name, options, _ := strings.Cut(e.value, ",")
	if name == "" || strings.ContainsAny(e.value, " \t") {
		return nil, fmt.Errorf("the value %s is not a valid Secret: write NAME[,type=env or mount][,target=...]", e.value)
	}
	for _, o := range strings.Split(options, ",") {
		k, _, _ := strings.Cut(o, "=")
		if options != "" && !slices.Contains([]string{"type", "target", "uid", "gid", "mode"}, k) {
			return nil, fmt.Errorf("in Secret %s, %q is not one of type, target, uid, gid, mode", e.value, k)
		}
	}
	return []string{e.value}, nil
}

// readPort checks [[IP:]HOST:]CONTAINER[/PROTOCOL] as far as it has no
// specifiers; a part may be a range.
func readPort(e entry) ([]string, error) {
	if strings.Contains(e.value, "%") {
		return []string{e.value}, nil
	}
	rest, protocol, _ := strings.Cut(e.value, "/")
	wrong := fmt.Errorf("PublishPort=%s: write [[IP:]HOSTPORT:]CONTAINERPORT[/tcp or /udp]", e.value)
	if protocol != "" && protocol != "tcp" && protocol != "udp" || strings.HasSuffix(e.value, "/") {
		return nil, wrong
	}
	parts := rest
	if strings.HasPrefix(rest, "[") { // an IPv6 address
		_, after, ok := strings.Cut(rest, "]:")
		if !ok {
			return nil, wrong
		}
		parts = "ip:" + after
	}
	list := strings.Split(parts, ":")
	if len(list) > 3 {
		return nil, wrong
	}
	ports := list[max(0, len(list)-2):]
	for i, p := range ports {
		if p == "" && i == 0 && len(ports) == 2 {
			continue // any host port
		}
		from, to, ranged := strings.Cut(p, "-")
		if !ranged {
			to = from
		}
		a, err1 := strconv.ParseUint(from, 10, 16)
		b, err2 := strconv.ParseUint(to, 10, 16)
		if err1 != nil || err2 != nil || a > b || b == 0 && i == len(ports)-1 {
			return nil, wrong
		}
	}
	return []string{e.value}, nil
}

// readMemory reads a size of systemd: a number of bytes, or of KiB to TiB with K
// to T behind it.
func readMemory(e entry) ([]string, error) {
	wrong := fmt.Errorf("MemoryMax=%s: write a number of bytes, or 512M, 2G; shares of the machine's memory are not supported", e.value)
	if e.value == "infinity" {
		return []string{"0"}, nil
	}
	number, shift := e.value, 0
	if i := strings.IndexByte("KMGT", number[len(number)-1]); i >= 0 {
		number, shift = number[:len(number)-1], 10*(i+1)
	}
	n, err := strconv.ParseFloat(number, 64)
	bytes := n * float64(uint64(1)<<shift)
	if err != nil || !(bytes >= 1 && bytes < 1<<60) {
		return nil, wrong
	}
	return []string{strconv.FormatInt(int64(bytes), 10)}, nil
}

// readCPU reads a share of one CPU in percent.
func readCPU(e entry) ([]string, error) {
	number, ok := strings.CutSuffix(e.value, "%")
	n, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil || !(n >= 1 && n <= 1e6) {
		return nil, fmt.Errorf("CPUQuota=%s: write a share of one CPU, such as 50%% or 200%%", e.value)
	}
	return []string{strconv.FormatFloat(n/100, 'f', -1, 64)}, nil
}

func readCount(e entry) ([]string, error) {
	if e.value == "infinity" {
		return []string{"0"}, nil
	}
	if n, err := strconv.ParseUint(e.value, 10, 31); err != nil || n == 0 {
		return nil, fmt.Errorf("TasksMax=%s: write a number of processes, or infinity", e.value)
	}
	return []string{e.value}, nil
}

func readSeconds(e entry) ([]string, error) {
	if n, err := strconv.ParseUint(e.value, 10, 31); err != nil || n == 0 {
		return nil, fmt.Errorf("%s=%s: write a whole number of seconds, at least 1", e.key, e.value)
	}
	return []string{e.value}, nil
}
