package short

import (
	"cmp"
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/shlex"

	"github.com/podtask/podtask/internal/define/adjust"
	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
	"github.com/podtask/podtask/pkg/taskdef/suggest"
)

// Key is a key of a container or of a task.
type Key struct {
	Name string
	// Kind is the kind of its values.
	Kind Kind
	// What describes it in one line, and Member is its member of an ECS task definition.
	What, Member string

	instead []string // keys of other formats that mean it
	put     func(r *reader, to *doctree.Node, f doctree.Field)
}

// also has the words of Compose for keys that stack files have by a name of their own.
var also = map[string]string{"environment": "env", "secrets": "secret", "depends_on": "after"}

// Canonical returns the word of stack files and short definitions for a key.
func Canonical(key string) string { return cmp.Or(also[key], key) }

// Also returns another word for the key; empty for none.
func (k Key) Also() string {
	for word, name := range also {
		if name == k.Name {
			return word
		}
	}
	return ""
}

// Kind is a kind of values.
type Kind uint8

// The kinds of values.
const (
	Text Kind = iota
	Number
	Flag
	Size     // bytes, or as in 512m
	Duration // seconds, or as in 1m30s
	Words    // a command: a list, or a text as a shell splits it
	List     // a text or a list of texts
	Pairs    // an object of texts, or a list of NAME=VALUE
	Order    // names, or an object of names and conditions
	Health   // a URL of localhost, a command line, a list of words, or an object
	Containers
)

// TaskKeys are the keys of a definition.
var TaskKeys = []Key{
	{Name: "$schema", Kind: Text, What: "the schema of the file, for editors"},
	{Name: "name", Kind: Text, What: "the name of the task; without it, that of the first container", Member: "family", instead: []string{"family"}, put: func(r *reader, _ *doctree.Node, f doctree.Field) { r.scalar(f) }},
	{Name: "memory", Kind: Size, What: "the most memory of all containers together, such as 512m", Member: "memory", instead: []string{"mem_limit"}, put: size("memory")},
	{Name: "cpus", Kind: Number, What: "the most processors of all containers together, such as 1.5", Member: "cpu", instead: []string{"cpu"}, put: taskCPUs},
	{Name: "timeout", Kind: Duration, What: "the time after which the task is stopped, such as 10m", Member: "x-podtask.timeout", put: in("x-podtask", seconds("timeout"))},
	{Name: "containers", Kind: Containers, What: "containers by their names", Member: "containerDefinitions", instead: []string{"services", "members", "container"}},
}

