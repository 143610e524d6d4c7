package quadlet

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docker/go-units"

	"github.com/podtask/podtask/internal/define/convert"
	"github.com/podtask/podtask/internal/unitfile/taskunit"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/unrendered"
)

// Convert converts the .container files of one pod, and its .pod file if there is
// one, to one task. Task is what the unit and the task are to be called. Files of
// volumes give their volumes' names.
//
// Requires=, BindsTo= and Wants= between the containers become conditions: HEALTHY
// of one with Notify=healthy, else START. All containers are essential, and what
// one publishes the task publishes. Specifiers, $$ and variables of the service are
// replaced by what the user's systemd would put in their place.
func Convert(task string, files []taskunit.File, user Manager) (convert.Result, error) {
	q := conversion{containers: map[string]int{}, ready: map[string]string{}, volumes: map[string]string{}, images: map[string]string{}, pods: map[string]bool{}, declared: map[string]convert.DockerVolume{}, user: user}
	for _, f := range files {
		switch path.Ext(f.Path) {
		case ".container":
			q.announce(f)
		case ".volume":
			q.declare(f)
		case ".image":
			q.declareImage(f)
		case ".pod":
			q.pods[path.Base(f.Path)] = true
		}
	}
	for _, f := range files {
		q.systemd = newExpansion(user, f)
		q.reserve(f)
	}
	if len(q.Def.Containers) == 0 {
		return convert.Result{}, errors.New("there is no .container file to convert")
	}
	if err := readable(files); err != nil {
		return convert.Result{}, err
	}
	for _, f := range files {
		q.Name, q.Dir = path.Base(f.Path), path.Dir(f.Path)
		q.systemd = newExpansion(user, f)
		switch path.Ext(f.Path) {
		case ".container":
			q.container(f)
		case ".pod":
			q.pod(f)
		case ".volume", ".image": // declared
		default:
			q.Lose(1, "the file: only .pod, .container, .volume and .image files are converted")
		}
	}
	if err := errors.Join(q.refused...); err != nil {
		return convert.Result{}, err
	}
	q.Share()
	q.notify()
	if len(q.Unit.Install) == 0 {
		q.Unit.Install = []string{"WantedBy=default.target"}
	}
	r, err := q.Result(task)
	if err != nil {
		return convert.Result{}, err
	}
	if _, _, err := taskdef.Parse(task+".json", r.Definition); err != nil {
		return convert.Result{}, q.Invalid(path.Base(files[len(files)-1].Path), err)
	}
	return r, nil
}

// notify has the unit wait for health only where a container says so, as in Quadlet; a .task unit does without a word.
func (q *conversion) notify() {
	checked := slices.ContainsFunc(q.Def.Containers, func(c convert.Container) bool { return c.HealthCheck != nil })
	for _, condition := range q.ready {
		checked = checked && condition != "HEALTHY"
	}
	if checked && !slices.Contains(q.Unit.Service, "Type=oneshot") { // which waits for the end
		q.Unit.Task = append(q.Unit.Task, "Notify=running")
	}
}

// readable returns an error for lines that cannot be read, and for values that are tags of a template.
func readable(files []taskunit.File) error {
	var errs []error
	for _, f := range files {
		for _, p := range f.Problems() {
			p.Path = path.Base(p.Path)
			errs = append(errs, errors.New(p.String()))
		}
		for _, a := range f.Assignments() {
			if tag := unrendered.Tag(a.Value); tag != "" && !slices.Contains(commandKeys, a.Key) {
				errs = append(errs, fmt.Errorf("%s:%d: %s=: %q is a tag of a template that was not rendered: %s", path.Base(f.Path), a.Line, a.Key, tag, unrendered.Fix))
			}
		}
	}
	return errors.Join(errs...)
}

// commandKeys hold what a program reads, which may have templates of its own.
var commandKeys = []string{"Exec", "Entrypoint", "Environment", "Label", "Annotation", "HealthCmd", "HealthStartupCmd", "PodmanArgs", "LogOpt", "Description"}

