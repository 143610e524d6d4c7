package convert

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/go-units"
	"go.yaml.in/yaml/v3"
)

// kernel converts members about processes and the kernel. It reports whether it knows the
// key.
func (c *compose) kernel(ctr *container, f field) bool {
	switch v := f.value.Value; f.key {
	case "hostname":
		ctr.Hostname = v
	case "dns":
		ctr.DNSServers = list(f.value)
	case "dns_search":
		ctr.DNSSearch = list(f.value)
	case "extra_hosts":
		c.extraHosts(ctr, f)
	case "privileged":
		ctr.Privileged = v == "true"
	case "tty":
		ctr.Terminal = v == "true"
	case "stdin_open":
		ctr.Interactive = v == "true"
	case "shm_size":
		ctr.linux().SharedMemory = c.mebibytes(f)
	case "tmpfs":
		for _, t := range list(f.value) {
			ctr.linux().Tmpfs = append(ctr.linux().Tmpfs, c.tmpfs(ctr, f.line, t))
		}
	case "ulimits":
		c.ulimits(ctr, f)
	case "sysctls":
		for _, p := range c.pairs(f, "sysctl") {
			ctr.SystemControls = append(ctr.SystemControls, systemControl(p))
		}
	case "security_opt":
		for _, o := range list(f.value) {
			c.securityOption(ctr, f.line, o)
		}
	case "logging":
		c.logging(ctr, f)
	case "secrets":
		for _, n := range f.value.Content {
			c.secretFile(ctr, resolve(n))
		}
	default:
		return c.resources(ctr, f)
	}
	return true
}

// resources converts cpu and memory.
func (c *compose) resources(ctr *container, f field) bool {
	switch f.key {
	case "cpus":
		c.cpus(ctr, f)
	case "cpu_shares":
		n, err := strconv.ParseInt(f.value.Value, 10, 32)
		if err != nil || n < 0 {
			c.lose(f.line, "%s.cpu_shares %s is not a number", ctr.Name, f.value.Value)
			break
		}
		ctr.CPU = n
	case "mem_reservation":
		ctr.Reservation = c.mebibytes(f)
	default:
		return false
	}
	return true
}

// cpus limits a container to a number of CPUs.
func (c *compose) cpus(ctr *container, f field) {
	n, err := strconv.ParseFloat(f.value.Value, 64)
	if err != nil || math.IsNaN(n) || n < 0 {
		c.lose(f.line, "%s: cpus %s is not a number", ctr.Name, f.value.Value)
		return
	}
	if n > 0 {
		ctr.extensions().CPULimit = n
	}
}

// extraHosts reads NAME:ADDRESS, NAME=ADDRESS or a mapping.
func (c *compose) extraHosts(ctr *container, f field) {
	add := func(line int, name, address string) {
		address = strings.Trim(address, "[]")
		if name == "" || address == "" || address == "host-gateway" {
			c.lose(line, "%s.extra_hosts %s: %s is no address", ctr.Name, name, address)
			return
		}
		ctr.ExtraHosts = append(ctr.ExtraHosts, host{name, address})
	}
	for _, e := range fields(f.value) {
		for _, address := range list(e.value) {
			add(e.line, e.key, address)
		}
	}
	if f.value.Kind == yaml.SequenceNode {
		for _, n := range f.value.Content {
			i := strings.IndexAny(n.Value, "=:")
			if i < 0 {
				c.lose(n.Line, "%s.extra_hosts %s: write it as NAME=ADDRESS", ctr.Name, n.Value)
				continue
			}
			add(n.Line, n.Value[:i], n.Value[i+1:])
		}
	}
}

// tmpfs reads PATH[:OPTIONS].
func (c *compose) tmpfs(ctr *container, line int, text string) tmpfs {
	path, options, _ := strings.Cut(text, ":")
	t := tmpfs{Path: path, Size: defaultTmpfs}
	for option := range strings.SplitSeq(options, ",") {
		size, ok := strings.CutPrefix(option, "size=")
		switch n, err := units.RAMInBytes(size); {
		case option == "":
		case !ok:
			t.Options = append(t.Options, option)
		case err != nil:
			c.lose(line, "%s.tmpfs %s: %s is not a size", ctr.Name, path, size)
		default:
			t.Size = max(1, (n+units.MiB-1)/units.MiB)
		}
	}
	return t
}

// defaultTmpfs is the size, in MiB, of a tmpfs of which the file says none: the model needs
// one.
const defaultTmpfs = 64

