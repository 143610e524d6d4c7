package convert

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/host/secretsource"
	"github.com/podtask/podtask/pkg/taskdef"
)

// Task writes the definition of a task that podtask has, whose own document is not
// kept. What the definition cannot say yet is found by reading it again. Elsewhere reports whether
// a source of a secret or an environment file, as env:NAME or file:PATH, is not there where the
// definition will be used.
func Task(name string, t taskdef.Task, elsewhere func(source string) bool) (Result, error) {
	b := Builder{Name: name}
	t, left := without(t, elsewhere)
	for _, c := range t.Containers {
		b.Def.Containers = append(b.Def.Containers, fromTask(t, c))
	}
	for _, v := range t.Volumes {
		b.Def.Volumes = append(b.Def.Volumes, volumeOf(v))
	}
	b.Def.NetworkMode = string(t.Network)
	if t.Memory > 0 {
		b.Def.Memory = fmt.Sprint(t.Memory >> 20)
	}
	if t.CPU > 0 {
		b.Def.CPU = fmt.Sprint(int(t.CPU * 1024))
	}
	b.Unit.Service = []string{"Restart=on-failure"}
	b.Unit.Install = []string{"WantedBy=default.target"}
	r, err := b.Result(name)
	if err != nil {
		return r, err
	}
	again, _, err := taskdef.Parse(name+".json", r.Definition)
	if err != nil {
		return r, fmt.Errorf("write the definition of %s: %w", name, err)
	}
	r.Lost, err = lost(t, again)
	r.Lost = append(left, r.Lost...)
	return r, err
}

// Sent returns what another machine sends for one run. Dir is where its files are while a command runs.
func Sent(dir string) (elsewhere func(source string) bool) {
	return func(source string) bool {
		return strings.HasPrefix(source, "env:"+secretsource.SentVariable) || strings.HasPrefix(source, "file:"+dir+string(filepath.Separator))
	}
}

// OfOneMachine reports whether a source is a file, variable or program of the machine that reads it. A definition that another
// host made must have none, because the values would be sent to that host.
func OfOneMachine(source string) bool {
	return taskdef.IsSecretSource(source) && !strings.HasPrefix(source, "podman:") && !strings.HasPrefix(source, "aws:")
}

// without returns a task without sources that are elsewhere. There is a line about each secret; the variables of environment
// files are in the record.
func without(t taskdef.Task, elsewhere func(source string) bool) (taskdef.Task, []string) {
	var lines []string
	t.Containers = slices.Clone(t.Containers)
	for i, c := range t.Containers {
		t.Containers[i].EnvironmentFiles = slices.DeleteFunc(slices.Clone(c.EnvironmentFiles), func(f taskdef.EnvironmentFile) bool {
			return elsewhere("file:" + f.Path)
		})
		t.Containers[i].Secrets = slices.DeleteFunc(slices.Clone(c.Secrets), func(s taskdef.Secret) bool {
			left := elsewhere(s.ValueFrom)
			if left {
				lines = append(lines, fmt.Sprintf("%s: secret %s, whose value came from a file or variable of another machine: store it with `podman secret create`, and write podman:NAME", c.Name, s.Name))
			}
			return left
		})
	}
	return t, lines
}