type conversion struct {
	convert.Builder
	user Manager
	// systemd replaces specifiers and variables of the file that is converted.
	systemd expansion
	// containers are the places of the files in the definition, ready the condition
	// that systemd's word "active" amounts to.
	containers map[string]int
	ready      map[string]string
	// volumes are the names, in Podman, of the volumes of files, and images those of the images.
	volumes, images map[string]string
	// declared are the volumes of files, by the name of the file.
	declared map[string]convert.DockerVolume
	// pods are the names of the .pod files.
	pods map[string]bool
	// refused are errors about lines that cannot be converted, each with its place.
	refused []error
}

// announce makes the container of a file, so that others can name it.
func (q *conversion) announce(f taskunit.File) {
	file := path.Base(f.Path)
	ctr := convert.Container{Name: strings.TrimSuffix(file, ".container"), Essential: true}
	q.ready[file] = "START"
	names := newExpansion(q.user, f)
	for _, a := range f.Assignments() {
		switch {
		case a.Section == "Container" && a.Key == "ContainerName":
			if name, unknown := names.specified(unquoted(a.Value)); len(unknown) == 0 && name != "" {
				ctr.Name = name
			}
		case a.Section == "Container" && a.Key == "Notify" && a.Value == "healthy":
			q.ready[file] = "HEALTHY"
		case a.Section == "Service" && a.Key == "Type" && a.Value == "oneshot":
			q.ready[file] = "SUCCESS"
		}
	}
	q.containers[file] = len(q.Def.Containers)
	q.Def.Containers = append(q.Def.Containers, ctr)
}

// podmanCheckTimeout is the time, in seconds, that Podman gives a health check of which the file says none; the model has 5.
const podmanCheckTimeout = 30

func (q *conversion) container(f taskunit.File) {
	ctr := &q.Def.Containers[q.containers[path.Base(f.Path)]]
	check := &convert.HealthCheck{Timeout: podmanCheckTimeout}
	for _, a := range effective(f.Assignments()) {
		q.Name = placeName(f, a)
		switch a.Section {
		case "Container":
			if !q.plain(ctr, a) && !q.kernel(ctr, a) && !q.reachable(ctr, a) && !q.managed(ctr, a) && !q.checked(check, a) {
				q.noCounterpart(a)
			}
		case "Unit":
			q.dependency(ctr, a)
		case "Service":
			if !q.runsOnce(ctr, f, a) {
				q.service(a)
			}
		case "Install":
			q.install(a)
		default:
			q.otherSection(a)
		}
	}
	q.Name = path.Base(f.Path)
	if strings.HasPrefix(ctr.User, ":") {
		q.refused = append(q.refused, fmt.Errorf("%s: Group= without User=: Quadlet refuses it: write User= too", q.Name))
	}
	q.writable(ctr, f)
	q.onFailure(ctr, f, check)
	switch {
	case len(check.Command) > 0:
		check.Clamp(func(what string) { q.Lose(1, "health check: %s", what) })
		ctr.HealthCheck = check
	case check.Interval+check.Retries+check.StartPeriod > 0 || check.Timeout != podmanCheckTimeout:
		q.Lose(1, "health check: without HealthCmd= the check is the image's, with its own times")
		fallthrough
	case q.ready[path.Base(f.Path)] == "HEALTHY":
		ctr.AddExtensions().ImageHealthCheck = true
	}
}

// runsOnce converts what [Service] says of one container among several that runs to its end: Type=oneshot, for which others wait. It
// reports whether nothing is left to say of the assignment.
func (q *conversion) runsOnce(ctr *convert.Container, f taskunit.File, a taskunit.Assignment) bool {
	if len(q.Def.Containers) == 1 || q.ready[path.Base(f.Path)] != "SUCCESS" {
		return false
	}
	ctr.Essential = false
	return a.Key == "Type" || a.Key == "RemainAfterExit" || a.Key == "TimeoutStartSec" && a.Value == "infinity"
}

