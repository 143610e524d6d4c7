package taskdef

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const (
	unitsPerVCPU = 1024
	mib          = 1 << 20
	// hostileContainers is a count that is no slip. The single containers are not
	// looked at then, because some rules compare each with all others.
	hostileContainers = 100
)

// task decodes a task definition. It reports what cannot be represented in a
// Task and leaves the rest to the rules.
func (c cursor) task() Task {
	t := Task{
		Family:  c.at("family").str(),
		Network: NetworkMode(c.at("networkMode").str()),
		CPU:     c.at("cpu").vcpu(),
		Memory:  c.at("memory").memory(),
	}
	if t.Network == "" {
		t.Network = NetworkBridge
	}
	c.at("runtimePlatform").want(object, "")
	all := c.at("containerDefinitions")
	defs := all.list("")
	if len(defs) > hostileContainers {
		all.wrong(fmt.Sprintf(tooMany, maxContainers, len(defs)), "split the task")
		return t
	}
	for _, def := range defs {
		t.Containers = append(t.Containers, def.container(t.Network))
	}
	// Dependencies name containers of any place, so they come second.
	for i, def := range defs {
		t.Containers[i].DependsOn = def.at("dependsOn").dependencies(t)
	}
	return t
}

// container decodes a container; the network mode decides about host ports.
func (c cursor) container(mode NetworkMode) Container {
	c.want(object, "")
	linux := c.at("linuxParameters")
	linux.want(object, "")
	return Container{
		Name:              c.at("name").str(),
		Image:             c.at("image").str(),
		EntryPoint:        c.at("entryPoint").strs(),
		Command:           c.at("command").strs(),
		Environment:       c.at("environment").environment(),
		WorkingDirectory:  c.at("workingDirectory").str(),
		User:              c.at("user").str(),
		Labels:            c.at("dockerLabels").labels(),
		ReadonlyRootFS:    c.at("readonlyRootFilesystem").flag(false),
		Init:              linux.at("initProcessEnabled").flag(false),
		Interactive:       c.at("interactive").flag(false),
		PseudoTerminal:    c.at("pseudoTerminal").flag(false),
		Essential:         c.at("essential").flag(true),
		HealthCheck:       c.at("healthCheck").healthCheck(),
		Ports:             c.at("portMappings").ports(mode),
		CPU:               c.at("cpu").integer(0, 0),
		Memory:            c.at("memory").integer(minMemory/mib, 0) * mib,
		MemoryReservation: c.at("memoryReservation").integer(minMemory/mib, 0) * mib,
		StartTimeout:      c.at("startTimeout").seconds(1, 0),
		StopTimeout:       c.at("stopTimeout").seconds(1, DefaultStopTimeout),
	}
}

// environment decodes variables. Of several with one name the last value wins,
// at the place of the first, as in Docker.
func (c cursor) environment() []EnvVar {
	var vars []EnvVar
	for _, item := range c.list(`write a list of {"name": ..., "value": ...}`) {
		if !item.want(object, `write {"name": ..., "value": ...}`) {
			continue
		}
		name := item.at("name")
		v := EnvVar{name.str(), item.at("value").str()}
		if c.p.broken[name.ptr] {
			continue
		}
		if complaint := envNameComplaint(v.Name); complaint != "" {
			// Told here, because the task keeps no place for each variable.
			if name.node == nil {
				name = item
			}
			name.wrong(complaint, "")
			continue
		}
		known := len(vars)
		vars = setEnv(vars, v)
		if len(vars) == known {
			c.p.warnings = append(c.p.warnings, c.p.problem(name.ptr, name.node.line, name.node.col,
				"the variable "+quote(v.Name)+" is set before; this value wins", "remove one of the two"))
		}
	}
	return vars
}

func (c cursor) labels() map[string]string {
	if !c.want(object, `write {"name": "value"}`) || len(c.node.fields) == 0 {
		return nil
	}
	labels := make(map[string]string, len(c.node.fields))
	for _, f := range c.node.fields {
		if strings.ContainsRune(f.key, 0) {
			c.wrong("the name of a label holds a NUL character", "remove it")
			continue
		}
		labels[f.key] = c.at(f.key).str()
	}
	return labels
}

func (c cursor) healthCheck() *HealthCheck {
	if c.node == nil || c.node.kind == object && c.node.empty() {
		return nil
	}
	c.want(object, "")
	// Even of a broken check something is kept, so that a container that waits
	// for HEALTHY is not reported as well.
	return &HealthCheck{
		Command:     c.at("command").strs(),
		Interval:    c.at("interval").seconds(0, 30*time.Second),
		Timeout:     c.at("timeout").seconds(0, 5*time.Second),
		Retries:     int(c.at("retries").integer(0, 3)),
		StartPeriod: c.at("startPeriod").seconds(0, 0),
	}
}