func fromTask(t taskdef.Task, c taskdef.Container) Container {
	out := Container{
		Name: c.Name, Image: c.Image, EntryPoint: c.EntryPoint, Command: c.Command, Essential: c.Essential,
		User: c.User, WorkingDirectory: c.WorkingDirectory, Labels: c.Labels, ReadOnly: c.ReadonlyRootFS,
		Memory: c.Memory >> 20, Reservation: c.MemoryReservation >> 20, CPU: c.CPU,
		StartTimeout: int(c.StartTimeout.Seconds()), StopTimeout: int(c.StopTimeout.Seconds()),
	}
	if c.Init {
		out.AddLinux().Init = true
	}
	for _, v := range c.Environment {
		out.Environment = append(out.Environment, Pair(v))
	}
	for _, f := range c.EnvironmentFiles {
		out.EnvironmentFiles = append(out.EnvironmentFiles, EnvFile{"s3", f.Path})
	}
	for _, s := range c.Secrets {
		if len(s.Parts) == 0 { // a definition cannot say of what parts a value is: lost names it
			out.Secrets = append(out.Secrets, Secret{s.Name, s.ValueFrom})
		}
	}
	for _, m := range c.Mounts {
		out.MountPoints = append(out.MountPoints, MountPoint{m.Volume, m.Path, m.ReadOnly})
	}
	for _, from := range c.VolumesFrom {
		out.VolumesFrom = append(out.VolumesFrom, VolumesFrom{t.Containers[from.Container].Name, from.ReadOnly})
	}
	for _, h := range c.Net.ExtraHosts {
		out.ExtraHosts = append(out.ExtraHosts, Host(h))
	}
	if l := c.Linux; len(l.CapAdd)+len(l.CapDrop) > 0 {
		out.AddLinux().Capabilities = &Capabilities{l.CapAdd, l.CapDrop}
	}
	if r := c.Restart; r != nil {
		out.Restart = &RestartPolicy{Enabled: true, IgnoredExitCodes: r.IgnoredExitCodes, AttemptPeriod: int(r.AttemptPeriod.Seconds())}
		if r.BackOff > 0 || r.MaxCount > 0 {
			out.Restart.Extra = &BackOff{int(r.BackOff.Seconds()), r.MaxCount}
		}
	}
	for _, p := range c.Ports {
		m := Port{ContainerPort: int(p.ContainerPort), HostPort: int(p.HostPort), Protocol: p.Protocol}
		extra := PortExtra{HostIP: p.HostIP}
		if p.AnyOf.Given() {
			extra.HostPortRange = p.AnyOf.String()
		}
		if extra != (PortExtra{}) {
			m.Extra = &extra
		}
		out.PortMappings = append(out.PortMappings, m)
	}
	for _, d := range c.DependsOn {
		out.DependsOn = append(out.DependsOn, Dependency{t.Containers[d.Container].Name, string(d.Condition)})
	}
	if h := c.HealthCheck; h != nil {
		out.HealthCheck = &HealthCheck{Command: h.Command, Interval: int(h.Interval.Seconds()), Timeout: int(h.Timeout.Seconds()), Retries: h.Retries, StartPeriod: int(h.StartPeriod.Seconds())}
	}
	return out
}

func volumeOf(v taskdef.Volume) Volume {
	out := Volume{Name: v.Name}
	switch v.Kind {
	case taskdef.VolumeBind:
		out.Host = &hostVolume{v.HostPath}
	case taskdef.VolumeShared:
		out.Docker = &DockerVolume{Scope: "shared", Autoprovision: v.Autoprovision}
	}
	return out
}

// lost lists the members in which two tasks differ.
func lost(t, again taskdef.Task) ([]string, error) {
	members := func(v any) (m map[string]any, err error) {
		data, err := json.Marshal(v)
		if err == nil {
			err = json.Unmarshal(data, &m)
		}
		return m, err
	}
	var out []string
	compare := func(where string, a, b any, but ...string) error {
		x, err := members(a)
		if err != nil {
			return err
		}
		y, err := members(b)
		if err != nil {
			return err
		}
		for _, key := range slices.Sorted(maps.Keys(x)) {
			if !slices.Contains(but, key) && !reflect.DeepEqual(x[key], y[key]) {
				out = append(out, where+key)
			}
		}
		return nil
	}
	if err := compare("", t, again, "containers", "family", "revision"); err != nil {
		return nil, err
	}
	for i := range t.Containers {
		if err := compare(t.Containers[i].Name+": ", t.Containers[i], again.Containers[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}
