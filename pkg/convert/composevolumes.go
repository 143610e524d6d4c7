package convert

import (
	"path"
	"strings"

	"go.yaml.in/yaml/v3"
)

// declared is a volume that the top level of a Compose file declares.
type declared struct {
	name  string // in the engine, if the file gives it
	there bool   // external: somebody else has made it
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
				c.volumes[v.key] = c.declaration(v)
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

func (c *compose) declaration(v field) (n declared) {
	for _, m := range fields(v.value) {
		switch {
		case strings.Contains(m.value.Value, "${"):
			c.lose(m.line, "volume %s: %s: ${...} is not filled in", v.key, m.key)
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
			c.lose(m.line, "volume %s: %s", v.key, m.key)
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

// source adds the source of a mount and returns the name of its volume.
func (c *compose) source(source string) string {
	if hostPath(source) {
		return c.addPath(source)
	}
	return c.addNamed(c.named(source))
}