// ContainerKeys are the keys of a container.
var ContainerKeys = []Key{
	{Name: "image", Kind: Text, What: "the image, with its registry", Member: "image", put: as("image")},
	{Name: "command", Kind: Words, What: "the words in place of the command of the image", Member: "command", instead: []string{"args"}, put: words("command")},
	{Name: "entrypoint", Kind: Words, What: "the words in place of the entry point of the image", Member: "entryPoint", put: words("entryPoint")},
	{Name: "env", Kind: Pairs, What: "variables", Member: "environment", put: environment},
	{Name: "env_file", Kind: List, What: "files of variables, a NAME=VALUE in each line", Member: "environmentFiles", instead: []string{"environmentFiles", "env-file"}, put: envFiles},
	{Name: "secret", Kind: List, What: "secrets of Podman: NAME[,type=env|mount][,target=...]; a file in /run/secrets unless the type is env", Member: "secrets, x-podtask.secretFiles", put: secrets},
	{Name: "ports", Kind: List, What: "ports of the host that lead to the container: [[IP:]HOST:]CONTAINER[/udp]; without HOST, a free one", Member: "portMappings", instead: []string{"portMappings", "publish", "expose"}, put: ports},
	{Name: "volumes", Kind: List, What: "what is mounted: NAME:PATH for a volume TASK_NAME of Podman, podman:VOLUME:PATH for one that is there, ./DIRECTORY:PATH for a path of the host; with :ro to read only", Member: "mountPoints, volumes", instead: []string{"mountPoints", "volume", "mounts"}, put: volumes},
	{Name: "healthcheck", Kind: Health, What: "when the container is healthy: a URL of localhost, a command line, a list of words, or an object with test", Member: "healthCheck, x-podtask.httpHealthCheck", put: health},
	{Name: "after", Kind: Order, What: "what it waits for, at the start: names, or names with started, healthy or completed; without a condition, a job has to be completed, and a container with a healthcheck healthy", Member: "dependsOn", instead: []string{"dependsOn", "depends-on"}},
	{Name: "job", Kind: Flag, What: "it runs to its end, and has to succeed where another container waits for it", Member: "essential", put: job},
	{Name: "essential", Kind: Flag, What: "false: the task goes on when it ends", Member: "essential", put: as("essential")},
	{Name: "restart", Kind: Text, What: "no, always, on-failure[:TIMES] or unless-stopped", Member: "restartPolicy", instead: []string{"restartPolicy"}, put: restart},
	{Name: "memory", Kind: Size, What: "the most memory of the container, such as 256m", Member: "memory", instead: []string{"mem_limit"}, put: size("memory")},
	{Name: "cpus", Kind: Number, What: "the most processors of the container, such as 0.5", Member: "x-podtask.cpuLimit", instead: []string{"cpu"}, put: in("x-podtask", as("cpuLimit"))},
	{Name: "user", Kind: Text, What: "the user, or user:group", Member: "user", put: as("user")},
	{Name: "working_dir", Kind: Text, What: "the directory of the program", Member: "workingDirectory", instead: []string{"workingDirectory", "workdir"}, put: as("workingDirectory")},
	{Name: "read_only", Kind: Flag, What: "nothing can be written but to volumes", Member: "readonlyRootFilesystem", instead: []string{"readonlyRootFilesystem"}, put: as("readonlyRootFilesystem")},
	{Name: "init", Kind: Flag, What: "a small init process reaps what the program leaves", Member: "linuxParameters.initProcessEnabled", put: in("linuxParameters", as("initProcessEnabled"))},
	{Name: "labels", Kind: Pairs, What: "labels of the container", Member: "dockerLabels", instead: []string{"dockerLabels"}, put: labels},
	{Name: "stop_grace_period", Kind: Duration, What: "the time from the request to stop to SIGKILL, 30s without it", Member: "stopTimeout", instead: []string{"stopTimeout", "stop_timeout", "stop-timeout"}, put: seconds("stopTimeout")},
	{Name: "stop_signal", Kind: Text, What: "the signal that asks it to stop, such as SIGQUIT", Member: "x-podtask.stopSignal", put: in("x-podtask", as("stopSignal"))},
}

// HealthKeys are the keys of a health check.
var HealthKeys = []Key{
	{Name: "test", Kind: Words, What: "the command: a command line for the shell, or a list of words", Member: "healthCheck.command", instead: []string{"command", "cmd"}, put: func(r *reader, to *doctree.Node, f doctree.Field) { r.test(to, f.Value) }},
	{Name: "interval", Kind: Duration, What: "the time between two checks, 5s to 5m, 30s without it", Member: "healthCheck.interval", put: seconds("interval")},
	{Name: "timeout", Kind: Duration, What: "the time that a check may take, 2s to 1m, 5s without it", Member: "healthCheck.timeout", put: seconds("timeout")},
	{Name: "retries", Kind: Number, What: "how many checks in a row have to fail, 1 to 10, 3 without it", Member: "healthCheck.retries", put: as("retries")},
	{Name: "start_period", Kind: Duration, What: "the time after the start in which failures do not count", Member: "healthCheck.startPeriod", instead: []string{"startPeriod"}, put: seconds("startPeriod")},
}

// Conditions lists the words for a dependency.
var Conditions = []string{"started", "healthy", "completed"}

// scalar reports whether the value of a key is a text, a number or true or false.
func (r *reader) scalar(f doctree.Field) bool {
	if f.Value.IsScalar() {
		return true
	}
	r.wrong(f.Value, f.Key+" is a text, not "+f.Value.Kind.String(), "")
	return false
}

// as takes a value over as it is: the rules of task definitions judge it.
func as(member string) func(*reader, *doctree.Node, doctree.Field) {
	return func(r *reader, to *doctree.Node, f doctree.Field) {
		if r.scalar(f) {
			r.set(to, member, f.Value, f.Value)
		}
	}
}

// in makes a member of an object of the container or task.
func in(parent string, put func(*reader, *doctree.Node, doctree.Field)) func(*reader, *doctree.Node, doctree.Field) {
	return func(r *reader, to *doctree.Node, f doctree.Field) { put(r, r.within(to, parent, f.Value), f) }
}

