package taskspec

import (
	"maps"

	"github.com/podtask/podtask/internal/logs/firelens"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// RouterListens reports whether the log router of a task listens on a port: not where others than
// the task could reach it, or nothing could (ECS: bridge and awsvpc).
func RouterListens(t taskdef.Task) bool {
	return t.Network == taskdef.NetworkBridge || t.Network == taskdef.NetworkAWSVPC
}

// routerEnv are the variables that lead container i to the log router, or that a router has.
func routerEnv(s lifecycle.State, i int) map[string]string {
	router := taskdef.RouterOf(s.Task, s.Options.Logs)
	switch {
	case router < 0:
		return nil
	case i == router && s.Task.Containers[i].FireLens.Fluentd():
		return map[string]string{"FLUENT_UID": "0"}
	case !taskdef.RoutedBy(s.Task, router, i) || !RouterListens(s.Task):
		return nil
	case s.Task.Bridged():
		return map[string]string{"FLUENT_HOST": s.Task.Containers[router].Name, "FLUENT_PORT": firelens.Port}
	}
	return map[string]string{"FLUENT_HOST": "127.0.0.1", "FLUENT_PORT": firelens.Port}
}

// RouterConfig is the configuration of the log router of a task.
func RouterConfig(s lifecycle.State) []byte {
	router := taskdef.RouterOf(s.Task, s.Options.Logs)
	c := s.Task.Containers[router]
	f := firelens.Router{Fluentd: c.FireLens.Fluentd(), Include: c.FireLens.Include(), Memory: c.Memory >> 20}
	if c.MemoryReservation > 0 {
		f.Memory = c.MemoryReservation >> 20
	}
	switch s.Task.Network {
	case taskdef.NetworkBridge:
		f.Bind = "0.0.0.0"
	case taskdef.NetworkAWSVPC:
		f.Bind = "127.0.0.1"
	}
	if c.FireLens.Metadata() {
		f.Metadata = map[string]string{
			"ecs_cluster": Cluster(s), "ecs_task_arn": TaskARN(s), "ecs_task_definition": s.Task.Family + ":" + Revision(s),
		}
	}
	for i, c := range s.Task.Containers {
		if !taskdef.RoutedBy(s.Task, router, i) {
			continue
		}
		o := firelens.Output{Container: c.Name, Options: make(map[string]string)}
		maps.Copy(o.Options, c.Log.Options)
		for _, secret := range c.Log.SecretOptions {
			_, reference := firelens.SecretVariable(f.Fluentd, secret.Name, i)
			o.Options[secret.Name] = reference
		}
		f.Outputs = append(f.Outputs, o)
	}
	return f.Config()
}
