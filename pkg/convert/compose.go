package convert

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
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
		return Result{}, fmt.Errorf("%s is no Compose file: it has no services", name)
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
		return Result{}, fmt.Errorf("%s is no Compose file: it has no services", name)
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
func (c *compose) command(f field) []string {
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
			c.lose(e.line, "%s %s, which is taken from the environment of whoever starts it", what, e.key)
			continue
		}
		out = append(out, pair{e.key, e.value.Value})
	}
	if f.value.Kind == yaml.SequenceNode {
		for _, item := range f.value.Content {
			name, value, ok := strings.Cut(item.Value, "=")
			if !ok {
				c.lose(item.Line, "%s %s, which is taken from the environment of whoever starts it", what, name)
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
			c.unit.Task = append(c.unit.Task, "EnvironmentFile="+c.absolute(file))
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