func size(member string) func(*reader, *doctree.Node, doctree.Field) {
	return func(r *reader, to *doctree.Node, f doctree.Field) {
		if !r.scalar(f) {
			return
		}
		const mib = 1 << 20
		n, err := adjust.ParseSize(f.Value.Text)
		switch {
		case err != nil:
			r.wrong(f.Value, f.Key+": "+err.Error(), "")
		case n > 0 && n < mib:
			r.wrong(f.Value, fmt.Sprintf("%s: %s is %d bytes", f.Key, f.Value.Text, n), "write a unit, as in 512m")
		default:
			r.set(to, member, f.Value, number((n+mib-1)/mib))
		}
	}
}

func taskCPUs(r *reader, to *doctree.Node, f doctree.Field) {
	const units = 1024
	n, err := strconv.ParseFloat(f.Value.Text, 64)
	if !f.Value.IsScalar() || err != nil || !(n >= 0 && n < 1e6) {
		r.wrong(f.Value, f.Key+" is a number of processors", "write one as in 1.5")
		return
	}
	r.set(to, "cpu", f.Value, number(int64(math.Ceil(n*units))))
}

func seconds(member string) func(*reader, *doctree.Node, doctree.Field) {
	return func(r *reader, to *doctree.Node, f doctree.Field) {
		if f.Value.Kind == doctree.Number {
			r.set(to, member, f.Value, f.Value)
			return
		}
		d, err := time.ParseDuration(f.Value.Text)
		if !f.Value.IsScalar() || err != nil || d < 0 || d%time.Second != 0 {
			r.wrong(f.Value, f.Key+" is a time in whole seconds", "write one as in 90s or 5m")
			return
		}
		r.set(to, member, f.Value, number(int64(d/time.Second)))
	}
}

// items returns a text, or the texts of a list.
func (r *reader) items(f doctree.Field) (all []*doctree.Node) {
	from := []*doctree.Node{f.Value}
	if f.Value.Kind == doctree.List {
		from = f.Value.Items
	}
	for _, n := range from {
		if !n.IsScalar() {
			r.wrong(n, f.Key+" is a text or a list of texts, not "+n.Kind.String(), "")
			continue
		}
		all = append(all, n)
	}
	return all
}

func words(member string) func(*reader, *doctree.Node, doctree.Field) {
	return func(r *reader, to *doctree.Node, f doctree.Field) {
		list := &doctree.Node{Kind: doctree.List, Line: f.Value.Line, Col: f.Value.Col}
		if f.Value.Kind == doctree.List {
			list.Items = r.items(f)
		} else if r.scalar(f) {
			split, err := shlex.Split(f.Value.Text)
			if err != nil || len(split) == 0 {
				r.wrong(f.Value, f.Key+" cannot be split into words", "write a list of words")
			}
			for _, w := range split {
				list.Items = append(list.Items, text(w))
			}
		}
		r.set(to, member, f.Value, list)
	}
}

// pairs calls for each name and value of an object of texts, or of a list of NAME=VALUE.
func (r *reader) pairs(f doctree.Field, each func(at *doctree.Node, name string, value *doctree.Node)) {
	if f.Value.Kind == doctree.Object {
		for _, one := range f.Value.Fields {
			switch {
			case one.Value.Kind == doctree.Null:
				r.wrongAt(one.Line, one.Col, f.Key+": "+doctree.Quote(one.Key)+" has no value", "write one; \"\" is an empty one, and podtask run --env NAME takes one from the environment")
			case r.scalar(doctree.Field{Key: f.Key + "." + one.Key, Value: one.Value}):
				each(&doctree.Node{Line: one.Line, Col: one.Col}, one.Key, one.Value)
			}
		}
		return
	}
	for _, n := range r.items(f) {
		name, value, ok := strings.Cut(n.Text, "=")
		if !ok || name == "" {
			r.wrong(n, f.Key+" is a list of NAME=VALUE", "write an object of names and values")
			continue
		}
		each(n, name, text(value))
	}
}

func environment(r *reader, to *doctree.Node, f doctree.Field) {
	r.pairs(f, func(at *doctree.Node, name string, value *doctree.Node) {
		one := object(at)
		r.set(one, "name", at, text(name))
		r.set(one, "value", at, value)
		r.add(to, "environment", at, one)
	})
}

