package taskspec

import (
	"cmp"
	"strconv"

	"github.com/podtask/podtask/internal/engine/facts/arn"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// Names and labels of everything a task owns. They follow from the task alone, so
// that an effect done twice finds its own first result.

// PodName is at most 62 bytes: "podtask-", 40 of the family, a dash, 12 of the id.
func PodName(s lifecycle.State) string {
	family := s.Task.Family
	if len(family) > 40 {
		family = family[:40]
	}
	return "podtask-" + family + "-" + s.ID[:12]
}

// ContainerName is the name of a task's container in Podman.
func ContainerName(s lifecycle.State, i int) string {
	return PodName(s) + "-" + s.Task.Containers[i].Name
}

// NetworkName is the name of a bridged task's network, its own or one that it joins.
func NetworkName(s lifecycle.State) string {
	if name, joins := s.Task.Joined(); joins {
		return name
	}
	return PodName(s)
}

// OwnsNetwork reports whether a network is made and removed with the task.
func OwnsNetwork(s lifecycle.State) bool {
	_, joins := s.Task.Joined()
	return s.Task.Bridged() && !joins
}

// Cluster is the name of the ECS cluster that a task is in.
func Cluster(s lifecycle.State) string {
	if _, cluster, ok := arn.OfECS(s.Task.Identity.Tags); ok {
		return cluster
	}
	return cmp.Or(s.Options.Cluster, arn.DefaultCluster)
}

// TaskARN returns the ARN of the task. A task that ECS placed here has that of ECS.
func TaskARN(s lifecycle.State) string {
	if task, _, ok := arn.OfECS(s.Task.Identity.Tags); ok {
		return task
	}
	return arn.Task(Cluster(s), s.ID)
}

// Revision returns the revision of the task's definition, ECS's if ECS placed the task here.
func Revision(s lifecycle.State) string {
	if _, _, ok := arn.OfECS(s.Task.Identity.Tags); ok && s.Task.Identity.Tags[arn.TagRevision] != "" {
		return s.Task.Identity.Tags[arn.TagRevision]
	}
	return strconv.Itoa(s.Task.Revision)
}

// tagLabel comes before the key of a tag.
const tagLabel = "podtask.tag."

// Labels are podtask's own, the ECS agent's five and those of Podman for what a
// systemd unit runs. i < 0 stands for the pod and the network.
func Labels(s lifecycle.State, i int) map[string]string {
	revision := strconv.Itoa(s.Task.Revision)
	m := map[string]string{
		"podtask.task-id":  s.ID,
		"podtask.family":   s.Task.Family,
		"podtask.revision": revision,

		"com.amazonaws.ecs.cluster":                 Cluster(s),
		"com.amazonaws.ecs.task-arn":                TaskARN(s),
		"com.amazonaws.ecs.task-definition-family":  s.Task.Family,
		"com.amazonaws.ecs.task-definition-version": Revision(s),
	}
	for k, v := range s.Task.Identity.Tags {
		m[tagLabel+k] = v
	}
	if s.Options.Service != "" {
		m["podtask.service"], m["podtask.deployment"] = s.Options.Service, s.Options.Deployment
	}
	if s.Options.Unit != "" {
		m["PODMAN_SYSTEMD_UNIT"] = s.Options.Unit
	}
	if i < 0 {
		return m
	}
	if s.Options.AutoUpdate != "" {
		m[lifecycle.AutoUpdateLabel] = s.Options.AutoUpdate
	}
	c := s.Task.Containers[i]
	m["podtask.container"] = c.Name
	m["com.amazonaws.ecs.container-name"] = c.Name
	for k, v := range c.Labels {
		if _, ours := m[k]; !ours {
			m[k] = v
		}
	}
	return m
}

// TaskRef returns the reference that a user types for the task.
func TaskRef(s lifecycle.State) string {
	if s.Name != "" {
		return s.Name
	}
	return s.ID[:12]
}
