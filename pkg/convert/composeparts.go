package convert

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docker/go-units"
	"go.yaml.in/yaml/v3"
)

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
	ctr.MountPoints = append(ctr.MountPoints, mountPoint{c.source(source), target, readOnly})
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
		c.lose(f.line, "%s %s is no time", f.key, f.value.Value)
		return 0
	}
	return int(math.Ceil(d.Seconds()))
}

// mebibytes reads a size and rounds it up.
func (c *compose) mebibytes(f field) int64 {
	n, err := units.RAMInBytes(f.value.Value)
	if err != nil || n < 0 {
		c.lose(f.line, "%s %s is no size", f.key, f.value.Value)
		return 0
	}
	return (n + units.MiB - 1) / units.MiB
}