func labels(r *reader, to *doctree.Node, f doctree.Field) {
	all := r.within(to, "dockerLabels", f.Value)
	r.pairs(f, func(at *doctree.Node, name string, value *doctree.Node) { r.set(all, name, at, value) })
}

func envFiles(r *reader, to *doctree.Node, f doctree.Field) {
	for _, n := range r.items(f) {
		one := object(n)
		r.set(one, "type", n, text("s3")) // the only word of the model, for local paths too
		r.set(one, "value", n, text(r.host(n, n.Text)))
		r.add(to, "environmentFiles", n, one)
	}
}

func secrets(r *reader, to *doctree.Node, f doctree.Field) {
	for _, n := range r.items(f) {
		a, wrong := adjust.FlagValues{Secrets: []string{n.Text}}.Parse()
		for _, w := range wrong {
			r.wrong(n, f.Key+": "+w.Err.Error(), "")
		}
		for _, s := range a.Secrets {
			one := object(n)
			r.set(one, "name", n, text(s.Name))
			r.set(one, "valueFrom", n, text(s.ValueFrom))
			r.add(to, "secrets", n, one)
		}
		for _, s := range a.SecretFiles {
			one := object(n)
			r.set(one, "path", n, text(s.Path))
			r.set(one, "valueFrom", n, text(s.ValueFrom))
			r.set(one, "mode", n, text(fmt.Sprintf("%04o", s.Mode)))
			r.set(one, "uid", n, number(int64(s.UID)))
			r.set(one, "gid", n, number(int64(s.GID)))
			r.add(r.within(to, "x-podtask", n), "secretFiles", n, one)
		}
	}
}

// maxPorts limits the ports of all ranges that have ports of the host: each of them becomes a mapping of its own.
const maxPorts = 10_000

func ports(r *reader, to *doctree.Node, f doctree.Field) {
	for _, n := range r.items(f) {
		a, wrong := adjust.FlagValues{Publish: []string{n.Text}}.Parse()
		if len(wrong) > 0 {
			r.wrong(n, f.Key+": "+wrong[0].Err.Error(), "")
			continue
		}
		p, most := a.Ports[0], 100
		if p.HostPort == 0 || p.Count() == 1 {
			r.port(to, n, p)
			continue
		}
		if r.ports += min(p.Count(), most); r.ports > maxPorts {
			r.wrong(n, fmt.Sprintf("%s: these are more than %d ports", f.Key, maxPorts), "networkMode host of a whole task definition needs none of them")
			return
		}
		if p.Count() > most {
			r.wrong(n, fmt.Sprintf("%s: %d ports with ports of the host are more than %d", f.Key, p.Count(), most), "leave the ports of the host out")
		}
		for i := range uint16(min(p.Count(), most)) { // a range of the model has no ports of the host
			r.port(to, n, taskdef.Port{ContainerPort: p.ContainerPort + i, HostPort: p.HostPort + i, Protocol: p.Protocol, HostIP: p.HostIP})
		}
	}
}

func (r *reader) port(to, n *doctree.Node, p taskdef.Port) {
	one := object(n)
	if p.ContainerPortEnd == 0 {
		r.set(one, "containerPort", n, number(int64(p.ContainerPort)))
	} else {
		r.set(one, "containerPortRange", n, text(fmt.Sprintf("%d-%d", p.ContainerPort, p.ContainerPortEnd)))
	}
	if p.HostPort != 0 {
		r.set(one, "hostPort", n, number(int64(p.HostPort)))
	}
	if p.Protocol != "tcp" {
		r.set(one, "protocol", n, text(p.Protocol))
	}
	if p.HostIP != "" {
		r.set(r.within(one, "x-podtask", n), "hostIP", n, text(p.HostIP))
	}
	r.add(to, "portMappings", n, one)
}

// volumeName is a run of characters that the name of a volume cannot hold.
var volumeName = lazy.MustCompile(`[^A-Za-z0-9_-]+`)

