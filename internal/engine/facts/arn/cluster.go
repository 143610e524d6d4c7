package arn

import "github.com/podtask/podtask/internal/lazy"

// Tags of a task that came from an ECS cluster, whose ARN is then ECS's.
const (
	TagTask     = "ecs.task"
	TagInstance = "ecs.instance"
	TagRevision = "ecs.revision"
)

var taskOfECS = lazy.MustCompile(`^arn:aws[a-z-]*:ecs:[a-z0-9-]+:[0-9]{12}:task/([a-zA-Z0-9_-]{1,255})/[a-zA-Z0-9-]{1,64}$`)

// OfECS returns the ARN and the cluster of a task that came from ECS, from its tags; ok is false for
// others.
func OfECS(tags map[string]string) (task, cluster string, ok bool) {
	tag, found := tags[TagTask]
	if !found {
		return "", "", false
	}
	m := taskOfECS.FindStringSubmatch(tag)
	if m == nil {
		return "", "", false
	}
	return m[0], m[1], true
}
