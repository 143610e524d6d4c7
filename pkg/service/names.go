package service

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/pkg/taskdef"
)

// Names is the part of a service and its copies in a namespace: tasks of the namespace reach the service by name,
// and its copies reach the services of the namespace.
type Names struct {
	// Namespace is that of the service; empty for none.
	Namespace string `json:"namespace,omitempty"`
	// Offered are the names of the service.
	Offered []Name `json:"offered,omitempty"`
}

// Name is a name with a port. Connections to it are forwarded to the copies in Rotation.
type Name struct {
	// Name and Port are what clients connect to.
	Name string `json:"name"`
	Port uint16 `json:"port"`
	// PortName is the name of the port mapping of a copy to which connections go. Without it, they go to
	// ContainerPort of Container. The copies publish the port.
	PortName      string `json:"portName,omitempty"`
	Container     string `json:"container,omitempty"`
	ContainerPort uint16 `json:"containerPort,omitempty"`
}

// Target returns where in a task connections to the name go.
func (n Name) Target(t taskdef.Task) (container string, port uint16, err error) {
	if n.Container != "" {
		return n.Container, n.ContainerPort, nil
	}
	return target(t, n.PortName, n.Port)
}

// Resolve completes names that the user gave without a namespace, a container or a port, by the task of the service. What cannot
// be found is left as it is, for Validate.
func (n Names) Resolve(t taskdef.Task) Names {
	if n.Namespace == "" {
		n.Namespace = t.Extensions.Namespace
	}
	if n.Namespace == "" && len(n.Offered) > 0 {
		n.Namespace = DefaultNamespace
	}
	n.Offered = slices.Clone(n.Offered)
	for i := range n.Offered {
		o := &n.Offered[i]
		container, port, err := o.Target(t)
		if err != nil {
			continue
		}
		if o.PortName == "" {
			o.Container, o.ContainerPort = container, port
		}
		o.Port = cmp.Or(o.Port, port)
	}
	return n
}

// String returns NAME:PORT.
func (n Name) String() string { return fmt.Sprintf("%s:%d", n.Name, n.Port) }

// sayNames notes how the names of the service have changed.
func (s *State) sayNames(at time.Time, before Names) {
	now := s.Config.Names
	for _, n := range before.Offered {
		if before.Namespace != now.Namespace || !slices.ContainsFunc(now.Offered, n.same) {
			s.say(at, "is not reached as %s in namespace %s any more.", n, before.Namespace)
		}
	}
	for _, n := range now.Offered {
		if before.Namespace != now.Namespace || !slices.ContainsFunc(before.Offered, n.same) {
			s.say(at, "is reached as %s in namespace %s.", n, now.Namespace)
		}
	}
}

// same reports whether clients take two names for the same one.
func (n Name) same(o Name) bool { return n.Name == o.Name && n.Port == o.Port }

// DefaultNamespace is the namespace of a service that has names and names no other.
const DefaultNamespace = "default"

// Bounds of names.
const (
	maxName    = 253
	maxPart    = 63
	maxOffered = 50
)

// namePart is a part of a name between dots. Host names have no underscore, but ECS' names may.
var namePart = lazy.MustCompile(`^[a-z0-9]([a-z0-9_-]*[a-z0-9])?$`)

// CheckNamespace returns what is wrong with the name of a namespace; nil for a good one.
func CheckNamespace(name string) error {
	if !taskdef.NamespaceName(name) {
		return fmt.Errorf("the namespace %q is not letters, digits, dots, dashes and underscores that begin and end with a letter or a digit", name)
	}
	return nil
}

// checkName returns what is wrong with a name.
func checkName(name string) error {
	switch {
	case name == "localhost" || strings.HasSuffix(name, ".localhost"):
		return fmt.Errorf("the name %s is that of the task itself: choose another one", name)
	case strings.HasSuffix(name, ".containers.internal") || strings.HasSuffix(name, ".docker.internal"):
		return fmt.Errorf("the name %s belongs to Podman: choose another one", name)
	case len(name) > maxName || slices.ContainsFunc(strings.Split(name, "."), func(p string) bool { return len(p) > maxPart || !namePart.MatchString(p) }):
		return fmt.Errorf("%q is not a host name: lower-case letters, digits and dashes, in parts of up to 63 with dots between them", name)
	case isAddress(name):
		return fmt.Errorf("the name %s is an address: give it a letter", name)
	}
	return nil
}

// isAddress reports whether programs take a name for an IPv4 address: its last part is a number.
func isAddress(name string) bool {
	last := name[strings.LastIndex(name, ".")+1:]
	return strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x")
}

