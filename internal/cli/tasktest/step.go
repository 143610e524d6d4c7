package tasktest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/define/testfile"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/taskdef"
)

// stepTask returns the task of a step: one container in the network of the host. Addresses are variables besides
// those of the step.
func stepTask(s testfile.Step, addresses map[string]string) (taskdef.Task, error) {
	env := maps.Clone(addresses)
	if env == nil {
		env = make(map[string]string)
	}
	maps.Copy(env, s.Environment)
	container := map[string]any{"name": stepContainer, "image": s.Image, "essential": true, "memory": stepMemory}
	for name, value := range map[string][]string{"entryPoint": s.EntryPoint, "command": s.Command} {
		if len(value) > 0 {
			container[name] = value
		}
	}
	if all := variables(env); len(all) > 0 {
		container["environment"] = all
	}
	src, err := json.Marshal(map[string]any{"family": "step", "networkMode": "host", "containerDefinitions": []any{container}})
	if err != nil {
		return taskdef.Task{}, err
	}
	t, _, err := taskdef.Settings{}.Parse("the step "+stepName(s), src)
	return t, err
}

// stepContainer is the name of the container of a step, stepMemory its limit in MiB.
const (
	stepContainer = "step"
	stepMemory    = 1024
)

// stepName is the name of a step in reports.
func stepName(s testfile.Step) string {
	return cmp.Or(s.Name, strings.TrimSpace(s.Image+" "+strings.Join(s.Command, " ")))
}

// addresses returns the variables ADDRESS_CONTAINER_PORT of a task, such as ADDRESS_WEB_80.
func addresses(t api.Task) map[string]string {
	all := make(map[string]string)
	for _, c := range t.Containers {
		for _, p := range slices.Concat(c.Ports, t.Ports) {
			if address := addressOf(t, c.Name, int(p.ContainerPort)); address != "" {
				name := strings.Map(func(r rune) rune {
					if r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
						return r
					}
					return '_'
				}, strings.ToUpper(c.Name))
				all[fmt.Sprintf("ADDRESS_%s_%d", name, p.ContainerPort)] = address
			}
		}
	}
	return all
}

// addressOf returns the address on this host of a port of a container; empty if it is not published yet.
func addressOf(t api.Task, container string, port int) string {
	if t.NetworkMode == string(taskdef.NetworkHost) {
		return fmt.Sprintf("%s:%d", loopback, port)
	}
	for _, c := range t.Containers {
		if c.Name != container {
			continue
		}
		for _, p := range slices.Concat(c.Ports, t.Ports) {
			if int(p.ContainerPort) == port && p.HostPort != 0 && p.Protocol == "tcp" {
				return fmt.Sprintf("%s:%d", loopback, p.HostPort)
			}
		}
	}
	return ""
}