// writable gives a read-only container the directories that Podman lets it write to, unless the file has none of them or
// mounts something there: podman-run(1), --read-only-tmpfs.
func (q *conversion) writable(ctr *convert.Container, f taskunit.File) {
	if !ctr.ReadOnly {
		return
	}
	for _, a := range effective(f.Assignments()) {
		if a.Section == "Container" && a.Key == "ReadOnlyTmpfs" && !isTrue(a.Value) {
			return
		}
	}
	line := 1
	for _, a := range f.Assignments() {
		if a.Section == "Container" && a.Key == "ReadOnly" {
			line = a.Line
		}
	}
	q.Lose(line, "ReadOnly=: the /run, /tmp and /var/tmp that Podman lets it write to have %d MiB each: write Tmpfs=PATH:size=SIZE for another size", convert.DefaultTmpfs)
	for _, dir := range []string{"/run", "/tmp", "/var/tmp"} {
		if !slices.ContainsFunc(ctr.MountPoints, func(m convert.MountPoint) bool { return m.Path == dir }) && !slices.ContainsFunc(ctr.AddLinux().Tmpfs, func(t convert.Tmpfs) bool { return t.Path == dir }) {
			ctr.AddLinux().Tmpfs = append(ctr.AddLinux().Tmpfs, convert.Tmpfs{Path: dir, Size: convert.DefaultTmpfs})
		}
	}
}

// placeName returns the name for messages of the file that has an assignment; that of a drop-in includes its directory.
func placeName(f taskunit.File, a taskunit.Assignment) string {
	if a.Path == f.Path {
		return path.Base(f.Path)
	}
	return path.Join(path.Base(path.Dir(a.Path)), path.Base(a.Path))
}

// effective leaves out assignments that a later empty one takes back, and that one.
func effective(all []taskunit.Assignment) []taskunit.Assignment {
	var out []taskunit.Assignment
	for _, a := range all {
		if a.Value == "" && a.Section == "Container" && a.Key == "Entrypoint" {
			out = append(out, a) // no entry point, and so no command of the image
			continue
		}
		if a.Value == "" {
			out = slices.DeleteFunc(out, func(before taskunit.Assignment) bool { return before.Section == a.Section && before.Key == a.Key })
			continue
		}
		out = append(out, a)
	}
	return out
}

func (q *conversion) pod(f taskunit.File) {
	first := &q.Def.Containers[0]
	for _, a := range effective(f.Assignments()) {
		q.Name = placeName(f, a)
		switch {
		case a.Section == "Pod" && a.Key == "PublishPort":
			q.publish(first, a)
		case a.Section == "Pod" && a.Key == "Volume":
			for i := range q.Def.Containers {
				q.volume(&q.Def.Containers[i], a)
			}
		case a.Section == "Pod" && a.Key == "PodName":
			q.Assign(&q.Unit.Task, a.Line, "TaskName", q.unitText(a.Value))
		case a.Section == "Pod" && (a.Key == "AddHost" || a.Key == "HostName" || a.Key == "DNS" || a.Key == "DNSSearch"):
			for i := range q.Def.Containers {
				q.reachable(&q.Def.Containers[i], a)
			}
		case a.Section == "Pod" && a.Key == "Network":
			q.network(a)
		case a.Section == "Pod" && a.Key == "PodmanArgs":
			var limits convert.Container
			q.arguments(&limits, a)
			if limits.Memory > 0 {
				q.Def.Memory = strconv.FormatInt(limits.Memory, 10)
			}
			if limits.Extensions != nil && limits.Extensions.CPULimit > 0 {
				q.Def.CPU = strconv.Itoa(int(limits.Extensions.CPULimit * 1024))
			}
		case a.Section == "Pod" && a.Key == "StopTimeout":
			if n := q.number(a); n > 0 {
				q.Assign(&q.Unit.Task, a.Line, a.Key, strconv.Itoa(n))
			} else if a.Value == "0" {
				q.Lose(a.Line, "[Pod] StopTimeout=0: a task waits at least 1 second: `podtask stop --time 0` kills at once")
			}
		case a.Section == "Pod":
			q.noCounterpart(a)
		case a.Section == "Unit":
			q.Assign(&q.Unit.Unit, a.Line, a.Key, q.unitText(a.Value))
		case a.Section == "Service":
			q.service(a)
		case a.Section == "Install":
			q.install(a)
		default:
			q.otherSection(a)
		}
	}
}

// serviceCopied are keys of [Service] that a .task unit has too: what is done before and after, and when it is started again.
var serviceCopied = strings.Fields("ExecCondition ExecStartPre ExecStartPost ExecStopPost RestartForceExitStatus RestartMaxDelaySec RestartPreventExitStatus RestartSteps SuccessExitStatus")

