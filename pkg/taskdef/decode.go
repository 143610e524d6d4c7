package taskdef

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
	"github.com/podtask/podtask/pkg/taskdef/suggest"
)

const (
	unitsPerVCPU = 1024
	mib          = 1 << 20
	// hostileContainers is a count that is no slip. The single containers are not
	// looked at then, because some rules compare each with all others.
	hostileContainers = 100
)

// decodeTask decodes a task definition. It reports what cannot be represented in a
// Task and leaves the rest to the rules.
func decodeTask(c cursor) Task {
	t := Task{
		Family:  c.at("family").str(),
		Network: NetworkMode(c.at("networkMode").str()),
		CPU:     decodeVcpu(c.at("cpu")),
		Memory:  decodeMemory(c.at("memory")),

		EphemeralStorage: decodeStorage(c.at("ephemeralStorage")),
		FaultInjection:   c.at("enableFaultInjection").flag(false),

		PIDMode:    PIDMode(c.at("pidMode").str()),
		IPCMode:    IPCMode(c.at("ipcMode").str()),
		Platform:   decodePlatform(c.at("runtimePlatform")),
		Volumes:    decodeVolumes(c.at("volumes")),
		Extensions: decodeTaskExtensions(c.at(extensionMember)),
		Identity: Identity{
			TaskRoleARN: c.at("taskRoleArn").str(), ExecutionRoleARN: c.at("executionRoleArn").str(), Tags: decodeTags(c.at("tags")),
		},
	}
	if t.Network == "" {
		t.Network = NetworkBridge
	}
	warnUnused(c)
	all := c.at("containerDefinitions")
	defs := all.list("")
	if len(defs) > maxContainers {
		all.wrong(fmt.Sprintf("a task has at most %d containers, and here are %d", maxContainers, len(defs)), "split the task")
	}
	if len(defs) > hostileContainers {
		return t
	}
	for _, def := range defs {
		t.Containers = append(t.Containers, decodeContainer(def, t.Network))
	}
	// What names other containers comes second, because they have any place.
	for i, def := range defs {
		decodeRelations(def, t, i)
	}
	withRouter(t, c.p.settings.Logs.Mode)
	return t
}

// decodeRelations decodes what ties container i to others and to the volumes of the
// task.
func decodeRelations(c cursor, t Task, i int) {
	to := &t.Containers[i]
	to.Net.Links = decodeLinks(c.at("links"), t)
	to.DependsOn = withLinks(decodeDependencies(c.at("dependsOn"), t), to.Net.Links, i)
	to.Mounts = decodeMounts(c.at("mountPoints"), t)
	to.VolumesFrom = decodeVolumesFrom(c.at("volumesFrom"), t)
}

// decodeUser decodes user[:group], of which numbers have to be IDs of this host.
func decodeUser(c cursor) string {
	user, group, _ := strings.Cut(c.str(), ":")
	for kind, text := range map[string]string{"user": user, "group": group} {
		if id, err := strconv.ParseInt(text, 10, 64); err == nil {
			if message, fix := c.p.settings.IDs.Problem(kind, id); message != "" {
				c.wrong(message, fix)
			}
		}
	}
	return c.str()
}

// decodePlatform decodes what the images must be made for.
func decodePlatform(c cursor) Platform {
	c.want(doctree.Object, "")
	var p Platform
	system := c.at("operatingSystemFamily")
	switch s := system.str(); s {
	case "":
	case "LINUX":
		p.OS = "linux"
	default:
		system.wrong("operatingSystemFamily is "+quote(s)+", and only LINUX containers can run", "")
	}
	arch := c.at("cpuArchitecture")
	switch s := arch.str(); s {
	case "":
	case "X86_64":
		p.Architecture = "amd64"
	case "ARM64":
		p.Architecture = "arm64"
	default:
		arch.wrong("cpuArchitecture cannot be "+quote(s), cmp.Or(suggest.Question(s, []string{"X86_64", "ARM64"}), "use X86_64 or ARM64"))
	}
	return p
}

