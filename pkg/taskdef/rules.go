package taskdef

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/distribution/reference"
	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
	"github.com/podtask/podtask/pkg/taskdef/suggest"
	"github.com/podtask/podtask/pkg/taskdef/unrendered"
)

// The ranges of the ECS model. Ten containers is the service quota
// for task definitions; Pods have a bound of their own.
const (
	maxContainers = 10
	minUnits      = 128
	maxUnits      = 196608
	minMemory     = 6 * mib
	maxTimeout    = 86400 * time.Second // ECS writes no bound outside Fargate (120 s); a day tells a slip from a wish
)

// finding is a problem or warning of a rule about a member of the task definition.
type finding struct {
	kind         findingKind
	path         []string // reference tokens, in the words of the definition
	message, fix string
}

type findingKind uint8

const (
	problem findingKind = iota // the task is not valid
	warning                    // something is lost
	need                       // something must be given before the task can run
)

// Check holds the task against every rule that Parse applies. It is for a Task
// that was decoded from a record rather than parsed. What a task still needs is
// a problem here. The error is nil or an *InvalidError whose problems point into
// the task definition the Task stands for, without lines.
func (t Task) Check() error {
	fs := slices.DeleteFunc(findingsOf(t, LogSettings{}), func(f finding) bool { return f.kind == warning })
	if len(fs) == 0 {
		return nil
	}
	e := &InvalidError{Name: cmp.Or(t.Family, "without a family")}
	for _, f := range fs {
		ptr := ""
		for _, step := range f.path {
			ptr += "/" + doctree.Escape(step)
		}
		e.Problems = append(e.Problems, Problem{Pointer: ptr, Message: f.message, Fix: f.fix})
	}
	return e
}

// rules gathers findings below one place.
type rules struct {
	found *[]finding
	path  []string
}

func findingsOf(t Task, logs LogSettings) []finding {
	var found []finding
	r := rules{found: &found}
	checkTask(r, t)
	checkVolumes(r, t)
	checkTaskExtensions(r, t)
	for i, c := range t.Containers {
		in := r.in("containerDefinitions").item(i)
		checkContainer(in, c)
		checkMemory(in, t, c)
		checkPorts(in, t, c)
		checkHealthCheck(in, c.HealthCheck)
		healthAction(in, c)
		checkDependencies(in, t, i)
		checkSecrets(in, c)
		checkEnvironmentFiles(in, c.EnvironmentFiles)
		checkMounts(in, t, c)
		checkLinux(in, t, c)
		checkNetwork(in, t, i)
		checkLogging(in, c.Log, logs)
		checkRestartPolicy(in, c.Restart)
		checkExtensions(in, t, c)
		checkProbes(in, c)
	}
	checkFireLens(r, t, logs)
	checkNames(r, t)
	checkSharedPorts(r, t)
	checkSharedNames(r, t)
	checkSharedSysctls(r, t)
	checkVolumeCircle(r, t)
	checkCycles(r, t)
	return found
}

func (r rules) in(key string) rules {
	return rules{r.found, append(slices.Clip(r.path), key)}
}

func (r rules) item(i int) rules { return r.in(strconv.Itoa(i)) }

// require reports the place unless ok.
func (r rules) require(ok bool, fix, format string, args ...any) {
	if !ok {
		r.find(problem, fix, format, args...)
	}
}

// warn reports what the place loses.
func (r rules) warn(fix, format string, args ...any) { r.find(warning, fix, format, args...) }

// need reports what the place lacks to run here.
func (r rules) need(fix, format string, args ...any) { r.find(need, fix, format, args...) }

func (r rules) find(kind findingKind, fix, format string, args ...any) {
	*r.found = append(*r.found, finding{kind, r.path, fmt.Sprintf(format, args...), fix})
}

// within reports a whole number, counted in unit, outside its range.
func (r rules) within(v, least, most int64, unit string) {
	r.require(least <= v && v <= most, "", "%s is out of range: it must be %d to %d%s",
		r.path[len(r.path)-1], least, most, unit)
}