// plain converts a key of [Container] about the program. It reports whether it knows it.
func (q *conversion) plain(ctr *convert.Container, a taskunit.Assignment) bool {
	switch a.Key {
	case "Image":
		ctr.Image = q.image(a)
	case "Exec":
		ctr.Command = q.words(a)
	case "Entrypoint":
		ctr.EntryPoint = q.entrypoint(a)
	case "Environment":
		for _, w := range q.words(a) {
			name, value, given := strings.Cut(w, "=")
			if !given {
				q.Lose(a.Line, "Environment=%s: a container gets no variables of the host: write Environment=%s=VALUE", name, name)
				continue
			}
			ctr.Environment = slices.DeleteFunc(ctr.Environment, func(p convert.Pair) bool { return p.Name == name })
			ctr.Environment = append(ctr.Environment, convert.Pair{Name: name, Value: value})
		}
	case "PublishPort":
		q.publish(ctr, a)
	case "Volume":
		q.volume(ctr, a)
	case "User":
		_, group, _ := strings.Cut(ctr.User, ":")
		ctr.User = q.text(a)
		if group != "" {
			ctr.User += ":" + group
		}
	case "Group":
		user, _, _ := strings.Cut(ctr.User, ":")
		ctr.User = user + ":" + q.text(a)
	case "WorkingDir":
		ctr.WorkingDirectory = q.text(a)
	case "ReadOnly":
		ctr.ReadOnly = isTrue(a.Value)
	case "ReadOnlyTmpfs": // writable says what becomes of it
	case "Memory":
		if n, err := units.RAMInBytes(a.Value); err == nil && n > 0 {
			ctr.Memory = (n + units.MiB - 1) / units.MiB
		} else {
			q.Lose(a.Line, "Memory=%s is not a size", a.Value)
		}
	case "Label":
		addLabels(ctr, q.words(a))
		q.AutoUpdate(ctr, a.Line)
	case "Notify":
		if isTrue(a.Value) {
			q.Lose(a.Line, "Notify=%s: podtask does not pass sd_notify to containers: give the container a health check, with which others wait for it", a.Value)
		}
	case "ContainerName": // dealt with
	case "Pod":
		if !q.pods[a.Value] {
			q.Lose(a.Line, "Pod=%s: the file is not among those that are imported: import the .pod file, with its containers", a.Value)
		}
	default:
		return q.stop(ctr, a)
	}
	return true
}

// stop converts a key of [Container] about the end of the program. It reports whether it knows it.
func (q *conversion) stop(ctr *convert.Container, a taskunit.Assignment) bool {
	switch a.Key {
	case "StopTimeout":
		if ctr.StopTimeout = q.number(a); a.Value == "0" {
			q.Lose(a.Line, "StopTimeout=0: a task waits at least 1 second: `podtask stop --time 0` kills at once")
			ctr.StopTimeout = 1
		}
	case "StopSignal":
		if !ctr.StopWith(q.text(a)) {
			q.Lose(a.Line, "StopSignal=%s: there is no such signal", a.Value)
		}
	default:
		return false
	}
	return true
}

// image is the name of an image, which may be that of a file: Quadlet pulls the image of a .image file.
func (q *conversion) image(a taskunit.Assignment) string {
	text := q.text(a)
	named := q.images[text]
	switch {
	case strings.HasSuffix(text, ".build"):
		q.refused = append(q.refused, fmt.Errorf("%s:%d: Image=%s: podtask builds no images: build it with `podman build -t NAME`, and write Image=NAME", q.Name, a.Line, text))
	case strings.HasSuffix(text, ".image") && named == "":
		q.refused = append(q.refused, fmt.Errorf("%s:%d: Image=%s: there is no such file beside it with Image=: write the name of the image", q.Name, a.Line, text))
	}
	return cmp.Or(named, text)
}

// declareImage notes the image that a .image file pulls.
func (q *conversion) declareImage(f taskunit.File) {
	q.Name, q.Dir, q.systemd = path.Base(f.Path), path.Dir(f.Path), newExpansion(q.user, f)
	for _, a := range effective(f.Assignments()) {
		switch {
		case a.Section != "Image":
		case a.Key == "Image":
			q.images[q.Name] = q.text(a)
		default:
			q.Lose(a.Line, "[Image] %s=%s: %s", a.Key, a.Value, quadletReason("Image", a.Key))
		}
	}
}