// decodeContainer decodes a container; the network mode decides about host ports.
func decodeContainer(c cursor, mode NetworkMode) Container {
	c.want(doctree.Object, "")
	extensions := decodeContainerExtensions(c.at(extensionMember))
	if disabled(c.at("healthCheck").at("command")) {
		extensions.ImageHealthCheck = false
	}
	return Container{
		Name:              c.at("name").str(),
		Image:             c.at("image").str(),
		EntryPoint:        decodeWords(c.at("entryPoint")),
		Command:           decodeWords(c.at("command")),
		Environment:       decodeEnvironment(c.at("environment")),
		WorkingDirectory:  c.at("workingDirectory").str(),
		User:              decodeUser(c.at("user")),
		Labels:            c.at("dockerLabels").texts(),
		ReadonlyRootFS:    c.at("readonlyRootFilesystem").flag(false),
		Init:              c.at("linuxParameters").at("initProcessEnabled").flag(false),
		Interactive:       c.at("interactive").flag(false),
		PseudoTerminal:    c.at("pseudoTerminal").flag(false),
		Essential:         c.at("essential").flag(true),
		HealthCheck:       decodeHealthCheck(c.at("healthCheck")),
		Ports:             decodePorts(c.at("portMappings"), mode),
		CPU:               c.at("cpu").integer(0, 0),
		Memory:            decodeMebibytes(c.at("memory")),
		MemoryReservation: decodeMebibytes(c.at("memoryReservation")),
		StartTimeout:      decodeSeconds(c.at("startTimeout"), 0),
		// 0 is the default, as for the ECS agent.
		StopTimeout: cmp.Or(decodeSeconds(c.at("stopTimeout"), 0), DefaultStopTimeout),

		RepositoryCredentials: decodeRepositoryCredentials(c.at("repositoryCredentials")),
		Unpinned:              decodeOneOf(c.at("versionConsistency"), "enabled", "disabled") == "disabled",
		EnvironmentFiles:      decodeEnvironmentFiles(c.at("environmentFiles")),
		Secrets:               decodeSecrets(c.at("secrets")),
		Privileged:            c.at("privileged").flag(false),
		Security:              decodeSecurity(c.at("dockerSecurityOptions")),
		Linux:                 decodeLinux(c),
		Net:                   decodeNetwork(c),
		Log:                   decodeLogConfiguration(c.at("logConfiguration")),
		FireLens:              decodeFireLens(c.at("firelensConfiguration")),
		Restart:               decodeRestartPolicy(c.at("restartPolicy")),
		Extensions:            extensions,
	}
}

// decodeMebibytes decodes an amount of memory into bytes. 0 is none, as what generates
// definitions writes it.
func decodeMebibytes(c cursor) int64 {
	units := map[string]float64{"m": 1, "mb": 1, "mib": 1, "g": 1024, "gb": 1024, "gib": 1024, "k": 1.0 / 1024, "kb": 1.0 / 1024}
	if fix := withUnit(c, units); fix != "" {
		c.wrong(quote(c.node.Text)+" is not a whole number of MiB", fix)
		return 0
	}
	v := c.integer(0, 0)
	if v != 0 && v < minMemory/mib {
		c.wrong(fmt.Sprintf("%d is out of range: it must be at least %d", v, minMemory/mib), "")
		return 0
	}
	return v * mib
}

// decodeOneOf decodes one of some words; empty for an absent one.
func decodeOneOf(c cursor, words ...string) string {
	s := c.str()
	if s != "" && !slices.Contains(words, s) {
		c.wrong("this cannot be "+quote(s), cmp.Or(suggest.Question(s, words), "use "+strings.Join(words, " or ")))
		return ""
	}
	return s
}

// decodeEnvironment decodes variables. Of several with one name the last value wins,
// at the place of the first, as in Docker.
func decodeEnvironment(c cursor) []EnvVar {
	var vars []EnvVar
	for _, item := range c.list(`write a list of {"name": ..., "value": ...}`) {
		if !item.want(doctree.Object, `write {"name": ..., "value": ...}`) {
			continue
		}
		name := item.at("name")
		v := EnvVar{name.str(), item.at("value").free()}
		if c.p.broken[name.ptr] {
			continue
		}
		if complaint := envNameComplaint(v.Name); complaint != "" {
			// Told here, because the task keeps no place for each variable.
			if name.node == nil {
				name = item
			}
			name.wrong(complaint, "")
			continue
		}
		known := len(vars)
		vars = setEnv(vars, v)
		if len(vars) == known {
			c.p.warnings = append(c.p.warnings, c.p.problem(name.ptr, name.node.Line, name.node.Col,
				"the variable "+quote(v.Name)+" is set before; this value wins", "remove one of the two"))
		}
	}
	return vars
}