func (c *compose) ulimits(ctr *container, f field) {
	number := func(n *yaml.Node) int64 {
		i, err := strconv.ParseInt(n.Value, 10, 64)
		if err != nil {
			c.lose(n.Line, "%s.ulimits: %s is not a number", ctr.Name, n.Value)
		}
		return i
	}
	for _, e := range fields(f.value) {
		l := ulimit{Name: e.key}
		if e.value.Kind == yaml.ScalarNode {
			l.Soft = number(e.value)
			l.Hard = l.Soft
		}
		for _, m := range fields(e.value) {
			switch m.key {
			case "soft":
				l.Soft = number(m.value)
			case "hard":
				l.Hard = number(m.value)
			}
		}
		ctr.Ulimits = append(ctr.Ulimits, l)
	}
}

func (c *compose) securityOption(ctr *container, line int, option string) {
	name, value, _ := strings.Cut(strings.Replace(option, "=", ":", 1), ":")
	switch {
	case name == "no-new-privileges" && (value == "" || value == "true"):
		ctr.SecurityOptions = append(ctr.SecurityOptions, name)
	case name == "label":
		ctr.SecurityOptions = append(ctr.SecurityOptions, "label:"+value)
	default:
		c.lose(line, "%s.security_opt %s", ctr.Name, option)
	}
}

// sentLogs are the drivers that send to a server; their options have the same names in ECS.
var sentLogs = []string{"awslogs", "fluentd", "gelf", "splunk", "syslog"}

// logging converts the drivers that podtask has.
func (c *compose) logging(ctr *container, f field) {
	l := &logConfiguration{Driver: "json-file"}
	var options []field
	for _, m := range fields(f.value) {
		switch m.key {
		case "driver":
			l.Driver = m.value.Value
		case "options":
			options = fields(m.value)
		default:
			c.lose(m.line, "%s.logging.%s", ctr.Name, m.key)
		}
	}
	kept := func(string) bool { return false }
	switch {
	case l.Driver == "local", l.Driver == "json-file":
		l.Driver = "json-file"
		kept = func(option string) bool { return option == "max-size" }
	case slices.Contains(sentLogs, l.Driver):
		kept = func(string) bool { return true }
	case l.Driver != "journald" && l.Driver != "none":
		c.lose(f.line, "%s.logging: podtask has no log driver %s", ctr.Name, l.Driver)
		return
	}
	for _, o := range options {
		if !kept(o.key) {
			c.lose(o.line, "%s.logging.options.%s", ctr.Name, o.key)
			continue
		}
		if l.Options == nil {
			l.Options = map[string]string{}
		}
		l.Options[o.key] = o.value.Value
	}
	ctr.Logging = l
}

// number reads a number that is not negative; what is none is lost.
func number(c *compose, f field, member string) int {
	n, err := strconv.Atoi(f.value.Value)
	if err != nil || n < 0 {
		c.lose(f.line, "%s: %q is not a number", member, f.value.Value)
		return 0
	}
	return n
}

// secretFile reads a secret of a service: its name, or the long form.
func (c *compose) secretFile(ctr *container, n *yaml.Node) {
	s := secretFile{Mode: "0444"}
	name := n.Value
	for _, f := range fields(n) {
		switch v := f.value.Value; f.key {
		case "source":
			name = v
		case "target":
			s.Path = v
		case "mode":
			s.Mode = "0" + strings.TrimLeft(strings.TrimPrefix(v, "0o"), "0")
		case "uid":
			s.UID = number(c, f, ctr.Name+".secrets.uid")
		case "gid":
			s.GID = number(c, f, ctr.Name+".secrets.gid")
		}
	}
	source, known := c.secrets[name]
	if !known {
		c.lose(n.Line, "secret %s of %s: the file declares no source for it", name, ctr.Name)
		return
	}
	if s.Path == "" {
		s.Path = name
	}
	if !strings.HasPrefix(s.Path, "/") {
		s.Path = "/run/secrets/" + s.Path
	}
	s.ValueFrom = source
	ctr.extensions().SecretFiles = append(ctr.extensions().SecretFiles, s)
}

// declareSecret reads where a secret of the top level comes from.
func (c *compose) declareSecret(s field) {
	external, name := false, s.key
	for _, f := range fields(s.value) {
		switch v := f.value.Value; f.key {
		case "file":
			c.secrets[s.key] = "file:" + c.absolute(v)
		case "environment":
			c.secrets[s.key] = "env:" + v
		case "external":
			external = v == "true"
		case "name":
			name = v
		default:
			c.lose(f.line, "secret %s: %s", s.key, f.key)
		}
	}
	if external {
		c.secrets[s.key] = "podman:" + name
	}
}

func (ctr *container) extensions() *containerExtensions {
	if ctr.Extensions == nil {
		ctr.Extensions = &containerExtensions{}
	}
	return ctr.Extensions
}
