package main

import (
	"fmt"
	"net/netip"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/docker/go-units"

	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/urfave/cli/v2"
)

// adjustFlags are the flags of run that change what a definition says, in the
// words of podman run.
func adjustFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "publish", Aliases: []string{"p"}, Usage: "publish a port, `[[IP:]HOST:]CONTAINER[/PROTOCOL]`, in place of the definition's for the same container port"},
		&cli.StringFlag{Name: "network", Usage: "use the network `MODE` bridge, host or none; or let the containers share one network namespace, connected by pasta, by slirp4netns, or (shared) as usual; or join a Podman network by its name"},
		&cli.StringSliceFlag{Name: "secret", Usage: "give every container a Podman secret, `NAME[,type=env|mount][,target=...]`"},
		&cli.StringFlag{Name: "memory", Aliases: []string{"m"}, Usage: "limit the task to `SIZE` bytes, or 512m, 2g; 0 for no limit"},
		&cli.StringFlag{Name: "cpus", Usage: "limit the task to `NUMBER` CPUs; 0 for no limit"},
		&cli.StringFlag{Name: "stop-timeout", Usage: "give each container `SECONDS` between SIGTERM and SIGKILL"},
	}
}

// parseAdjustments reads them. The error holds all that is wrong.
func parseAdjustments(c *cli.Context) (taskdef.Adjustments, error) {
	var a taskdef.Adjustments
	var wrong []string
	note := func(flag string, err error) {
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("--%s: %v", flag, err))
		}
	}
	for _, word := range c.StringSlice("publish") {
		p, err := parsePublish(word)
		note("publish", err)
		a.Ports = append(a.Ports, p)
	}
	for _, word := range c.StringSlice("secret") {
		note("secret", addSecret(&a, word))
	}
	a.Network = c.String("network")
	if word := c.String("memory"); word != "" {
		n, err := parseSize(word)
		note("memory", err)
		a.Memory = &n
	}
	if word := c.String("cpus"); word != "" {
		n, err := strconv.ParseFloat(word, 64)
		if err != nil || !(n >= 0 && n < 1e6) {
			note("cpus", fmt.Errorf("%q is not a number of CPUs such as 0.5", word))
		}
		a.CPU = &n
	}
	if word := c.String("stop-timeout"); word != "" {
		n, err := strconv.ParseUint(word, 10, 31)
		if err != nil || n == 0 {
			note("stop-timeout", fmt.Errorf("%q is not a number of seconds, at least 1", word))
		}
		a.StopTimeout = time.Duration(n) * time.Second
	}
	if len(wrong) > 0 {
		return a, usagef("run", "%s", strings.Join(wrong, "\n  "))
	}
	return a, nil
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

// parseRange reads FIRST-LAST, or one port.
func parseRange(word string) (first, last uint16, err error) {
	from, to, ranged := strings.Cut(word, "-")
	if !ranged {
		to = from
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

// parseSize reads a size as podman run --memory does: bytes, or 512m, 2g.
func parseSize(word string) (int64, error) {
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