// bounded is a pattern with a limit of the length, in bytes. As a part of the pattern the
// limit would make its compilation slow, which each start of the program pays for.
type bounded struct {
	pattern *lazy.Regexp
	most    int
}

// MatchString reports whether the pattern matches within the limit.
func (b bounded) MatchString(s string) bool { return len(s) <= b.most && b.pattern.MatchString(s) }

// nameText is namePattern with its limit.
const nameText = `^[A-Za-z0-9_-]{1,255}$`

var (
	namePattern     = bounded{lazy.MustCompile(`^[A-Za-z0-9_-]+$`), 255}
	portNamePattern = bounded{lazy.MustCompile(`^[a-z0-9_][a-z0-9_-]*$`), 64}
)

const nameRule = "use 1 to 255 letters, digits, hyphens and underscores"

func checkTask(r rules, t Task) {
	r.in("family").require(t.Family != "", "give the task definition a name", "family is missing")
	r.in("family").require(t.Family == "" || namePattern.MatchString(t.Family), nameRule, "family %s is not a valid name", quote(t.Family))
	r.word("networkMode", string(t.Network), "awsvpc", "bridge", "host", "none")
	r.optionalWord("pidMode", string(t.PIDMode), "host", "task")
	r.optionalWord("ipcMode", string(t.IPCMode), "host", "task", "none")
	if t.FaultInjection && (t.Network == NetworkHost || t.Network == NetworkNone) {
		r.in("enableFaultInjection").warn("use networkMode awsvpc or bridge", "no fault can be injected with networkMode %s: the task has no network of its own", t.Network)
	}
	units := t.CPU * unitsPerVCPU
	r.in("cpu").require(t.CPU == 0 || minUnits <= units && units <= maxUnits, "",
		"cpu of the task is out of range: it must be %d to %d cpu units (0.125 to 192 vCPU)", minUnits, maxUnits)
	r.in("memory").require(t.Memory == 0 || t.Memory >= minMemory, "", "memory of the task must be at least 6 MiB")

	defs := r.in("containerDefinitions")
	defs.require(len(t.Containers) > 0, "describe at least one container", "containerDefinitions is missing or empty")
	defs.require(len(t.Containers) == 0 || slices.ContainsFunc(t.Containers, func(c Container) bool { return c.Essential }),
		"leave out essential for the container that the task exists for", "no container is essential, so nothing would ever end the task")
}

// word reports a member that is not one of some words.
func (r rules) word(key, value string, words ...string) {
	fix := suggest.Question(value, words)
	if fix == "" {
		fix = "use " + strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
	}
	r.in(key).require(value != "", fix, "%s is missing", key)
	r.in(key).require(value == "" || slices.Contains(words, value), fix, "%s cannot be %s", key, quote(value))
}

// optionalWord is word for a member that may be left out.
func (r rules) optionalWord(key, value string, words ...string) {
	if value != "" {
		r.word(key, value, words...)
	}
}

func checkContainer(r rules, c Container) {
	r.in("name").require(c.Name != "", "give the container a name", "name is missing")
	r.in("name").require(c.Name == "" || namePattern.MatchString(c.Name), nameRule, "container name %s is not valid", quote(c.Name))
	checkImage(r, c.Image)
	r.in("workingDirectory").require(c.WorkingDirectory == "" || strings.HasPrefix(c.WorkingDirectory, "/"),
		"start it with /", "workingDirectory %s is not an absolute path", quote(c.WorkingDirectory))
	r.in("cpu").within(c.CPU, 0, maxUnits, " cpu units")
	r.in("startTimeout").require(0 <= c.StartTimeout && c.StartTimeout <= maxTimeout, "leave it out to wait without a limit",
		"startTimeout is out of range: it must be 0 to 86400 seconds")
	r.in("stopTimeout").require(time.Second <= c.StopTimeout && c.StopTimeout <= maxTimeout, "leave it out for 30 seconds",
		"stopTimeout is out of range: it must be 0 to 86400 seconds")
	checkLabels(r, c.Labels)
	seen := make(map[string]bool, len(c.Environment))
	for i, v := range c.Environment {
		complaint := envNameComplaint(v.Name)
		if seen[v.Name] {
			complaint = "the variable " + quote(v.Name) + " is set twice"
		}
		seen[v.Name] = true
		r.in("environment").item(i).in("name").require(complaint == "", "", "%s", complaint)
	}
}