// entrypoint reads Entrypoint= as podman run reads --entrypoint: a list in JSON, else one word.
func (q *conversion) entrypoint(a taskunit.Assignment) []string {
	text := q.text(a)
	var list []string
	if json.Unmarshal([]byte(text), &list) == nil {
		return list
	}
	return []string{text}
}

// addLabels adds labels of the form NAME=VALUE.
func addLabels(ctr *convert.Container, words []string) {
	if ctr.Labels == nil {
		ctr.Labels = map[string]string{}
	}
	for _, w := range words {
		name, value, _ := strings.Cut(w, "=")
		ctr.Labels[name] = value
	}
}

// checked converts the keys of a health check.
func (q *conversion) checked(h *convert.HealthCheck, a taskunit.Assignment) bool {
	switch a.Key {
	case "HealthCmd":
		h.Command = healthCommand(q.text(a))
	case "HealthInterval":
		h.Interval = q.seconds(a)
	case "HealthTimeout":
		h.Timeout = q.seconds(a)
	case "HealthRetries":
		h.Retries = q.number(a)
	case "HealthStartPeriod":
		h.StartPeriod = q.seconds(a)
	case "HealthOnFailure": // onFailure says what becomes of it
	default:
		return false
	}
	return true
}

// healthCommand reads HealthCmd= as podman run reads --health-cmd: a command line for a
// shell, unless it is a list in JSON or begins with CMD. It is nil for "none".
func healthCommand(text string) []string {
	var list []string
	if json.Unmarshal([]byte(text), &list) == nil && len(list) == 1 {
		text = list[0]
	} else if len(list) > 1 {
		if slices.Contains([]string{"CMD", "CMD-SHELL"}, strings.ToUpper(list[0])) {
			return list
		}
		return append([]string{"CMD"}, list...)
	}
	if words := strings.Fields(text); len(words) > 0 {
		switch strings.ToUpper(words[0]) {
		case "CMD":
			return append([]string{"CMD"}, words[1:]...)
		case "NONE":
			return nil
		}
	}
	return []string{"CMD-SHELL", text}
}

// dependency converts what [Unit] says of other containers of the task; the rest
// stays a matter of the unit.
func (q *conversion) dependency(ctr *convert.Container, a taskunit.Assignment) {
	alone := len(q.Def.Containers) == 1
	switch {
	case slices.Contains([]string{"After", "Requires", "BindsTo", "Wants", "PartOf"}, a.Key):
	case alone: // the unit is that of the container
		q.Assign(&q.Unit.Unit, a.Line, a.Key, q.unitText(a.Value))
		return
	case a.Key == "Description": // of one container among several
		return
	default:
		q.Lose(a.Line, "[Unit] %s=: it would be for all containers", a.Key)
		return
	}
	for _, name := range strings.Fields(a.Value) {
		i, ours := q.containers[name]
		if base, ok := strings.CutSuffix(name, ".service"); ok && !ours {
			if i, ours = q.containers[base+".container"]; ours {
				name = base + ".container"
			}
		}
		switch {
		case !ours && !strings.HasSuffix(name, ".pod"):
			q.Assign(&q.Unit.Unit, a.Line, a.Key, name)
		case ours && a.Key != "PartOf":
			d := convert.Dependency{Container: q.Def.Containers[i].Name, Condition: q.ready[name]}
			if d.Condition == "SUCCESS" && a.Key == "Wants" { // which does not mind a failure
				d.Condition = "COMPLETE"
			}
			if a.Key == "After" && slices.ContainsFunc(ctr.DependsOn, func(has convert.Dependency) bool { return has.Container == d.Container }) {
				continue
			}
			if !slices.Contains(ctr.DependsOn, d) {
				ctr.DependsOn = append(ctr.DependsOn, d)
			}
		}
	}
}

