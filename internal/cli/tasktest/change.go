package tasktest

import (
	"fmt"
	"maps"
	"slices"

	"github.com/podtask/podtask/internal/define/testfile"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/logdriver"
	"github.com/podtask/podtask/pkg/taskdef/suggest"
)

// change returns the task as a test starts it: with free ports of this host, with volumes of its own, and with its
// output kept here. It returns all that the test names and the task does not have.
func change(t taskdef.Task, c testfile.Case) (taskdef.Task, []string) {
	t.Containers = slices.Clone(t.Containers)
	wrong := unknownNames(t, c)
	for i := range t.Containers {
		keepOutput(&t.Containers[i])
		freePorts(&t, i, c.Expect)
	}
	t.Published = true
	t.Volumes = slices.Clone(t.Volumes)
	for i, v := range t.Volumes {
		if v.Kind == taskdef.VolumeShared && !slices.Contains(c.KeepVolumes, v.Name) {
			t.Volumes[i].Kind, t.Volumes[i].External, t.Volumes[i].Autoprovision = taskdef.VolumeTask, "", false
		}
	}
	if err := t.Check(); err != nil && len(wrong) == 0 {
		wrong = append(wrong, err.Error())
	}
	return t, wrong
}

// replaceSources returns the task with other sources of secrets, by the source that the definition names.
func replaceSources(t taskdef.Task, sources map[string]string) taskdef.Task {
	t.Containers = slices.Clone(t.Containers)
	for i := range t.Containers {
		c := &t.Containers[i]
		c.Secrets, c.Extensions.SecretFiles = slices.Clone(c.Secrets), slices.Clone(c.Extensions.SecretFiles)
		for j, s := range c.Secrets {
			if source, ok := sources[s.Source]; ok {
				c.Secrets[j].Source = source
			}
		}
		for j, s := range c.Extensions.SecretFiles {
			if source, ok := sources[s.Source]; ok {
				c.Extensions.SecretFiles[j].Source = source
			}
		}
	}
	return t
}

// unknownNames reports the containers and volumes that a test names and the task does not have.
func unknownNames(t taskdef.Task, c testfile.Case) (wrong []string) {
	var containers, volumes []string
	for _, have := range t.Containers {
		containers = append(containers, have.Name)
	}
	for _, v := range t.Volumes {
		volumes = append(volumes, v.Name)
	}
	check := func(what, name string, have []string) {
		if name == "" || slices.Contains(have, name) {
			return
		}
		fix := suggest.Question(name, have)
		if fix == "" {
			fix = fmt.Sprintf("it has %v", have)
		}
		wrong = append(wrong, fmt.Sprintf("%s names %q, which the task does not have; %s", what, name, fix))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Stubs)) {
		if !slices.Contains(c.LeaveOut, name) {
			check("stubs", name, containers)
		}
	}
	for _, name := range c.KeepVolumes {
		check("keepVolumes", name, volumes)
	}
	for _, e := range c.Expect {
		for _, name := range containersOf(e) {
			check(fmt.Sprintf("the check in line %d", e.Line), name, containers)
		}
	}
	return wrong
}

// containersOf returns the containers that a check names.
func containersOf(c testfile.Check) []string {
	if p := portOf(c); p != nil {
		return []string{p.Container}
	}
	switch {
	case c.Exit != nil:
		return []string{c.Exit.Container}
	case c.Log != nil:
		return []string{c.Log.Container}
	case c.File != nil:
		return []string{c.File.Container}
	}
	return slices.DeleteFunc(slices.Clone(c.Healthy), func(name string) bool { return name == "all" })
}

// portOf returns the port that a check connects to; nil for none.
func portOf(c testfile.Check) *testfile.Endpoint {
	switch {
	case c.HTTP != nil:
		return &c.HTTP.Endpoint
	case c.GRPC != nil:
		return &c.GRPC.Endpoint
	case c.Metric != nil:
		return &c.Metric.Endpoint
	}
	return nil
}

// stubsOf returns the stubs of a test as containers.
func stubsOf(c testfile.Case) map[string]taskdef.Container {
	all := make(map[string]taskdef.Container)
	for name, s := range c.Stubs {
		stub := taskdef.Container{Image: s.Image, EntryPoint: s.EntryPoint, Command: s.Command, Environment: variables(s.Environment)}
		if len(s.HealthCheck) > 0 {
			stub.HealthCheck = &taskdef.HealthCheck{Command: s.HealthCheck, Interval: stubInterval, Timeout: stubInterval, Retries: stubRetries}
		}
		all[name] = stub
	}
	return all
}

// keepOutput keeps the output of a container on this host, unless it goes to a router of the task.
func keepOutput(c *taskdef.Container) {
	if c.Log != nil && c.Log.Driver != logdriver.FireLens {
		c.Log = nil
	}
}

// freePorts publishes the ports of container i, and those that checks connect to, at free ports of the loopback. In
// network mode host, ports are what the containers choose.
func freePorts(t *taskdef.Task, i int, checks []testfile.Check) {
	if t.Network == taskdef.NetworkHost {
		return
	}
	c := &t.Containers[i]
	c.Ports = slices.Clone(c.Ports)
	for j := range c.Ports {
		p := &c.Ports[j]
		p.HostPort, p.AWSVPCHostPort, p.AnyOf, p.HostIP = 0, 0, taskdef.PortSpan{}, loopback
	}
	for _, check := range checks {
		want := portOf(check)
		if want == nil || want.Container != c.Name || publishes(*c, want.Port) {
			continue
		}
		c.Ports = append(c.Ports, taskdef.Port{ContainerPort: uint16(want.Port), Protocol: "tcp", HostIP: loopback})
	}
}

const loopback = "127.0.0.1"

func publishes(c taskdef.Container, port int) bool {
	return slices.ContainsFunc(c.Ports, func(p taskdef.Port) bool {
		return p.Protocol == "tcp" && int(p.ContainerPort) <= port && port < int(p.ContainerPort)+p.Count()
	})
}

// variables returns variables in the order of their names.
func variables(values map[string]string) (all []taskdef.EnvVar) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		all = append(all, taskdef.EnvVar{Name: name, Value: values[name]})
	}
	return all
}
