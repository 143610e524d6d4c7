package pod

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// probes reads the checks and the hooks of container i.
func (b *reader) probes(i int) {
	v, c := b.containers[i], &b.result.Task.Containers[i]
	if b.result.Pod.isInit(c.Name) {
		for _, m := range []string{"livenessProbe", "readinessProbe", "startupProbe", "lifecycle"} {
			if v.at(m).filled() {
				v.at(m).wrong("an init container that ends has no "+m, "remove it, or make the container a sidecar with restartPolicy Always")
			}
		}
		return
	}
	probes, hooks := &c.Extensions.Probes, &c.Extensions.Hooks
	probes.Startup = b.probe(i, v.at("startupProbe"))
	probes.Readiness = b.probe(i, v.at("readinessProbe"))
	probes.Liveness = b.probe(i, v.at("livenessProbe"))
	if grace := v.at("readinessProbe").at("terminationGracePeriodSeconds"); grace.present() {
		grace.wrong("a readiness probe stops nothing, so it has no grace period", "remove it")
	}
	for _, m := range []string{"startupProbe", "livenessProbe"} {
		if many := v.at(m).at("successThreshold"); many.integer(0, 1<<31-1, 1) > 1 {
			many.wrong("the successThreshold of this probe must be 1", "remove it")
		}
	}
	hooks.PostStart, hooks.PreStop = b.hook(i, v.at("lifecycle").at("postStart")), b.hook(i, v.at("lifecycle").at("preStop"))
	if sleep := v.at("lifecycle").at("preStop").at("sleep").at("seconds"); hooks.PreStop != nil && hooks.PreStop.Sleep > c.StopTimeout {
		sleep.wrong(fmt.Sprintf("the hook sleeps for longer than terminationGracePeriodSeconds, which is %d", c.StopTimeout/time.Second), "")
	}
}

// probe reads a check; nil for none. 0 means the default, as in Kubernetes.
func (b *reader) probe(i int, v value) *taskdef.Probe {
	if !v.filled() {
		return nil
	}
	number := func(name string, unset int64) int64 {
		if n := v.at(name).integer(0, 1<<31-1, 0); n > 0 {
			return n
		}
		return unset
	}
	seconds := func(name string, unset int64) time.Duration { return time.Duration(number(name, unset)) * time.Second }
	p := &taskdef.Probe{
		InitialDelay: seconds("initialDelaySeconds", 0), Period: seconds("periodSeconds", 10), Timeout: seconds("timeoutSeconds", 1),
		SuccessThreshold: int(number("successThreshold", 1)), FailureThreshold: int(number("failureThreshold", 3)),
		Grace: seconds("terminationGracePeriodSeconds", 0),
	}
	b.action(i, v, &p.Action, "exec", "httpGet", "tcpSocket", "grpc")
	return p
}

// hook reads a hook; nil for none.
func (b *reader) hook(i int, v value) *taskdef.Action {
	if !v.filled() {
		return nil
	}
	a := new(taskdef.Action)
	b.action(i, v, a, "exec", "httpGet", "tcpSocket", "sleep")
	if a.Exec == nil && a.HTTP == nil && a.Sleep == 0 {
		return nil // a problem, or a sleep of 0 seconds
	}
	return a
}

// action reads what a check or a hook does, which is one of some members.
func (b *reader) action(i int, v value, a *taskdef.Action, members ...string) {
	var found []string
	for _, m := range members {
		if v.at(m).present() {
			found = append(found, m)
		}
	}
	if len(found) != 1 {
		v.wrong(fmt.Sprintf("it must have one of %s, and it has %d of them", strings.Join(members, ", "), len(found)), "")
		return
	}
	in := v.at(found[0])
	switch found[0] {
	case "exec":
		if a.Exec = texts(in.at("command")); len(a.Exec) == 0 {
			in.wrong("there is no command", "write command: [PROGRAM, ARGUMENT...]")
		}
	case "httpGet":
		a.HTTP = b.httpGet(i, in)
	case "tcpSocket":
		a.TCP = &taskdef.TCPAction{Host: in.at("host").str(), Port: b.port(i, in)}
	case "grpc":
		a.GRPC = &taskdef.GRPCAction{Port: b.port(i, in), Service: in.at("service").str()}
	case "sleep":
		a.Sleep = time.Duration(in.at("seconds").integer(0, 86400, 0)) * time.Second
	}
}

func (b *reader) httpGet(i int, v value) *taskdef.HTTPAction {
	h := &taskdef.HTTPAction{
		HTTPS: v.at("scheme").word("HTTP", "HTTP", "HTTPS") == "HTTPS",
		Host:  v.at("host").str(), Port: b.port(i, v), Path: v.at("path").str(),
	}
	for _, header := range v.at("httpHeaders").items() {
		name, text := header.at("name").str(), header.at("value").str()
		if !headerName(name) || strings.ContainsAny(text, "\r\n") {
			header.wrong(doctree.Quote(name)+" is not a header of HTTP", "use letters, digits and hyphens, and a value of one line")
			continue
		}
		h.Headers = append(h.Headers, taskdef.HTTPHeader{Name: name, Value: text})
	}
	return h
}

func headerName(s string) bool {
	return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") == ""
}

// port reads a port, by its number or by its name among the ports of the container.
func (b *reader) port(i int, in value) uint16 {
	v := in.at("port")
	text := v.str()
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 1 && n <= 65535 {
		return uint16(n)
	}
	if text == "" {
		n := v.integer(1, 65535, 0)
		if n == 0 && !v.present() {
			in.wrong("port is missing", "")
		}
		return uint16(n)
	}
	for _, p := range b.containers[i].at("ports").items() {
		if p.at("name").str() == text {
			return uint16(p.at("containerPort").integer(1, 65535, 0))
		}
	}
	v.wrong("the container has no port named "+doctree.Quote(text), "give one of its ports that name, or write a number")
	return 0
}
