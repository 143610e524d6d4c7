package convert

import (
	"fmt"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docker/go-units"
	"github.com/mattn/go-shellwords"
	"go.yaml.in/yaml/v3"

	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskunit"
)

// Compose converts a Compose file. File is its path, to whose directory relative
// paths are relative; task is what the unit and the task are to be called. The error is for
// a file of which no valid definition can be made.
//
// All services become containers of one task, so they share an address, and each
// keeps its name for the others. A service that another waits for to complete is
// not essential; all others are. Volumes are those that Compose has, see named.
func Compose(file, task string, src []byte, o ComposeOptions) (Result, error) {
	name := path.Base(file)
	if len(src) > maxText {
		return Result{}, fmt.Errorf("%s has more than %d bytes", name, maxText)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(src, &doc); err != nil {
		return Result{}, fmt.Errorf("%s: %w", name, err)
	}
	c := compose{builder: builder{name: name, dir: path.Dir(file)}, options: o, secrets: map[string]string{}}
	if len(doc.Content) == 0 || doc.Content[0].Kind != yaml.MappingNode {
		return Result{}, fmt.Errorf("%s is not a Compose file: it has no services", name)
	}
	budget := 4 * maxText
	if err := c.interpolate(doc.Content[0], &budget); err != nil {
		return Result{}, err
	}
	c.declare(doc.Content[0])
	if err := c.members(doc.Content[0]); err != nil {
		return Result{}, err
	}
	if len(c.def.Containers) == 0 {
		return Result{}, fmt.Errorf("%s is not a Compose file: it has no services", name)
	}
	c.settle()
	r, err := c.result(task)
	if err != nil {
		return Result{}, err
	}
	if _, _, err := taskdef.Parse(task+".json", r.Definition); err != nil {
		return Result{}, fmt.Errorf("%s gives a definition that is not valid: %w", name, err)
	}
	return r, nil
}

// members converts what the top level of a file has.
func (c *compose) members(doc *yaml.Node) error {
	for _, f := range fields(doc) {
		switch {
		case f.key == "services":
			services := fields(f.value)
			if len(services) > maxServices {
				return fmt.Errorf("%s has %d services, and a task has at most 10 containers: write a file for each task", c.name, len(services))
			}
			for _, s := range services {
				if err := c.service(s); err != nil {
					return err
				}
			}
		case f.key == "version" || strings.HasPrefix(f.key, "x-"):
		case f.key == "name" || f.key == "volumes" || f.key == "secrets": // declared
		case f.key == "networks":
			c.lose(f.line, "networks: the containers of a task share one")
		case f.key == "include":
			return fmt.Errorf("%s:%d: include is not read: `podman-compose config` or `docker compose config` prints one file with everything in it", c.name, f.line)
		default:
			c.lose(f.line, "%s", f.key)
		}
	}
	return nil
}

type compose struct {
	builder
	options   ComposeOptions
	secrets   map[string]string // sources of the declared secrets
	completes []string          // services that come to an end
	project   string
	volumes   map[string]declared
}

// Bounds of a Compose file. Each service may take over the members of a large
// mapping, so that they multiply.
const (
	maxText     = 1 << 20 // bytes
	maxServices = 100
)

// command is a list, or a text that is split as a shell does, without one.
func (c *compose) command(f field) []string {
	if f.value.Kind != yaml.ScalarNode {
		return list(f.value)
	}
	words, err := shellwords.Parse(f.value.Value)
	if err != nil {
		c.lose(f.line, "%s: its quotes do not match", f.key)
	}
	return words
}

// pairs reads a mapping, or a list of NAME=VALUE.
func (c *compose) pairs(f field, what string) []pair {
	var out []pair
	for _, e := range fields(f.value) {
		if e.value.Tag == "!!null" {
			c.lose(e.line, "%s %s, which is taken from the environment of the user who starts it", what, e.key)
			continue
		}
		out = append(out, pair{e.key, e.value.Value})
	}
	if f.value.Kind == yaml.SequenceNode {
		for _, item := range f.value.Content {
			name, value, ok := strings.Cut(item.Value, "=")
			if !ok {
				c.lose(item.Line, "%s %s, which is taken from the environment of the user who starts it", what, name)
				continue
			}
			out = append(out, pair{name, value})
		}
	}
	return out
}

// service converts one service.
func (c *compose) service(s field) error {
	if c.left(s) {
		return nil
	}
	ctr := container{Name: s.key, Essential: true}
	for _, f := range fields(s.value) {
		if f.key == "extends" {
			return fmt.Errorf("%s:%d: %s.extends is not read: `podman-compose config` or `docker compose config` prints one file with everything in it", c.name, f.line, s.key)
		}
		if !c.plain(&ctr, f) && !c.nested(&ctr, f) && !c.kernel(&ctr, f) {
			c.lose(f.line, "%s.%s", s.key, f.key)
		}
	}
	c.def.Containers = append(c.def.Containers, ctr)
	return nil
}

// plain converts members with simple values. It reports whether it knows the key.
func (c *compose) plain(ctr *container, f field) bool {
	switch v := f.value.Value; f.key {
	case "image":
		ctr.Image = v
	case "command":
		ctr.Command = c.command(f)
	case "entrypoint":
		ctr.EntryPoint = c.command(f)
	case "environment":
		ctr.Environment = c.pairs(f, "variable")
	case "labels":
		ctr.Labels = make(map[string]string)
		for _, p := range c.pairs(f, "label") {
			ctr.Labels[p.Name] = p.Value
		}
	case "user":
		ctr.User = v
	case "working_dir":
		ctr.WorkingDirectory = v
	case "read_only":
		ctr.ReadOnly = v == "true"
	case "init":
		ctr.linux().Init = v == "true"
	case "cap_add":
		ctr.capabilities().Add = list(f.value)
	case "cap_drop":
		ctr.capabilities().Drop = list(f.value)
	case "stop_grace_period":
		ctr.StopTimeout = c.seconds(f)
	case "mem_limit":
		ctr.Memory = c.mebibytes(f)
	case "env_file":
		for _, file := range list(f.value) {
			path, err := taskunit.Escape(c.absolute(file))
			if err != nil {
				c.lose(f.line, "%s.env_file: %v", ctr.Name, err)
				continue
			}
			c.assign(&c.unit.Task, f.line, "EnvironmentFile", path)
			c.lose(f.line, "%s.env_file is given to all containers", ctr.Name)
		}
	case "expose", "profiles":
	default:
		return false
	}
	return true
}

// nested converts members with parts.
func (c *compose) nested(ctr *container, f field) bool {
	switch f.key {
	case "ports":
		for _, p := range f.value.Content {
			c.portOrRange(ctr, resolve(p))
		}
	case "volumes":
		for _, v := range f.value.Content {
			c.mount(ctr, resolve(v))
		}
	case "depends_on":
		c.dependsOn(ctr, f)
	case "healthcheck":
		ctr.HealthCheck = c.health(f)
	case "restart":
		c.restart(ctr, f)
	case "deploy":
		c.deploy(ctr, f)
	case "networks":
		c.lose(f.line, "%s.networks: the containers of a task share one", ctr.Name)
	default:
		return false
	}
	return true
}

func (ctr *container) linux() *linux {
	if ctr.Linux == nil {
		ctr.Linux = &linux{}
	}
	return ctr.Linux
}

func (ctr *container) capabilities() *capabilities {
	l := ctr.linux()
	if l.Capabilities == nil {
		l.Capabilities = &capabilities{}
	}
	return l.Capabilities
}

// conditions are Compose's words for what a dependant waits for.
var conditions = map[string]string{
	"": "START", "service_started": "START", "service_healthy": "HEALTHY", "service_completed_successfully": "SUCCESS",
}

func (c *compose) dependsOn(ctr *container, f field) {
	for _, name := range list(f.value) {
		ctr.DependsOn = append(ctr.DependsOn, dependency{name, "START"})
	}
	for _, d := range fields(f.value) {
		word := ""
		for _, m := range fields(d.value) {
			if m.key == "condition" {
				word = m.value.Value
			} else {
				c.lose(m.line, "%s.depends_on.%s.%s", ctr.Name, d.key, m.key)
			}
		}
		condition, ok := conditions[word]
		if !ok {
			c.lose(d.line, "%s.depends_on.%s: there is no condition %s", ctr.Name, d.key, word)
			continue
		}
		if condition == "SUCCESS" {
			c.completes = append(c.completes, d.key)
		}
		ctr.DependsOn = append(ctr.DependsOn, dependency{d.key, condition})
	}
}

// settle does what needs all services.
func (c *compose) settle() {
	for i := range c.def.Containers {
		ctr := &c.def.Containers[i]
		if slices.Contains(c.completes, ctr.Name) {
			ctr.Essential, ctr.Restart = false, nil
		}
	}
	c.unit.Install = []string{"WantedBy=default.target"}
	c.unit.Service = []string{"Restart=on-failure"}
}

// port reads [[IP:]HOST:]CONTAINER[/PROTOCOL], or the long form.
func (c *compose) port(ctr *container, n *yaml.Node) {
	var p port
	ok := true
	number := func(s string) int {
		i, err := strconv.Atoi(s)
		ok = ok && err == nil
		return i
	}
	if n.Kind == yaml.ScalarNode {
		p, ok = parsePort(n.Value)
	}
	for _, f := range fields(n) {
		switch f.key {
		case "target":
			p.ContainerPort = number(f.value.Value)
		case "published":
			p.HostPort = number(f.value.Value)
		case "protocol":
			p.Protocol = f.value.Value
		case "host_ip":
			p.Extra = &hostIPOnly{f.value.Value}
		case "mode", "name", "app_protocol":
		default:
			ok = false
		}
	}
	if !ok || p.ContainerPort == 0 {
		c.lose(n.Line, "port %s of %s: write it as HOST:CONTAINER", n.Value, ctr.Name)
		return
	}
	ctr.PortMappings = append(ctr.PortMappings, p)
}

// portOrRange reads a port, or FIRST-LAST:FIRST-LAST, which is one port for each number.
func (c *compose) portOrRange(ctr *container, n *yaml.Node) {
	m := portRange.FindStringSubmatch(n.Value)
	if n.Kind != yaml.ScalarNode || m == nil {
		c.port(ctr, n)
		return
	}
	number := func(s string) int { i, _ := strconv.Atoi(s); return i }
	host, hostEnd, first, last := number(m[2]), number(m[3]), number(m[4]), number(m[5])
	if last < first || last-first >= maxRange || last > 65535 || m[2] != "" && hostEnd-host != last-first {
		c.lose(n.Line, "ports %s of %s: write two ranges of the same length, of up to %d ports", n.Value, ctr.Name, maxRange)
		return
	}
	for i := range last - first + 1 {
		p := port{ContainerPort: first + i, Protocol: m[6]}
		if m[2] != "" {
			p.HostPort = host + i
		}
		if m[1] != "" {
			p.Extra = &hostIPOnly{strings.Trim(m[1], "[]")}
		}
		ctr.PortMappings = append(ctr.PortMappings, p)
	}
}

// portRange is [IP:][FIRST-LAST:]FIRST-LAST[/PROTOCOL].
var portRange = regexp.MustCompile(`^(?:(.+):)??(?:(\d{1,5})-(\d{1,5}):)?(\d{1,5})-(\d{1,5})(?:/(\w+))?$`)

// maxRange is how many ports a range may have.
const maxRange = 100

// parsePort reads [[IP:]HOST:]CONTAINER[/PROTOCOL] without ranges.
func parsePort(text string) (p port, ok bool) {
	rest, protocol, _ := strings.Cut(text, "/")
	p.Protocol = protocol
	parts := strings.Split(rest, ":")
	var err1, err2 error
	p.ContainerPort, err1 = strconv.Atoi(parts[len(parts)-1])
	if len(parts) > 1 && parts[len(parts)-2] != "" {
		p.HostPort, err2 = strconv.Atoi(parts[len(parts)-2])
	}
	if len(parts) > 2 {
		p.Extra = &hostIPOnly{strings.Trim(strings.Join(parts[:len(parts)-2], ":"), "[]")}
	}
	return p, err1 == nil && err2 == nil
}

// mount reads SOURCE:TARGET[:MODE], or the long form.
func (c *compose) mount(ctr *container, n *yaml.Node) {
	var source, target string
	readOnly := false
	kind := ""
	if n.Kind == yaml.ScalarNode {
		parts := strings.Split(n.Value, ":")
		target = parts[0]
		if len(parts) > 1 {
			source, target = parts[0], parts[1]
		}
		readOnly = len(parts) > 2 && slices.Contains(strings.Split(parts[2], ","), "ro")
	}
	for _, f := range fields(n) {
		switch f.key {
		case "type":
			kind = f.value.Value
		case "source":
			source = f.value.Value
		case "target":
			target = f.value.Value
		case "read_only":
			readOnly = f.value.Value == "true"
		}
	}
	switch {
	case kind == "tmpfs" && target != "":
		ctr.linux().Tmpfs = append(ctr.linux().Tmpfs, tmpfs{Path: target, Size: defaultTmpfs})
		return
	case source == "" && target != "" && kind != "bind":
		name := c.addVolume(volume{Name: volumeName(ctr.Name + "-" + target)})
		ctr.MountPoints = append(ctr.MountPoints, mountPoint{name, target, readOnly})
		return
	case target == "" || source == "" || strings.HasPrefix(source, "~"):
		c.lose(n.Line, "volume %s of %s: it has no source that is known", n.Value+target, ctr.Name)
		return
	}
	if name, _ := c.named(source); !hostPath(source) && plain(name) != name {
		c.lose(n.Line, "volume %s of %s: its name is to have letters, digits, dashes and underscores only", name, ctr.Name)
		return
	}
	volume := ""
	if hostPath(source) {
		volume = c.addPath(source)
	} else {
		volume = c.addNamed(c.named(source))
	}
	ctr.MountPoints = append(ctr.MountPoints, mountPoint{volume, target, readOnly})
}

func (c *compose) health(f field) *healthCheck {
	h := &healthCheck{}
	for _, m := range fields(f.value) {
		switch m.key {
		case "test":
			if m.value.Kind == yaml.ScalarNode {
				h.Command = []string{"CMD-SHELL", m.value.Value}
			} else {
				h.Command = list(m.value)
			}
		case "interval":
			h.Interval = c.seconds(m)
		case "timeout":
			h.Timeout = c.seconds(m)
		case "start_period":
			h.StartPeriod = c.seconds(m)
		case "retries":
			h.Retries = number(c, m, "healthcheck.retries")
		case "disable":
			if m.value.Value == "true" {
				return nil
			}
		default:
			c.lose(m.line, "healthcheck.%s", m.key)
		}
	}
	if len(h.Command) == 0 || h.Command[0] == "NONE" {
		return nil
	}
	if h.Timeout == 0 {
		h.Timeout = 30 // as Compose has it; the model has 5
	}
	h.clamp(func(what string) { c.lose(f.line, "healthcheck: %s", what) })
	return h
}

// clamp brings a check into the ranges of the ECS model.
func (h *healthCheck) clamp(tell func(what string)) {
	for _, r := range []struct {
		name        string
		value       *int
		least, most int
	}{{"interval", &h.Interval, 5, 300}, {"timeout", &h.Timeout, 2, 60}, {"retries", &h.Retries, 1, 10}, {"start period", &h.StartPeriod, 0, 300}} {
		if *r.value == 0 {
			continue
		}
		if fit := min(max(*r.value, r.least), r.most); fit != *r.value {
			tell(fmt.Sprintf("%s %d becomes %d", r.name, *r.value, fit))
			*r.value = fit
		}
	}
}

// restart also restarts a container that ran for less than a minute, with pauses that grow,
// as engines do.
func (c *compose) restart(ctr *container, f field) {
	word, most, _ := strings.Cut(f.value.Value, ":")
	policy := &restartPolicy{Enabled: true, AttemptPeriod: 60, Extra: &backOff{BackOff: 1}}
	switch word {
	case "no", "false", "none":
	case "always", "unless-stopped", "any":
		ctr.Restart = policy
	case "on-failure":
		policy.IgnoredExitCodes = []int{0}
		policy.Extra.MaxCount, _ = strconv.Atoi(most)
		ctr.Restart = policy
	default:
		c.lose(f.line, "%s.restart %s", ctr.Name, f.value.Value)
	}
}

func (c *compose) deploy(ctr *container, f field) {
	for _, m := range fields(f.value) {
		switch m.key {
		case "resources":
			for _, r := range fields(m.value) {
				for _, x := range fields(r.value) {
					c.deployResource(ctr, r.key, x)
				}
			}
		case "replicas":
			if m.value.Value != "1" {
				c.lose(m.line, "%s.deploy.replicas: a task has one; `podtask service create NAME FILE --count %s` keeps that number of copies of the whole task", ctr.Name, m.value.Value)
			}
		case "restart_policy":
			for _, x := range fields(m.value) {
				if x.key == "condition" {
					c.restart(ctr, x)
				} else {
					c.lose(x.line, "%s.deploy.restart_policy.%s", ctr.Name, x.key)
				}
			}
		default:
			c.lose(m.line, "%s.deploy.%s", ctr.Name, m.key)
		}
	}
}

func (c *compose) deployResource(ctr *container, kind string, x field) {
	switch kind + "." + x.key {
	case "limits.memory":
		ctr.Memory = c.mebibytes(x)
	case "reservations.memory":
		ctr.Reservation = c.mebibytes(x)
	case "limits.cpus":
		c.cpus(ctr, x)
	case "reservations.cpus":
		if n, err := strconv.ParseFloat(x.value.Value, 64); err == nil && n > 0 && n < 1000 {
			ctr.CPU = int64(n * unitsPerCPU)
			break
		}
		fallthrough
	default:
		c.lose(x.line, "%s.deploy.resources.%s.%s", ctr.Name, kind, x.key)
	}
}

// unitsPerCPU is how many cpu units of the model are one CPU.
const unitsPerCPU = 1024

// seconds reads a time such as 1m30s and rounds it up.
func (c *compose) seconds(f field) int {
	d, err := time.ParseDuration(f.value.Value)
	if n, plain := strconv.Atoi(f.value.Value); plain == nil {
		d, err = time.Duration(n)*time.Second, nil
	}
	if err != nil || d < 0 {
		c.lose(f.line, "%s %s is not a duration", f.key, f.value.Value)
		return 0
	}
	return int(math.Ceil(d.Seconds()))
}

// mebibytes reads a size and rounds it up.
func (c *compose) mebibytes(f field) int64 {
	n, err := units.RAMInBytes(f.value.Value)
	if err != nil || n < 0 {
		c.lose(f.line, "%s %s is not a size", f.key, f.value.Value)
		return 0
	}
	return (n + units.MiB - 1) / units.MiB
}

// declared is a volume that the top level of a Compose file declares.
type declared struct {
	name  string // in the engine, if the file gives it
	there bool   // external: it exists already
}

// declare reads what services need to know before they are converted: the name of the
// project and the volumes.
func (c *compose) declare(doc *yaml.Node) {
	c.project, c.volumes = path.Base(c.dir), make(map[string]declared)
	for _, f := range fields(doc) {
		switch {
		case f.key == "name":
			c.project = f.value.Value
		case f.key == "secrets":
			for _, s := range fields(f.value) {
				c.declareSecret(s)
			}
		case f.key == "volumes":
			for _, v := range fields(f.value) {
				c.volumes[v.key] = declaration(v, c.lose)
			}
		}
	}
	c.project = strings.TrimLeft(strings.Map(inProjectName, strings.ToLower(c.project)), "_-")
	for key := range c.volumes {
		name, _ := c.named(key)
		c.reserved = append(c.reserved, name)
	}
}

// inProjectName drops what Compose drops from the name of a project.
func inProjectName(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
		return r
	}
	return -1
}