func checkLabels(r rules, labels map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		in := r.in("dockerLabels").in(key)
		in.require(key != "", "", "a label has no name")
		for _, prefix := range []string{"podtask.", "com.amazonaws.ecs."} {
			in.require(!strings.HasPrefix(key, prefix), "rename it", "labels that start with %q are reserved: podtask sets them itself", prefix)
		}
	}
}

func checkImage(r rules, image string) {
	in := r.in("image")
	if image == "" {
		in.require(false, "name the image to run", "image is missing")
		return
	}
	name, _, _ := strings.Cut(image, "@")
	in.require(len(name) <= maxImage, "", "image has %d characters before its digest, more than %d", len(name), maxImage)
	if _, err := reference.ParseNormalizedNamed(image); err == nil || len(name) > maxImage {
		return
	}
	_, lower := reference.ParseNormalizedNamed(strings.ToLower(image))
	switch tag := unrendered.Tag(image); {
	case tag != "":
		in.require(false, unrendered.Fix, "image %s is not an image reference: %s is a tag of a template that was not rendered", quote(image), quote(tag))
	case strings.Contains(image, "://"):
		in.require(false, "write host/name:tag", "image %s is a URL, not an image reference", quote(image))
	case lower == nil:
		in.require(false, "write them in lower case", "image %s has upper-case letters in its name or digest, which no registry allows", quote(image))
	default:
		in.require(false, "write [host/]name[:tag][@digest]", "image %s is not an image reference", quote(image))
	}
}

func checkMemory(r rules, t Task, c Container) {
	r.in("memory").require(c.Memory == 0 || c.Memory >= minMemory, "", "memory must be at least 6 MiB")
	r.in("memoryReservation").require(c.MemoryReservation == 0 || c.MemoryReservation >= minMemory, "", "memoryReservation must be at least 6 MiB")
	r.in("memory").require(c.Memory == 0 || c.Memory >= c.MemoryReservation, "raise memory or lower memoryReservation",
		"memory (%d MiB) must be at least memoryReservation (%d MiB)", c.Memory/mib, c.MemoryReservation/mib)
	if t.Memory > 0 {
		const fix = "raise the memory of the task or lower that of the container"
		r.in("memory").require(c.Memory <= t.Memory, fix,
			"memory (%d MiB) is more than the whole task may use (%d MiB)", c.Memory/mib, t.Memory/mib)
		r.in("memoryReservation").require(c.MemoryReservation <= t.Memory, fix,
			"memoryReservation (%d MiB) is more than the whole task may use (%d MiB)", c.MemoryReservation/mib, t.Memory/mib)
	}
}

