package taskunit

import (
	"net/netip"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/containers/podman/v5/pkg/systemd/parser"
)

// proxyProgram forwards the connections of a socket and exits when it has had none for a time (systemd-socket-proxyd(8)).
const proxyProgram = "/usr/lib/systemd/systemd-socket-proxyd"

// confined are settings for the forwarder, to which strangers may be connected: it needs nothing but its sockets. They are those that
// systemd applies with seccomp alone. Others want a namespace of users, which some hosts give to Podman and not to the user's manager.
var confined = [][2]string{
	{"NoNewPrivileges", "yes"},
	{"KeyringMode", "private"},
	{"UMask", "0077"},
	{"RestrictNamespaces", "yes"},
	{"RestrictRealtime", "yes"},
	{"RestrictSUIDSGID", "yes"},
	{"RestrictAddressFamilies", "AF_UNIX AF_INET AF_INET6"},
	{"SystemCallFilter", "@system-service"},
	{"SystemCallFilter", "~@privileged"},
	{"SystemCallErrorNumber", "EPERM"},
	{"SystemCallArchitectures", "native"},
	{"LockPersonality", "yes"},
	{"MemoryDenyWriteExecute", "yes"},
}

// proxyOf is the name of the forwarder of the socket of a service with ListenStream=.
func proxyOf(service string) string {
	return strings.TrimSuffix(service, ".service") + "-proxy.service"
}

// SocketOf is the name of the socket of a service with ListenStream=.
func SocketOf(service string) string { return strings.TrimSuffix(service, ".service") + ".socket" }

// listens reports whether the first connection starts the unit.
func (s Source) listens() bool { return len(all(s.entries(taskSection), "ListenStream")) > 0 }

// socket returns the socket of a unit with ListenStream=, and the service that forwards its connections. The socket starts that
// service, which needs the task's and so waits until the task is ready; the connections wait in the queue of the socket. When it
// has had none for SleepAfter=, it exits, and nothing needs the task's service any more, which stops (StopWhenUnneeded=).
func (c *conversion) socket() []Service {
	task := c.source.entries(taskSection)
	quiet, sleeps := last(task, "SleepAfter")
	if !c.source.listens() {
		if sleeps {
			c.wrong(quiet.place, "SleepAfter=%s: a connection wakes the task, so name the port or address for it in ListenStream=", quiet.value)
		}
		return nil
	}
	listeners := all(task, "ListenStream")
	c.checkSocket(listeners[0], task)
	service := c.source.service() + ".service"
	name, proxy := SocketOf(service), proxyOf(service)
	if other := c.made[proxy]; other != "" {
		c.wrong(listeners[0].place, "ListenStream=: %s makes %s already: set ServiceName= in one of them", other, proxy)
	} else {
		c.made[proxy] = c.source.File.Path
	}

	out := conversion{generator: c.generator, source: c.source, out: parser.NewUnitFile()}
	out.comment()
	for _, e := range listeners {
		if !validStream(e.value) {
			c.wrong(e.place, "ListenStream=%s: write a port, an address with a port such as 127.0.0.1:8080 or [::1]:8080, or the absolute path of a socket", e.value)
		}
		out.out.Add("Socket", "ListenStream", e.value)
	}
	out.out.Add("Socket", "Service", proxy)
	// Connections for which the task could not be started are closed. They would start it again and again.
	out.out.Add("Socket", "FlushPending", "yes")
	out.out.Add("Socket", "TriggerLimitIntervalSec", "0")
	socket, _ := out.out.ToString() // writing to memory does not fail

	forward := conversion{generator: c.generator, source: c.source, out: parser.NewUnitFile()}
	forward.comment()
	forward.out.Add(unitSection, "BindsTo", service)
	forward.out.Add(unitSection, "Requires", name)
	forward.out.Add(unitSection, "After", service+" "+name)
	forward.out.Add(unitSection, "StartLimitIntervalSec", "0")
	command := []string{proxyProgram}
	if sleeps {
		command = append(command, "--exit-idle-time="+c.span(quiet))
	}
	forward.out.Add(serviceSection, "Type", "notify")
	forward.out.AddCmdline(serviceSection, "ExecStart", append(command, c.behind(listeners[0], task)))
	for _, setting := range confined {
		forward.out.Add(serviceSection, setting[0], setting[1])
	}
	proxied, _ := forward.out.ToString()
	return []Service{
		{Name: name, Text: socket, Links: []Link{{Path: "sockets.target.wants/" + name, Target: "../" + name}}, Source: c.source.File.Path},
		{Name: proxy, Text: proxied, Source: c.source.File.Path},
	}
}

