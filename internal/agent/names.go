package agent

import (
	"strconv"

	"github.com/podtask/podtask/pkg/lifecycle"
)

// Names and labels of everything a task owns. They follow from the task alone, so
// that an effect done twice finds its own first result.

// podName is at most 62 bytes: "podtask-", 40 of the family, a dash, 12 of the id.
func podName(s lifecycle.State) string {
	family := s.Task.Family
	if len(family) > 40 {
		family = family[:40]
	}
	return "podtask-" + family + "-" + s.ID[:12]
}

func containerName(s lifecycle.State, i int) string {
	return podName(s) + "-" + s.Task.Containers[i].Name
}

// labels are podtask's own and the ECS agent's five. i < 0 stands for the pod.
func labels(s lifecycle.State, i int) map[string]string {
	revision := strconv.Itoa(s.Task.Revision)
	m := map[string]string{
		"podtask.task-id":  s.ID,
		"podtask.family":   s.Task.Family,
		"podtask.revision": revision,

		"com.amazonaws.ecs.cluster":                 "podtask",
		"com.amazonaws.ecs.task-arn":                "arn:aws:ecs:local:000000000000:task/podtask/" + s.ID,
		"com.amazonaws.ecs.task-definition-family":  s.Task.Family,
		"com.amazonaws.ecs.task-definition-version": revision,
	}
	if i < 0 {
		return m
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