func checkHealthCheck(r rules, h *HealthCheck) {
	if h == nil {
		return
	}
	in := r.in("healthCheck")
	const fix = `write ["CMD", program, argument...] or ["CMD-SHELL", command]`
	command := in.in("command")
	switch {
	case len(h.Command) == 0:
		command.require(false, fix, "command is missing")
	case len(h.Command) > 1 && isJSONList(h.Command[1]):
		command.require(false, fix+" as separate texts", "%s is a list inside of a text, and no program has such a name", quote(h.Command[1]))
	case h.Command[0] == "CMD":
		command.require(len(h.Command) > 1 && h.Command[1] != "", fix, "CMD needs a program to run")
	case h.Command[0] == "CMD-SHELL":
		command.require(len(h.Command) == 2 && h.Command[1] != "", fix, "CMD-SHELL needs a command line")
	case isListInText(h.Command[0]):
		command.require(false, fix+" as separate texts", "%s is a list inside of a text, and no program has such a name", quote(h.Command[0]))
	case len(h.Command) == 1 && strings.ContainsAny(h.Command[0], " \t\n"):
		command.require(false, `put "CMD-SHELL" before it`, "the command of a health check is a list of words, and this is a command line")
	default:
		command.require(false, fix, "the command of a health check starts with CMD or CMD-SHELL")
	}
	in.in("interval").within(seconds(h.Interval), 5, 300, " seconds")
	in.in("timeout").within(seconds(h.Timeout), 2, 60, " seconds")
	in.in("retries").within(int64(h.Retries), 1, 10, "")
	in.in("startPeriod").within(seconds(h.StartPeriod), 0, 300, " seconds")
}

// healthAction checks what becomes of an unhealthy container.
func healthAction(r rules, c Container) {
	if c.HealthCheck == nil || c.HealthCheck.Action == "" {
		return
	}
	in := r.in("healthCheck").in(extensionMember).in("action")
	action := c.HealthCheck.Action
	in.require(action == ActionRestart, "use restart, or leave it out", "action cannot be %s", quote(string(action)))
	if action == ActionRestart && c.Restart == nil {
		in.warn("give it a restartPolicy", "an unhealthy container is stopped and not started again, because it has no restartPolicy")
	}
}

// seconds returns -1 for what is not a whole number of seconds.
func seconds(d time.Duration) int64 {
	if d%time.Second != 0 {
		return -1
	}
	return int64(d / time.Second)
}

func checkDependencies(r rules, t Task, i int) {
	seen := make(map[int]bool)
	for j, d := range t.Containers[i].DependsOn {
		in := r.in("dependsOn").item(j)
		in.word("condition", string(d.Condition), string(Start), string(Complete), string(Success), string(Healthy))
		name := in.in("containerName")
		if d.Container < 0 || d.Container >= len(t.Containers) {
			name.require(false, "name the container to wait for", "containerName is missing")
			continue
		}
		on := t.Containers[d.Container]
		name.require(d.Container != i, "remove it", "container %s waits for itself", quote(on.Name))
		name.require(!seen[d.Container], "keep one of them", "there are two conditions on container %s", quote(on.Name))
		seen[d.Container] = true
		switch d.Condition {
		case Complete, Success:
			in.in("condition").require(!on.Essential, fmt.Sprintf(`set "essential": false for %s, or wait for START or HEALTHY`, quote(on.Name)),
				"container %s is essential, so the task stops when it ends and %s can never be used", quote(on.Name), d.Condition)
		case Healthy:
			in.in("condition").require(on.HasHealth() || on.Extensions.ImageHealthCheck, "give it a healthCheck, or wait for START",
				"container %s has no healthCheck, so it never becomes HEALTHY", quote(on.Name))
		}
	}
}

func checkNames(r rules, t Task) {
	first := make(map[string]int)
	for i, c := range t.Containers {
		if j, twice := first[c.Name]; twice && c.Name != "" {
			r.in("containerDefinitions").item(i).in("name").require(false, "rename one of them", "container %d is named %s too", j, quote(c.Name))
			continue
		}
		first[c.Name] = i
	}
}

func checkCycles(r rules, t Task) {
	for _, cycle := range cyclesOf(t) {
		var path strings.Builder
		for _, i := range cycle {
			path.WriteString(printable(t.Containers[i].Name) + " -> ")
		}
		path.WriteString(printable(t.Containers[cycle[0]].Name))
		j := slices.IndexFunc(t.Containers[cycle[0]].DependsOn, func(d Dependency) bool { return d.Container == cycle[1] })
		r.in("containerDefinitions").item(cycle[0]).in("dependsOn").item(j).in("containerName").require(false,
			"remove one of these dependencies", "containers wait for each other in a circle: %s", path.String())
	}
}
