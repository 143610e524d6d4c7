package adjust

import (
	"errors"
	"fmt"
	"net/netip"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/distribution/reference"
	"github.com/docker/go-units"

	"github.com/podtask/podtask/pkg/taskdef"
)

// FlagValues are values of flags of run that change a definition; an empty value changes nothing.
type FlagValues struct {
	// Publish are [[IP:]HOST:]CONTAINER[/PROTOCOL], Secrets NAME[,OPTION=VALUE...].
	Publish, Secrets []string
	// Images replace images of the definition, by the image as it has it; LeaveOut are containers.
	Images   map[string]string
	LeaveOut []string
	// Network is a mode, a program or the name of a network.
	Network string
	// Memory is a size, CPUs a number; StopTimeout is in seconds, StopAfter a duration such as 10m.
	Memory, CPUs, StopTimeout, StopAfter string
	// Namespace is that of the names that the task reaches services by.
	Namespace string
}

// FlagError is a value that cannot be read. Flag is the name of the flag of run.
type FlagError struct {
	Flag string
	Err  error
}

// Parse parses the values and returns all errors.
func (w FlagValues) Parse() (a taskdef.Adjustments, wrong []FlagError) {
	note := func(flag string, err error) {
		if err != nil {
			wrong = append(wrong, FlagError{flag, err})
		}
	}
	for _, word := range w.Publish {
		p, err := parsePublish(word)
		note("publish", err)
		a.Ports = append(a.Ports, p)
	}
	for _, word := range w.Secrets {
		note("secret", addSecret(&a, word))
	}
	for from, to := range w.Images {
		const most = 1024
		if _, err := reference.ParseNormalizedNamed(to); err != nil || len(to) > most {
			note("locked", fmt.Errorf("the image %.200q in place of %.200q is not an image reference", to, from))
		}
	}
	a.Images, a.LeaveOut, a.Network, a.Namespace = w.Images, w.LeaveOut, w.Network, w.Namespace
	if w.Namespace != "" && !taskdef.NamespaceName(w.Namespace) {
		note("namespace", fmt.Errorf("%q is not letters, digits, dots, dashes and underscores that begin and end with a letter or a digit", w.Namespace))
	}
	if w.Memory != "" {
		n, err := ParseSize(w.Memory)
		note("memory", err)
		a.Memory = &n
	}
	if w.CPUs != "" {
		n, err := strconv.ParseFloat(w.CPUs, 64)
		if err != nil || !(n >= 0 && n < 1e6) {
			note("cpus", fmt.Errorf("%q is not a number of CPUs such as 0.5", w.CPUs))
		}
		a.CPU = &n
	}
	if w.StopTimeout != "" {
		n, err := strconv.ParseUint(w.StopTimeout, 10, 31)
		if err != nil || n == 0 {
			note("stop-timeout", fmt.Errorf("%q is not a number of seconds, at least 1", w.StopTimeout))
		}
		a.StopTimeout = time.Duration(n) * time.Second
	}
	if w.StopAfter != "" {
		d, err := time.ParseDuration(w.StopAfter)
		if err != nil || d < time.Second || d > taskdef.MaxDeadline {
			note("stop-after", fmt.Errorf("%q is not a time such as 90s, 10m or 2h, at least 1s and at most a year", w.StopAfter))
		}
		a.Deadline = d
	}
	return a, wrong
}

// parsePublish reads [[IP:]HOST:]CONTAINER[/PROTOCOL] as podman run --publish
// does; HOST and CONTAINER may be ranges of the same length, and an IPv6 address
// stands in brackets.
func parsePublish(word string) (taskdef.Port, error) {
	var p taskdef.Port
	wrong := fmt.Errorf("%q is not [[IP:]HOST:]CONTAINER[/tcp or /udp]", word)
	rest, protocol, given := strings.Cut(word, "/")
	p.Protocol = "tcp"
	if given {
		p.Protocol = protocol
	}
	if p.Protocol != "tcp" && p.Protocol != "udp" {
		return p, wrong
	}
	host, container, ok := cutLast(rest, ":")
	if !ok {
		host, container = "", rest
	}
	if ip, port, hasIP := cutLast(host, ":"); hasIP {
		addr, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(ip, "["), "]"))
		if err != nil || addr.Is6() != strings.HasPrefix(ip, "[") || addr.Is6() != strings.HasSuffix(ip, "]") {
			return p, wrong
		}
		p.HostIP, host = addr.String(), port
	}
	first, last, err := parseRange(container)
	if errors.Is(err, errPort) {
		return p, fmt.Errorf("%q: %w", word, err)
	}
	if err != nil || first == 0 {
		return p, wrong
	}
	p.ContainerPort = first
	if last != first {
		p.ContainerPortEnd = last
	}
	if host == "" {
		return p, nil
	}
	hostFirst, hostLast, err := parseRange(host)
	if errors.Is(err, errPort) {
		return p, fmt.Errorf("%q: %w", word, err)
	}
	if err != nil || hostLast-hostFirst != last-first {
		return p, wrong
	}
	p.HostPort = hostFirst
	return p, nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// errPort: a port is out of range.