// checkSocket reports what cannot be together with ListenStream=.
func (c *conversion) checkSocket(listener entry, task []entry) {
	if strings.Contains(c.source.service(), "@") {
		c.wrong(listener.place, "ListenStream= is not for a template or an instance: write a socket for it, see systemd-socket-proxyd(8)")
	}
	if e, ok := last(task, "OnCalendar"); ok {
		c.wrong(e.place, "OnCalendar=%s: the task would stop at once, because no connection needs it: remove OnCalendar= or ListenStream=", e.value)
	}
	if e, ok := last(task, "Notify"); ok && notifies[e.value] == "no" {
		c.wrong(e.place, "Notify=%s: connections wait until the task is healthy or running: remove it", e.value)
	}
	if e, ok := last(c.source.entries(serviceSection), "Type"); ok && e.value != "notify" {
		c.wrong(e.place, "Type=%s: connections wait until the task is healthy or running: remove it", e.value)
	}
	for _, key := range []string{"WantedBy", "RequiredBy", "UpheldBy"} {
		if e, ok := last(c.source.entries(installSection), key); ok {
			c.wrong(e.place, "%s=%s would keep the task awake, and its socket starts with systemd as it is: remove %s=", key, e.value, key)
		}
	}
}

// span is the value of SleepAfter= for systemd-socket-proxyd.
func (c *conversion) span(e entry) string {
	list, err := readTimeSpan(e)
	if err != nil {
		c.wrong(e.place, "%v", err)
		return ""
	}
	d, _ := time.ParseDuration(list[0]) // it comes from a duration
	return strconv.Itoa(int(d.Seconds())) + "s"
}

// behind returns the address to which connections are forwarded: that of the first PublishPort=.
func (c *conversion) behind(listener entry, task []entry) string {
	const fix = "the first PublishPort= is where connections go: write PublishPort=127.0.0.1:PORT:CONTAINERPORT with a port that nothing else has"
	ports := all(task, "PublishPort")
	if len(ports) == 0 {
		c.wrong(listener.place, "ListenStream=%s: %s", listener.value, fix)
		return ""
	}
	first := ports[0]
	i := strings.LastIndexByte(first.value, ':')
	host, err := netip.ParseAddrPort(first.value[:max(i, 0)])
	switch {
	case err != nil, !host.Addr().IsLoopback(), host.Port() == 0, strings.HasSuffix(first.value, "/udp"):
		c.wrong(first.place, "PublishPort=%s: %s, so that nothing reaches the task past its socket", first.value, fix)
	case listener.value == strconv.Itoa(int(host.Port())), listener.value == host.String():
		c.wrong(first.place, "PublishPort=%s: the port is that of ListenStream=%s: %s", first.value, listener.value, fix)
	}
	return host.String()
}

// validStream reports whether a socket of systemd.socket(5) can be of this form: a port, an address with a port, or a path.
func validStream(value string) bool {
	if n, err := strconv.ParseUint(value, 10, 16); err == nil {
		return n > 0
	}
	if strings.ContainsAny(value, " \t") {
		return false
	}
	at, err := netip.ParseAddrPort(value)
	return err == nil && at.Port() > 0 || path.IsAbs(value) || strings.HasPrefix(value, "%")
}
