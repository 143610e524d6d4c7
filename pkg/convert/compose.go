package convert

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docker/go-units"
	"go.yaml.in/yaml/v3"

	"github.com/podtask/podtask/pkg/taskunit"
)

// Compose converts a Compose file. File is its path, to whose directory relative
// paths are relative; task is what the unit and the task are to be called.
//
// All services become containers of one task, so they share an address, and each
// keeps its name for the others. A service that another waits for to complete is
// not essential; all others are. Volumes are those that Compose has, see named.
func Compose(file, task string, src []byte) (Result, error) {
	name := path.Base(file)
	if len(src) > maxText {
		return Result{}, fmt.Errorf("%s has more than %d bytes", name, maxText)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(src, &doc); err != nil {
		return Result{}, fmt.Errorf("%s: %w", name, err)
	}
	c := compose{builder: builder{name: name, dir: path.Dir(file)}}
	if len(doc.Content) == 0 || doc.Content[0].Kind != yaml.MappingNode {
		return Result{}, fmt.Errorf("%s is not a Compose file: it has no services", name)
	}
	c.declare(doc.Content[0])
	for _, f := range fields(doc.Content[0]) {
		switch {
		case f.key == "services":
			services := fields(f.value)
			if len(services) > maxServices {
				return Result{}, fmt.Errorf("%s has %d services, and a task has at most 10 containers: write a file for each task", name, len(services))
			}
			for _, s := range services {
				c.service(s)
			}
		case f.key == "version" || strings.HasPrefix(f.key, "x-"):
		case f.key == "name" || f.key == "volumes": // declared
		case f.key == "networks":
			c.lose(f.line, "networks: the containers of a task share one")
		default:
			c.lose(f.line, "%s", f.key)
		}
	}
	if len(c.def.Containers) == 0 {
		return Result{}, fmt.Errorf("%s is not a Compose file: it has no services", name)
	}
	c.settle()
	return c.result(task)
}

type compose struct {
	builder
	completes []string // services that come to an end
	project   string
	volumes   map[string]declared
}

// Bounds of a Compose file. Each service may take over the members of a large
// mapping, so that they multiply.
const (
	maxText     = 1 << 20 // bytes
	maxServices = 100
)

// command is a list, or a text that a shell splits.
func command(f field) []string {
	if f.value.Kind != yaml.ScalarNode {
		return list(f.value)
	}
	if strings.ContainsAny(f.value.Value, `"'\$`+"`") {
		return []string{"sh", "-c", f.value.Value}
	}
	return strings.Fields(f.value.Value)
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
func (c *compose) service(s field) {
	ctr := container{Name: s.key, Essential: true}
	for _, f := range fields(s.value) {
		if strings.Contains(f.value.Value, "${") {
			c.lose(f.line, "%s.%s: ${...} is not filled in", s.key, f.key)
		}
		if !c.plain(&ctr, f) && !c.nested(&ctr, f) {
			c.lose(f.line, "%s.%s", s.key, f.key)
		}
	}
	c.def.Containers = append(c.def.Containers, ctr)
}

// plain converts members with simple values. It reports whether it knows the key.
func (c *compose) plain(ctr *container, f field) bool {
	switch v := f.value.Value; f.key {
	case "image":
		ctr.Image = v
	case "command":
		ctr.Command = command(f)
	case "entrypoint":
		ctr.EntryPoint = command(f)
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
	case "expose", "container_name", "pull_policy", "tty", "stdin_open":
		return f.key == "expose" // the others are worth a line
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
			c.port(ctr, p)
		}
	case "volumes":
		for _, v := range f.value.Content {
			c.mount(ctr, v)
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
	if target == "" || source == "" || kind == "tmpfs" || strings.HasPrefix(source, "~") {
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
			h.Retries, _ = strconv.Atoi(m.value.Value)
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

func (c *compose) restart(ctr *container, f field) {
	switch word, _, _ := strings.Cut(f.value.Value, ":"); word {
	case "no", "false":
	case "always", "unless-stopped":
		ctr.Restart = &restartPolicy{Enabled: true}
	case "on-failure":
		ctr.Restart = &restartPolicy{Enabled: true, IgnoredExitCodes: []int{0}}
	default:
		c.lose(f.line, "%s.restart %s", ctr.Name, f.value.Value)
	}
}

func (c *compose) deploy(ctr *container, f field) {
	for _, m := range fields(f.value) {
		if m.key != "resources" {
			c.lose(m.line, "%s.deploy.%s", ctr.Name, m.key)
			continue
		}
		for _, r := range fields(m.value) {
			for _, x := range fields(r.value) {
				if r.key == "limits" && x.key == "memory" {
					ctr.Memory = c.mebibytes(x)
				} else {
					c.lose(x.line, "%s.deploy.resources.%s.%s", ctr.Name, r.key, x.key)
				}
			}
		}
	}
}

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
		case f.key == "name" && strings.Contains(f.value.Value, "${"):
			c.lose(f.line, "name: ${...} is not filled in")
		case f.key == "name":
			c.project = f.value.Value
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
		case strings.Contains(m.value.Value, "${"):
			lose(m.line, "volume %s: %s: ${...} is not filled in", v.key, m.key)
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