func volumes(r *reader, to *doctree.Node, f doctree.Field) {
	for _, n := range r.items(f) {
		rest, readOnly := strings.CutSuffix(strings.TrimSuffix(n.Text, ":rw"), ":ro")
		source, target, ok := cutLast(rest)
		if !ok || !path.IsAbs(target) || source == "" {
			r.wrong(n, f.Key+": "+doctree.Quote(n.Text)+" is not NAME:PATH or ./DIRECTORY:PATH, with :ro or without", "the path in the container begins with /")
			continue
		}
		mount := object(n)
		r.set(mount, "sourceVolume", n, text(r.volume(n, source)))
		r.set(mount, "containerPath", n, text(target))
		if readOnly {
			r.set(mount, "readOnly", n, flag(true))
		}
		r.add(to, "mountPoints", n, mount)
	}
}

// IsBesideFile reports whether the text of a volume mounts a path of the host that counts from the directory of the file.
func IsBesideFile(volume string) bool {
	source, _, ok := cutLast(strings.TrimSuffix(strings.TrimSuffix(volume, ":rw"), ":ro"))
	return ok && isPath(source) && !path.IsAbs(source) && !strings.HasPrefix(source, "$") && !strings.HasPrefix(source, "~")
}

// isPath reports whether the source of a volume is a path of the host, and no name.
func isPath(source string) bool {
	return !strings.HasPrefix(source, "podman:") && strings.ContainsAny(source, "/.~$")
}

