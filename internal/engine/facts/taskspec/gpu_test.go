package taskspec

import (
	"slices"
	"testing"

	"github.com/podtask/podtask/pkg/taskdef"
)

// As populateGPUEnvironmentVariables of the ECS agent, the variable replaces one of the
// definition, and only containers with GPUs have it.
func TestContainersGetTheirGPUs(t *testing.T) {
	t.Parallel()
	s := stateOf(taskdef.Task{Containers: []taskdef.Container{
		{Linux: taskdef.Linux{GPUs: 2}, Environment: []taskdef.EnvVar{{Name: "NVIDIA_VISIBLE_DEVICES", Value: "all"}}}, {},
	}})
	s.Sandbox.GPUs = []string{"nvidia.com/gpu=GPU-1", "nvidia.com/gpu=3"}
	a, b := Container(s, 0, "i"), Container(s, 1, "i")
	if !slices.Equal(a.CDI, s.Sandbox.GPUs) || a.Env["NVIDIA_VISIBLE_DEVICES"] != "GPU-1,3" {
		t.Errorf("devices %v, %s", a.CDI, a.Env["NVIDIA_VISIBLE_DEVICES"])
	}
	if _, set := b.Env["NVIDIA_VISIBLE_DEVICES"]; set || len(b.CDI) > 0 {
		t.Errorf("a container without a GPU: %v, %v", b.CDI, b.Env)
	}
}