var errPort = errors.New("no such port")

// parseRange reads FIRST-LAST, or one port.
func parseRange(word string) (first, last uint16, err error) {
	from, to, ranged := strings.Cut(word, "-")
	if !ranged {
		to = from
	}
	for _, number := range []string{from, to} {
		if n, err := strconv.ParseUint(number, 10, 64); err == nil && n > 65535 {
			return 0, 0, fmt.Errorf("%w: %d is not one of 1 to 65535", errPort, n)
		}
	}
	a, err := strconv.ParseUint(from, 10, 16)
	if err != nil {
		return 0, 0, err
	}
	b, err := strconv.ParseUint(to, 10, 16)
	if err != nil || b < a {
		return 0, 0, fmt.Errorf("%q is not a range of ports", word)
	}
	return uint16(a), uint16(b), nil
}

// ParseSize reads a size as podman run --memory does: bytes, or 512m, 2g.
func ParseSize(word string) (int64, error) {
	n, err := units.RAMInBytes(word)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q is not a size such as 512m", word)
	}
	return n, nil
}

// secretDir is where Podman puts secrets that have no target.
const secretDir = "/run/secrets"

// addSecret reads NAME[,OPTION=VALUE...] as podman run --secret does: type is
// mount (the default) or env.
func addSecret(a *taskdef.Adjustments, word string) error {
	name, rest, _ := strings.Cut(word, ",")
	o := map[string]string{}
	for _, option := range strings.Split(rest, ",") {
		if k, v, ok := strings.Cut(option, "="); ok && v != "" {
			o[k] = v
		} else if rest != "" {
			return fmt.Errorf("%q is not NAME[,OPTION=VALUE...]", word)
		}
	}
	value := taskdef.SecretValue{ValueFrom: "podman:" + name, Source: "podman:" + name}
	kind, target := o["type"], o["target"]
	delete(o, "type")
	delete(o, "target")
	switch {
	case name == "":
		return fmt.Errorf("%q has no NAME", word)
	case kind == "env":
		if target == "" {
			target = name
		}
		a.Secrets = append(a.Secrets, taskdef.Secret{Name: target, SecretValue: value})
	case kind == "" || kind == "mount":
		if target == "" {
			target = name
		}
		if !path.IsAbs(target) {
			target = path.Join(secretDir, target)
		}
		f := taskdef.SecretFile{Path: target, Mode: 0o444, SecretValue: value}
		if err := fileOwner(&f, o); err != nil {
			return err
		}
		a.SecretFiles = append(a.SecretFiles, f)
	default:
		return fmt.Errorf("type=%s: it is env or mount", kind)
	}
	for k := range o {
		return fmt.Errorf("there is no option %q here", k)
	}
	return nil
}

// fileOwner takes uid, gid and mode out of the options.
func fileOwner(f *taskdef.SecretFile, o map[string]string) error {
	for _, n := range []struct {
		name string
		base int
		set  func(int)
	}{
		{"uid", 10, func(i int) { f.UID = i }},
		{"gid", 10, func(i int) { f.GID = i }},
		{"mode", 8, func(i int) { f.Mode = uint32(i) }},
	} {
		text, ok := o[n.name]
		if !ok {
			continue
		}
		delete(o, n.name)
		i, err := strconv.ParseUint(text, n.base, 31)
		if err != nil || n.base == 8 && i > 0o777 {
			return fmt.Errorf("%s=%s is no number that fits", n.name, text)
		}
		n.set(int(i))
	}
	return nil
}
