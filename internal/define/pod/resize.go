package pod

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// Resize returns the resources that a task has once members resources of its Pod have changed:
// those of containers by their names, and those of the Pod itself, which nil leaves as they are. Containers are
// restarted for them where their resizePolicy says so.
// The task must have been made from a Pod. The error is a *taskdef.InvalidError with all problems
// at once; their pointers are those of the Pod.
func Resize(t taskdef.Task, containers map[string]json.RawMessage, whole json.RawMessage) (lifecycle.Resources, error) {
	p, err := From("", t)
	if err != nil {
		return lifecycle.Resources{}, err
	}
	rep := &report{file: "resources"}
	source, err := p.withResources(containers, whole)
	if err != nil {
		rep.problems = append(rep.problems, taskdef.Problem{File: rep.file, Line: 1, Column: 1, Message: err.Error()})
		return lifecycle.Resources{}, &taskdef.InvalidError{Name: rep.file, Problems: rep.problems}
	}
	nodes, err := taskdef.ReadSource(rep.file, source).Documents()
	if err != nil {
		return lifecycle.Resources{}, err
	}
	doc := value{rep, nodes[0], "", nodes[0].Line, nodes[0].Col}
	b := &reader{manifest: &manifest{report: rep, owner: doc, meta: doc.at("metadata"), spec: doc.at("spec")}, options: Options{Memory: p.HostMemory}}
	b.result.Task, b.result.Pod = lifecycle.Resources{Containers: make([]lifecycle.ContainerResources, len(t.Containers))}.Apply(t), p
	checker{rep, false}.check(b.spec.at("resources"), "ResourceRequirements")
	for _, member := range []string{"initContainers", "containers"} {
		for _, v := range b.spec.at(member).items() {
			checker{rep, false}.check(v.at("resources"), "ResourceRequirements")
			b.containers = append(b.containers, v)
		}
	}
	if len(b.containers) != len(t.Containers) {
		return lifecycle.Resources{}, errPod
	}
	for i := range b.containers {
		b.requests(i)
	}
	b.resources()
	b.checkTask()
	if len(rep.problems) > 0 {
		return lifecycle.Resources{}, &taskdef.InvalidError{Name: rep.file, Problems: rep.problems}
	}
	b.result.Pod.Source = source
	r := lifecycle.ResourcesOf(b.result.Task)
	before := lifecycle.ResourcesOf(t)
	for i, v := range b.containers {
		if restartedFor(v.at("resizePolicy"), before.Containers[i], r.Containers[i]) {
			r.Restart = append(r.Restart, i)
		}
	}
	r.Pod, err = json.Marshal(b.result.Pod)
	return r, err
}

// The words of a resizePolicy.
const notRequired, restartContainer = "NotRequired", "RestartContainer"

// restartedFor reports whether a container with a resizePolicy is to be restarted to have other resources.
func restartedFor(policies value, before, after lifecycle.ContainerResources) bool {
	changed := map[string]bool{
		"cpu":    before.CPU != after.CPU || before.CPULimit != after.CPULimit,
		"memory": before.Memory != after.Memory || before.MemoryReservation != after.MemoryReservation,
	}
	return slices.ContainsFunc(policies.items(), func(p value) bool {
		return p.at("restartPolicy").str() == restartContainer && changed[p.at("resourceName").str()]
	})
}

// withResources is the Pod's document with other resources.
func (p Pod) withResources(containers map[string]json.RawMessage, whole json.RawMessage) (json.RawMessage, error) {
	var doc map[string]json.RawMessage
	var spec map[string]json.RawMessage
	if len(p.Source) == 0 || json.Unmarshal(p.Source, &doc) != nil || string(doc["kind"]) != `"Pod"` || json.Unmarshal(doc["spec"], &spec) != nil {
		return nil, fmt.Errorf("the task was not made from a Pod, so its containers have no resources to change")
	}
	left := maps.Clone(containers)
	for _, member := range []string{"initContainers", "containers"} {
		var list []map[string]json.RawMessage
		if len(spec[member]) == 0 || json.Unmarshal(spec[member], &list) != nil {
			continue
		}
		for _, c := range list {
			var name string
			_ = json.Unmarshal(c["name"], &name) // it was a string when the task was made
			if to, found := containers[name]; found {
				c["resources"] = to
				delete(left, name)
			}
		}
		text, err := json.Marshal(list)
		if err != nil {
			return nil, fmt.Errorf("the resources of the containers: %w", err)
		}
		spec[member] = text
	}
	if len(left) > 0 {
		return nil, fmt.Errorf("the Pod has no container %s", strings.Join(slices.Sorted(maps.Keys(left)), ", "))
	}
	if whole != nil {
		spec["resources"] = whole
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("the resources of the Pod: %w", err)
	}
	doc["spec"] = text
	return json.Marshal(doc)
}