func decodeHealthCheck(c cursor) *HealthCheck {
	if c.node == nil || c.node.Kind == doctree.Object && c.node.Empty() || disabled(c.at("command")) {
		return nil
	}
	c.want(doctree.Object, "")
	c.at(extensionMember).want(doctree.Object, "")
	// Part of a broken check is kept, so that a container that waits for HEALTHY is not
	// reported as well.
	return &HealthCheck{
		Command:     healthCommand(c.at("command")),
		Interval:    decodeSeconds(c.at("interval"), 30*time.Second),
		Timeout:     decodeSeconds(c.at("timeout"), 5*time.Second),
		Retries:     int(c.at("retries").integer(0, 3)),
		StartPeriod: decodeSeconds(c.at("startPeriod"), 0),
		Action:      HealthAction(c.at(extensionMember).at("action").str()),
	}
}

// disabled reports whether the command of a health check is ["NONE"]: there is no check,
// not even that of the image.
func disabled(c cursor) bool {
	return c.node != nil && c.node.Kind == doctree.List && len(c.node.Items) == 1 && c.node.Items[0].Kind == doctree.Text && c.node.Items[0].Text == "NONE"
}

// healthCommand decodes the command of a health check. ECS registers one without CMD or
// CMD-SHELL, as in some of its examples; it runs as CMD. As in Docker, the words after the
// command line of CMD-SHELL are $0, $1 and so on. A single text with spaces, and a list written
// into a text, are left to the rules: no program has such a name.
func healthCommand(c cursor) []string {
	words := decodeWords(c)
	if len(words) == 0 || c.failed() {
		return words
	}
	first := words[0]
	warn := func(message, fix string) {
		c.p.warnings = append(c.p.warnings, c.p.problem(c.ptr, c.node.Line, c.node.Col, message, fix))
	}
	switch upper := strings.ToUpper(first); {
	case first == "CMD-SHELL" && len(words) > 2 && words[1] != "":
		warn("CMD-SHELL runs "+quote(words[1])+" alone: the words after it are $0, $1 and so on of the shell", "write the command line as one text, or use CMD")
		return append([]string{"CMD", "/bin/sh", "-c"}, words[1:]...)
	case upper == "CMD" || upper == "CMD-SHELL" || upper == "NONE" || first == "" || isListInText(first) || len(words) == 1 && strings.ContainsAny(first, " \t\n"):
		return words
	}
	warn("the command does not start with CMD or CMD-SHELL: it runs as CMD, without a shell", `put "CMD" before the program`)
	return append([]string{"CMD"}, words...)
}

// listInText begins a list that was written into a text: its brackets or quotes, or CMD with a comma or a blank.
var listInText = lazy.MustCompile(`(?i)^\s*(\[\s*["'c]|["']|CMD(-SHELL)?(["']?\s*[,\]]|\s))`)

// isListInText reports whether a word of a command is the text of a list, as when JSON is quoted once too often.
func isListInText(word string) bool { return listInText.MatchString(word) }

// isJSONList reports whether a text is a list of texts in JSON, which a shell cannot run either.
func isJSONList(word string) bool {
	var list []string
	return json.Unmarshal([]byte(word), &list) == nil && list != nil
}

// decodeDependencies decodes dependsOn. A name that no container has becomes index -1.
func decodeDependencies(c cursor, t Task) []Dependency {
	var deps []Dependency
	for _, item := range c.list(`write a list of {"containerName": ..., "condition": ...}`) {
		item.want(doctree.Object, `write {"containerName": ..., "condition": ...}`)
		name := item.at("containerName")
		deps = append(deps, Dependency{decodeContainerIndex(name, t), Condition(item.at("condition").str())})
	}
	return deps
}