// checkNames returns what is wrong with the names of a service, without a look at other services.
func checkNames(t taskdef.Task, n Names) (errs []error) {
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch {
	case n.Namespace == "" && len(n.Offered) > 0:
		refuse("the name %s needs a namespace", n.Offered[0])
	case n.Namespace != "":
		if err := CheckNamespace(n.Namespace); err != nil {
			errs = append(errs, err)
		}
	}
	if n.Namespace != "" && (t.Network == taskdef.NetworkHost || t.Network == taskdef.NetworkNone) {
		refuse("%s has networkMode %s, so its copies reach no names: use awsvpc or bridge, or leave out the namespace %s", t.Family, t.Network, n.Namespace)
	}
	if len(n.Offered) > maxOffered {
		refuse("a service has up to %d names, not %d", maxOffered, len(n.Offered))
	}
	for i, o := range n.Offered {
		if err := checkName(o.Name); err != nil {
			errs = append(errs, err)
		}
		if slices.ContainsFunc(n.Offered[:i], o.same) {
			refuse("the name %s is there twice", o)
		}
		if why := OwnHost(t, o.Name); why != "" && !slices.ContainsFunc(t.Containers, func(c taskdef.Container) bool { return c.Net.Hostname == o.Name }) { // a copy may call itself like the service
			refuse("the name %s is taken in the copies themselves: %s", o, why)
		}
		if t.Family == "" {
			continue
		}
		container, port, err := o.Target(t)
		c := slices.IndexFunc(t.Containers, func(c taskdef.Container) bool { return c.Name == container })
		switch {
		case err != nil:
			refuse("the name %s: %w", o.Name, err)
		case o.Port == 0:
			refuse("the name %s needs a port, 1 to 65535", o.Name)
		case c < 0:
			refuse("the name %s leads to the container %q, which %s does not have", o, container, t.Family)
		case !t.Containers[c].Publishes(port):
			refuse("the name %s leads to TCP port %d of the container %s, which does not publish it: add {\"containerPort\": %d} to its portMappings", o, port, container, port)
		}
	}
	return errs
}

// OwnHost explains why a task resolves a name by itself, whatever services there are; "" if it does not.
func OwnHost(t taskdef.Task, name string) string {
	for i, c := range t.Containers {
		if c.Net.Hostname == name {
			return fmt.Sprintf("it is the hostname of the container %s", c.Name)
		}
		if slices.ContainsFunc(c.Net.ExtraHosts, func(h taskdef.Host) bool { return h.Name == name }) {
			return fmt.Sprintf("extraHosts of the container %s have it", c.Name)
		}
		if (t.Bridged() || t.Linked(i)) && slices.Contains(t.Names(i), name) {
			return fmt.Sprintf("the container %s is called like that", c.Name)
		}
	}
	return ""
}

// target finds where connections to a name go that the user gave without a container: to the given port if one container
// publishes it, to the only port that is published otherwise. portName, if it is given, is the name of a mapping.
func target(t taskdef.Task, portName string, port uint16) (container string, containerPort uint16, err error) {
	type place struct {
		container string
		port      uint16
	}
	var named, same, all []place
	var names, ports []string
	for _, c := range t.Containers {
		for _, p := range c.Ports {
			if p.Protocol != "tcp" {
				continue
			}
			at := place{c.Name, p.ContainerPort}
			all = append(all, at)
			ports = append(ports, fmt.Sprintf("%s:%d", c.Name, p.ContainerPort))
			if p.Name != "" {
				names = append(names, p.Name)
			}
			if portName != "" && p.Name == portName {
				named = append(named, at)
			}
			if port != 0 && port >= p.ContainerPort && int(port) < int(p.ContainerPort)+p.Count() {
				same = append(same, place{c.Name, port})
			}
		}
	}
	has := func(words []string) string { return cmp.Or(strings.Join(words, ", "), "none") }
	switch {
	case portName != "" && len(named) == 1:
		return named[0].container, named[0].port, nil
	case portName != "":
		return "", 0, fmt.Errorf("%s has no TCP port mapping with the name %q: its names are %s", t.Family, portName, has(names))
	case len(same) == 1:
		return same[0].container, same[0].port, nil
	case len(all) == 1:
		return all[0].container, all[0].port, nil
	case len(all) == 0:
		return "", 0, fmt.Errorf("%s publishes no TCP port: add {\"containerPort\": PORT} to the portMappings of a container", t.Family)
	}
	return "", 0, fmt.Errorf("%s publishes several ports (%s): say which one with =CONTAINER:PORT", t.Family, has(ports))
}