func declaration(v field, lose func(line int, format string, args ...any)) (n declared) {
	for _, m := range fields(v.value) {
		switch {
		case m.key == "name":
			n.name = m.value.Value
		case m.key == "external" && m.value.Kind == yaml.MappingNode: // before version 3.4
			n.there = true
			for _, e := range fields(m.value) {
				if e.key == "name" {
					n.name = e.value.Value
				}
			}
		case m.key == "external":
			n.there = m.value.Value == "true"
		case m.key == "driver" && m.value.Value == "local": // it is the only one
		default:
			lose(m.line, "volume %s: %s", v.key, m.key)
		}
	}
	return n
}

// named is what a volume of the file is called in the engine. One of the project has the
// name that Compose gives it, PROJECT_NAME, so that the task goes on with the data that
// is there, and two projects never share by accident.
func (c *compose) named(key string) (name string, there bool) {
	v := c.volumes[key]
	switch {
	case v.name != "":
		return v.name, v.there
	case v.there || c.project == "":
		return key, v.there
	}
	return c.project + "_" + key, false
}

// field is an entry of a mapping.
type field struct {
	key   string
	value *yaml.Node
	line  int
}

// fields are the entries of a mapping, those of mappings that are merged into it
// with "<<" first; none of anything else.
func fields(n *yaml.Node) []field {
	var merged, own []field
	for _, f := range entries(n) {
		if f.key == "<<" {
			merged = append(merged, entries(f.value)...)
		} else {
			own = append(own, f)
		}
	}
	merged = slices.DeleteFunc(merged, func(m field) bool {
		return slices.ContainsFunc(own, func(f field) bool { return f.key == m.key })
	})
	return append(merged, own...)
}

func entries(n *yaml.Node) []field {
	n = resolve(n)
	if n.Kind != yaml.MappingNode {
		return nil
	}
	var out []field
	for i := 0; i+1 < len(n.Content); i += 2 {
		out = append(out, field{n.Content[i].Value, resolve(n.Content[i+1]), n.Content[i].Line})
	}
	return out
}

// resolve follows an alias.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// list are the texts of a list, or the one text.
func list(n *yaml.Node) []string {
	if n.Kind == yaml.ScalarNode && n.Tag != "!!null" {
		return []string{n.Value}
	}
	var out []string
	if n.Kind == yaml.SequenceNode {
		for _, item := range n.Content {
			out = append(out, item.Value)
		}
	}
	return out
}