// decodeContainerIndex decodes the name of a container of the task; -1 for none.
func decodeContainerIndex(c cursor, t Task) int {
	s := c.str()
	if s == "" {
		return -1
	}
	if i, ok := t.Index(s); ok {
		return i
	}
	c.wrong("no container named "+quote(s), whichContainer(t, s))
	return -1
}

// whichContainer is the fix for a name that no container has.
func whichContainer(t Task, name string) string {
	var names []string
	for _, c := range t.Containers {
		names = append(names, c.Name)
	}
	return whichName(name, names, "the containers are ")
}

// whichName is the fix for a name that is none of names.
func whichName(name string, names []string, all string) string {
	names = slices.Clone(names[:min(len(names), maxContainers)])
	if fix := suggest.Question(name, names); fix != "" || len(names) == 0 {
		return fix
	}
	for i, n := range names {
		names[i] = quote(n)
	}
	return all + strings.Join(names, ", ")
}

// decodeSeconds decodes a whole number of seconds, at least 0.
func decodeSeconds(c cursor, unset time.Duration) time.Duration {
	if fix := withUnit(c, map[string]float64{"s": 1, "sec": 1, "seconds": 1, "m": 60, "min": 60, "h": 3600}); fix != "" {
		c.wrong(quote(c.node.Text)+" is not a whole number of seconds", fix)
		return unset
	}
	const absent = -1
	s := c.integer(0, absent)
	if s == absent {
		return unset
	}
	return Span(s, time.Second)
}

// quantity is a decimal number with an optional unit. It is stricter than
// strconv.ParseFloat, which takes "inf" and hexadecimal too.
var quantity = lazy.MustCompile(`^([0-9]*\.?[0-9]+)\s*([A-Za-z]*)$`)

// withUnit returns the fix for a number with a unit where the number alone must be: the
// number to write. It is empty for any other value.
func withUnit(c cursor, units map[string]float64) string {
	if c.node == nil || c.node.Kind != doctree.Text {
		return ""
	}
	m := quantity.FindStringSubmatch(strings.TrimSpace(c.node.Text))
	if m == nil || m[2] == "" {
		return ""
	}
	factor, known := units[strings.ToLower(m[2])]
	f, err := strconv.ParseFloat(m[1], 64)
	if whole := f * factor; known && err == nil && whole == math.Trunc(whole) && whole < 1<<31 {
		return "write " + strconv.FormatInt(int64(whole), 10)
	}
	return "write the number alone"
}

// decodeVcpu decodes the cpu of a task: cpu units, or a number of vCPU.
func decodeVcpu(c cursor) float64 {
	return decodeAmount(c, "vcpu", 1.0/unitsPerVCPU, `write cpu units (1024 = 1 vCPU), or a number of vCPU as in "0.5 vCPU"`)
}

// decodeMemory decodes the memory of a task, MiB or a number of GB (which ECS counts
// as 1024 MiB), into bytes.
func decodeMemory(c cursor) int64 {
	const fix = `write MiB, or a number of GB as in "2 GB"`
	gb := decodeAmount(c, "gb", 1.0/1024, fix)
	if gb > 1<<20 {
		c.wrong("more than 1048576 GB", fix)
		return 0
	}
	return int64(gb * 1024 * mib)
}

// decodeAmount decodes a number with a unit, or a whole number without one, which
// counts as bare units each. It returns 0 for an absent value.
func decodeAmount(c cursor, unit string, bare float64, fix string) float64 {
	if c.node == nil || c.node.Kind == doctree.Text && c.node.Text == "" || c.held() {
		return 0
	}
	if c.node.Kind != doctree.Number && c.node.Kind != doctree.Text {
		c.wrong(fmt.Sprintf("this must be a number or text, not %s", c.node.Kind), fix)
		return 0
	}
	s := strings.TrimSpace(c.node.Text)
	m := quantity.FindStringSubmatch(s)
	if m == nil || m[2] == "" && strings.Contains(m[1], ".") || m[2] != "" && !strings.EqualFold(m[2], unit) {
		c.wrong(quote(s)+" is not an amount", fix)
		return 0
	}
	f, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		c.wrong(quote(s)+" is out of range", fix)
		return 0
	}
	if m[2] == "" {
		f *= bare
	}
	return f
}