func cutLast(s string) (before, after string, found bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// volume returns the name of the volume for a source, which is declared where it is not yet.
func (r *reader) volume(at *doctree.Node, source string) string {
	existing, is := strings.CutPrefix(source, "podman:")
	isPath := isPath(source)
	wanted := volumeName.ReplaceAllString(source, "-")
	if isPath {
		source = r.host(at, source)
	}
	if name, known := r.sources[source]; known {
		return name
	}
	one := object(at)
	name := existing
	switch {
	case isPath:
		name = r.unique(cmp.Or(strings.Trim(wanted, "-"), "directory"))
	case !is:
		name = r.family + "_" + source
	}
	r.set(one, "name", at, text(name))
	if isPath {
		host := object(at)
		r.set(host, "sourcePath", at, text(source))
		r.set(one, "host", at, host)
	} else {
		d := object(at)
		r.set(d, "scope", at, text("shared"))
		if !is {
			r.set(d, "autoprovision", at, flag(true))
		}
		r.set(one, "dockerVolumeConfiguration", at, d)
	}
	r.volumes = append(r.volumes, one)
	r.sources[source] = name
	r.names[name]++
	return name
}

// unique returns a name that no volume has: the wanted one, or one with a number.
func (r *reader) unique(wanted string) string {
	name := wanted
	for r.names[name] > 0 {
		r.names[wanted]++
		name = wanted + "-" + strconv.Itoa(r.names[wanted])
	}
	return name
}

func health(r *reader, to *doctree.Node, f doctree.Field) {
	if t := f.Value.Text; f.Value.IsScalar() && (strings.HasPrefix(t, "http://") || strings.HasPrefix(t, "https://")) {
		r.set(r.within(to, "x-podtask", f.Value), "httpHealthCheck", f.Value, f.Value)
		return
	}
	check := object(f.Value)
	if f.Value.Kind != doctree.Object {
		r.test(check, f.Value)
	} else {
		r.read(check, f.Value, HealthKeys)
	}
	r.set(to, "healthCheck", f.Value, check)
}

// test reads the command of a health check: a text is a command line for the shell, a list is one of words.
func (r *reader) test(to, n *doctree.Node) {
	list := &doctree.Node{Kind: doctree.List, Line: n.Line, Col: n.Col}
	switch {
	case n.Kind == doctree.List:
		list.Items = r.items(doctree.Field{Key: "test", Value: n})
		if len(list.Items) > 0 && !slices.Contains([]string{"CMD", "CMD-SHELL", "NONE"}, list.Items[0].Text) {
			list.Items = slices.Insert(list.Items, 0, text("CMD"))
		}
	case n.IsScalar():
		list.Items = []*doctree.Node{text("CMD-SHELL"), n}
	default:
		r.wrong(n, "the command of a health check is a command line, or a list of words", "")
		return
	}
	r.set(to, "command", n, list)
}

// isTrue reads true or false.
func (r *reader) isTrue(f doctree.Field) bool {
	if f.Value.Kind != doctree.Boolean {
		r.wrong(f.Value, f.Key+" is true or false", "")
	}
	return f.Value.Text == "true"
}

func job(r *reader, to *doctree.Node, f doctree.Field) {
	if r.isTrue(f) {
		r.set(to, "essential", f.Value, flag(false))
	}
}

func restart(r *reader, to *doctree.Node, f doctree.Field) {
	word, most, _ := strings.Cut(f.Value.Text, ":")
	policy := object(f.Value)
	r.set(policy, "enabled", f.Value, flag(true))
	times, err := strconv.Atoi(cmp.Or(most, "0"))
	switch {
	case f.Value.IsScalar() && (word == "no" || word == "false"):
		return
	case word == "on-failure" && err == nil && times >= 0:
		r.set(policy, "ignoredExitCodes", f.Value, &doctree.Node{Kind: doctree.List, Items: []*doctree.Node{number(0)}})
	case most != "" || word != "always" && word != "unless-stopped":
		known := []string{"no", "always", "on-failure", "unless-stopped"}
		r.wrong(f.Value, f.Key+" is "+strings.Join(known, ", ")+", and on-failure:TIMES", suggest.Question(word, known))
		return
	}
	// As engines do, with pauses that grow, also after a short run.
	r.set(policy, "restartAttemptPeriod", f.Value, number(60))
	pauses := object(f.Value)
	r.set(pauses, "backOff", f.Value, number(1))
	if times > 0 {
		r.set(pauses, "maxCount", f.Value, number(int64(times)))
	}
	r.set(policy, "x-podtask", f.Value, pauses)
	r.set(to, "restartPolicy", f.Value, policy)
}

// order makes dependencies of what a container waits for.
func (r *reader) order(to, from, all *doctree.Node) {
	for _, f := range from.Fields {
		if f.Key != "after" && f.Key != "depends_on" {
			continue
		}
		after, problems := After(r.file, f)
		r.problems = append(r.problems, problems...)
		for _, d := range after {
			at := &doctree.Node{Line: d.Line, Col: d.Col}
			one := object(at)
			r.set(one, "containerName", at, text(d.Name))
			r.set(one, "condition", at, text(string(condition(d, all.Member(d.Name)))))
			r.add(to, "dependsOn", f.Value, one)
		}
	}
}

// condition is the condition of a dependency; without a word, it follows from the other container.
func condition(d Dependency, on *doctree.Node) taskdef.Condition {
	is := d.Is
	switch {
	case is != "":
	case on.Member("job") != nil && on.Member("job").Text == "true":
		is = "completed"
	case on.Member("healthcheck") != nil:
		is = "healthy"
	}
	switch is {
	case "healthy":
		return taskdef.Healthy
	case "completed":
		return taskdef.Success
	}
	return taskdef.Start
}

// Dependency is a thing that another one waits for. Is is one of Conditions; empty for that of its kind.
type Dependency struct {
	Name, Is  string
	Line, Col int
}

// After reads what something waits for: a list of names, or an object of names and conditions.
func After(file string, f doctree.Field) (all []Dependency, problems []taskdef.Problem) {
	r := &reader{file: file}
	const form, fix = "after is a list of names, or an object of names and conditions", "write after: {db: healthy}"
	switch f.Value.Kind {
	case doctree.List:
		for _, n := range f.Value.Items {
			if !n.IsScalar() {
				r.wrong(n, form, fix)
				continue
			}
			all = append(all, Dependency{Name: n.Text, Line: n.Line, Col: n.Col})
		}
	case doctree.Object:
		for _, d := range f.Value.Fields {
			if is := d.Value.Text; !d.Value.IsScalar() || !slices.Contains(Conditions, is) {
				r.wrong(d.Value, "it waits until another one is "+strings.Join(Conditions, ", ")+", not "+doctree.Quote(is), instead(d))
			}
			all = append(all, Dependency{Name: d.Key, Is: d.Value.Text, Line: d.Line, Col: d.Col})
		}
	default:
		r.wrong(f.Value, form, fix)
	}
	return all, r.problems
}

// instead returns the condition to write for one that there is not, such as that of Compose.
func instead(d doctree.Field) string {
	word := d.Value.Text
	if n := d.Value.Member("condition"); n != nil {
		word = n.Text
	}
	for _, c := range Conditions {
		if strings.HasPrefix(word, "service_"+c) {
			return "write " + d.Key + ": " + c
		}
	}
	return suggest.Question(word, Conditions)
}