func (c cursor) ports(mode NetworkMode) []Port {
	var ports []Port
	for _, item := range c.list("") {
		item.want(object, `write {"containerPort": ...}`)
		if item.at("containerPortRange").node != nil {
			// It is refused; that a single port is missing beside it is no news.
			item.p.broken[item.ptr+"/containerPort"] = true
		}
		p := Port{
			ContainerPort: item.at("containerPort").port(),
			HostPort:      item.at("hostPort").port(),
			Protocol:      item.at("protocol").str(),
			Name:          item.at("name").str(),
		}
		if p.Protocol == "" {
			p.Protocol = "tcp"
		}
		if p.HostPort == 0 && (mode == NetworkHost || mode == NetworkAWSVPC) {
			p.HostPort = p.ContainerPort
		}
		ports = append(ports, p)
	}
	return ports
}

// port decodes a port; 0 for an absent one.
func (c cursor) port() uint16 {
	i := c.integer(0, 0)
	if i > 65535 {
		c.wrong(fmt.Sprintf("%d is not a port: ports go to 65535", i), "")
		return 0
	}
	return uint16(i)
}

// dependencies decodes dependsOn. A name that no container has becomes index -1.
func (c cursor) dependencies(t Task) []Dependency {
	var deps []Dependency
	for _, item := range c.list(`write a list of {"containerName": ..., "condition": ...}`) {
		item.want(object, `write {"containerName": ..., "condition": ...}`)
		name := item.at("containerName")
		d := Dependency{Container: -1, Condition: Condition(item.at("condition").str())}
		if s := name.str(); s != "" {
			if i, ok := t.Index(s); ok {
				d.Container = i
			} else {
				name.wrong("no container named "+quote(s), whichContainer(t, s))
			}
		}
		deps = append(deps, d)
	}
	return deps
}

// whichContainer is the fix for a name that no container has.
func whichContainer(t Task, name string) string {
	var names []string
	for _, c := range t.Containers[:min(len(t.Containers), maxContainers)] {
		names = append(names, c.Name)
	}
	if fix := didYouMean(name, names); fix != "" {
		return fix
	}
	for i, n := range names {
		names[i] = quote(n)
	}
	return "the containers are " + strings.Join(names, ", ")
}

// seconds decodes a whole number of seconds of at least least.
func (c cursor) seconds(least int64, unset time.Duration) time.Duration {
	const absent = -1
	s := c.integer(least, absent)
	if s == absent {
		return unset
	}
	return time.Duration(s) * time.Second
}

// quantity is a decimal number with an optional unit. It is stricter than
// strconv.ParseFloat, which takes "inf" and hexadecimal too.
var quantity = regexp.MustCompile(`^([0-9]*\.?[0-9]+)\s*([A-Za-z]*)$`)

// vcpu decodes the cpu of a task: cpu units, or a number of vCPU.
func (c cursor) vcpu() float64 {
	return c.amount("vcpu", 1.0/unitsPerVCPU, `write cpu units (1024 = 1 vCPU), or a number of vCPU as in "0.5 vCPU"`)
}

// memory decodes the memory of a task, MiB or a number of GB (which ECS counts
// as 1024 MiB), into bytes.
func (c cursor) memory() int64 {
	const fix = `write MiB, or a number of GB as in "2 GB"`
	gb := c.amount("gb", 1.0/1024, fix)
	if gb > 1<<20 {
		c.wrong("more than 1048576 GB", fix)
		return 0
	}
	return int64(gb * 1024 * mib)
}

// amount decodes a number with a unit, or a whole number without one, which
// counts as bare units each. It returns 0 for an absent value.
func (c cursor) amount(unit string, bare float64, fix string) float64 {
	if c.node == nil || c.node.kind == text && c.node.text == "" {
		return 0
	}
	if c.node.kind != number && c.node.kind != text {
		c.wrong(fmt.Sprintf("this must be a number or text, not %s", c.node.kind), fix)
		return 0
	}
	s := strings.TrimSpace(c.node.text)
	m := quantity.FindStringSubmatch(s)
	if m == nil || m[2] == "" && strings.Contains(m[1], ".") || m[2] != "" && !strings.EqualFold(m[2], unit) {
		c.wrong(quote(s)+" is not an amount", fix)
		return 0
	}
	f, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		c.wrong(quote(s)+" is out of range", fix)
		return 0
	}
	if m[2] == "" {
		f *= bare
	}
	return f
}
