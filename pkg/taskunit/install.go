package taskunit

import (
	"path"
	"strings"
)

// links are what `systemctl enable` would make; it cannot, because the service
// is generated. A template without DefaultInstance has only its aliases.
func (c *conversion) links(service string) []Link {
	entries := c.source.entries(installSection)
	var out []Link
	add := func(e entry, name, target string) {
		if strings.Contains(name, "/") || strings.Contains(name, "%") || name == "." || name == ".." {
			c.wrong(e.place, "%s=%s: give the name of a unit, without directories and specifiers", e.key, name)
			return
		}
		out = append(out, Link{Path: target, Target: service})
	}
	for _, e := range all(entries, "Alias") {
		for _, name := range strings.Fields(e.value) {
			if path.Ext(name) != ".service" {
				c.wrong(e.place, "Alias=%s: an alias of a service ends in .service", name)
				continue
			}
			if name == service {
				continue // systemd has it without a link
			}
			if other := c.made[name]; other != "" {
				c.wrong(e.place, "Alias=%s: %s makes a service of this name already", name, other)
				continue
			}
			c.made[name] = c.source.File.Path
			add(e, name, name)
		}
	}
	started := c.started(entries, service)
	for _, kind := range []struct{ key, dir string }{{"WantedBy", ".wants"}, {"RequiredBy", ".requires"}, {"UpheldBy", ".upholds"}} {
		for _, e := range all(entries, kind.key) {
			for _, name := range strings.Fields(c.translate(e)) {
				if started != "" {
					add(e, name, path.Join(name+kind.dir, started))
				}
			}
		}
	}
	for i, l := range out {
		if strings.Contains(l.Path, "/") {
			out[i].Target = "../" + l.Target
		}
	}
	return out
}

// started is the service that the targets of [Install] start: for a template
// its DefaultInstance, and empty without.
func (c *conversion) started(entries []entry, service string) string {
	name, instance, template := strings.Cut(strings.TrimSuffix(service, ".service"), "@")
	if !template || instance != "" {
		return service
	}
	e, ok := last(entries, "DefaultInstance")
	if !ok {
		return ""
	}
	if strings.ContainsAny(e.value, "/%@ ") {
		c.wrong(e.place, "DefaultInstance=%s: give the plain name of an instance", e.value)
	}
	return name + "@" + e.value + ".service"
}