func (q *conversion) service(a taskunit.Assignment) {
	switch a.Key {
	case "Restart", "RestartSec", "TimeoutStartSec":
		q.Assign(&q.Unit.Service, a.Line, a.Key, a.Value)
	case "Environment": // of Podman's process: newExpansion has it
	case "Type":
		switch a.Value {
		case "oneshot":
			q.Assign(&q.Unit.Service, a.Line, a.Key, a.Value)
		case "notify": // as it is anyway
		default:
			q.Lose(a.Line, "[Service] Type=%s: a .task unit is of type notify or oneshot", a.Value)
		}
	default:
		if slices.Contains(serviceCopied, a.Key) {
			q.Assign(&q.Unit.Service, a.Line, a.Key, q.unitText(a.Value))
			return
		}
		q.Lose(a.Line, "[Service] %s=: %s", a.Key, quadletReason("Service", a.Key))
	}
}

func (q *conversion) install(a taskunit.Assignment) {
	targets := strings.Fields(a.Value)
	if !slices.ContainsFunc(targets, func(t string) bool { return !taskunit.OfSystemOnly(t) }) && len(targets) > 0 {
		q.Lose(a.Line, "%s=%s: the systemd of a user has no such target: default.target takes its place", a.Key, a.Value)
		a.Value = "default.target"
	}
	q.Assign(&q.Unit.Install, a.Line, a.Key, a.Value)
}

// unitPath makes a path of a unit in dir absolute. The specifiers in it stay; a % in the
// directory of the unit is not one.
func unitPath(dir, p string) string {
	if path.IsAbs(p) || strings.HasPrefix(p, "%") {
		return p
	}
	return path.Join(strings.ReplaceAll(dir, "%", "%%"), p)
}

func (q *conversion) publish(ctr *convert.Container, a taskunit.Assignment) {
	ports, ok := parsePorts(q.text(a))
	if !ok {
		q.Lose(a.Line, "PublishPort=%s: it is [[IP:]HOST:]CONTAINER, and ranges have the same number of ports, at most %d", a.Value, maxPublished)
		return
	}
	ctr.PortMappings = append(ctr.PortMappings, ports...)
}

func (q *conversion) number(a taskunit.Assignment) int {
	n, err := strconv.Atoi(a.Value)
	if err != nil || n < 0 {
		q.Lose(a.Line, "%s=%s is not a number", a.Key, a.Value)
	}
	return max(n, 0)
}

// seconds reads a time such as 30 or 1m30s and rounds it up.
func (q *conversion) seconds(a taskunit.Assignment) int {
	if n, err := strconv.Atoi(a.Value); err == nil && n >= 0 {
		return n
	}
	d, err := time.ParseDuration(a.Value)
	if err != nil || d < 0 {
		q.Lose(a.Line, "%s=%s is not a duration", a.Key, a.Value)
		return 0
	}
	return int(math.Ceil(d.Seconds()))
}

func isTrue(v string) bool {
	return slices.Contains([]string{"1", "yes", "true", "on"}, strings.ToLower(v))
}

// parsePorts reads [[IP:]HOST:]CONTAINER[/PROTOCOL]. HOST and CONTAINER may be ranges of the same number of ports.
func parsePorts(text string) (ports []convert.Port, ok bool) {
	rest, protocol, _ := strings.Cut(text, "/")
	parts := strings.Split(rest, ":")
	inside, many, ok := portRange(parts[len(parts)-1])
	outside := 0
	if len(parts) > 1 && parts[len(parts)-2] != "" && ok {
		var n int
		outside, n, ok = portRange(parts[len(parts)-2])
		ok = ok && n == many
	}
	var extra *convert.PortExtra
	if len(parts) > 2 {
		extra = &convert.PortExtra{HostIP: strings.Trim(strings.Join(parts[:len(parts)-2], ":"), "[]")}
	}
	if !ok {
		return nil, false
	}
	for i := range many {
		p := convert.Port{ContainerPort: inside + i, Protocol: protocol, Extra: extra}
		if outside > 0 {
			p.HostPort = outside + i
		}
		ports = append(ports, p)
	}
	return ports, true
}

// maxPublished limits the ports of a range: each becomes a port mapping of its own.
const maxPublished = 100

// portRange reads PORT or FIRST-LAST. n is how many ports it has.
func portRange(text string) (first, n int, ok bool) {
	from, to, isRange := strings.Cut(text, "-")
	first, err := strconv.Atoi(from)
	if err != nil || !isRange {
		return first, 1, err == nil
	}
	last, err := strconv.Atoi(to)
	return first, last - first + 1, err == nil && last >= first && last-first < maxPublished
}
