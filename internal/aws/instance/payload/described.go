package payload

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/podtask/podtask/internal/aws/instance/wire"
	"github.com/podtask/podtask/internal/engine/facts/arn"
)

// Described returns the plan of a task from its definition, as DescribeTaskDefinition has it. Of the
// payload it takes what a definition does not have: what RunTask overrides, the network mode of the launch,
// and the roles. The definition has each setting in its own words, so none is refused here.
func Described(definition json.RawMessage, t wire.Task, instance string) (Plan, []Problem) {
	var d object
	if err := json.Unmarshal(definition, &d); err != nil || d == nil {
		return Plan{}, []Problem{{Name: "TaskStateError", Text: "the definition that ECS describes is not a JSON object"}}
	}
	// Values, roles, devices and overrides come in the payload alone.
	b := &builder{}
	own := b.overridden(t)
	for _, name := range []string{"networkMode", "cpu", "memory", "taskRoleArn", "executionRoleArn"} {
		if v, has := own[name]; has {
			d[name] = v
		} else {
			delete(d, name)
		}
	}
	list, _ := d["containerDefinitions"].([]any)
	containers := make(map[string]object)
	for _, c := range list {
		if o, ok := c.(object); ok {
			nameStream(o, t.ARN)
			containers[fmt.Sprint(o["name"])] = o
		}
	}
	for _, c := range own["containerDefinitions"].([]object) {
		name := fmt.Sprint(c["name"])
		to, ok := containers[name]
		if !ok {
			b.at = name
			b.problem("TaskStateError", "the definition that ECS describes has no such container")
			continue
		}
		delete(containers, name)
		if to["resourceRequirements"] != nil && len(t.Associations) == 0 {
			b.at = name
			b.refuse("resourceRequirements", noGPUs)
		}
		for _, member := range []string{"command", "cpu", "memory", "environment", "environmentFiles", "repositoryCredentials"} {
			if v, has := c[member]; has {
				to[member] = v
			} else if member != "command" { // the image's own, or the definition's
				delete(to, member)
			}
		}
	}
	b.at = ""
	for _, name := range slices.Sorted(maps.Keys(containers)) {
		b.problem("TaskStateError", "the payload has no container %s of the definition", name)
	}
	if len(b.problems) > 0 {
		return Plan{}, b.problems
	}
	d["tags"] = tagsOf(t, instance)
	text, err := json.Marshal(d)
	if err != nil {
		return Plan{}, []Problem{{Text: err.Error()}}
	}
	return Plan{text, b.needs}, nil
}

// overridden is the definition that the payload alone gives, without Docker's structures.
func (b *builder) overridden(t wire.Task) object {
	bare := t
	bare.Containers = slices.Clone(t.Containers)
	logs := false
	for i, c := range t.Containers {
		logs = logs || usesAWSLogs(c)
		bare.Containers[i].Docker, bare.Containers[i].HealthCheckType, bare.Containers[i].Secrets = wire.DockerConfig{}, "", nil
		for _, s := range c.Secrets {
			b.secret(s)
		}
	}
	d := b.task(bare)
	if logs {
		b.logRole(t)
	}
	return d
}

// nameStream gives a container whose stream has a prefix its name on ECS, PREFIX/CONTAINER/ID of the task: the agent would take
// its own ID.
func nameStream(c object, task string) {
	logs, _ := c["logConfiguration"].(object)
	options, _ := logs["options"].(object)
	prefix, _ := options["awslogs-stream-prefix"].(string)
	if logs["logDriver"] != "awslogs" || prefix == "" {
		return
	}
	delete(options, "awslogs-stream-prefix")
	if options["awslogs-stream"] == nil {
		options["awslogs-stream"] = prefix + "/" + fmt.Sprint(c["name"]) + "/" + path.Base(task)
	}
}

// usesAWSLogs reports whether the lines of a container go to CloudWatch Logs.
func usesAWSLogs(c wire.Container) bool {
	var host struct{ LogConfig struct{ Type string } }
	return json.Unmarshal([]byte(c.Docker.HostConfig), &host) == nil && host.LogConfig.Type == "awslogs"
}

func tagsOf(t wire.Task, instance string) []map[string]string {
	return []map[string]string{{"key": arn.TagTask, "value": t.ARN}, {"key": arn.TagInstance, "value": instance}, {"key": arn.TagRevision, "value": t.Version}}
}
