//go:build e2e && bed_vm

package vm

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// podStatus is what the test looks at of a Pod.
type podStatus struct {
	Status struct {
		Phase             string
		ContainerStatuses []struct {
			Name             string
			RestartCount     int
			State, LastState struct {
				Running, Waiting *struct{ Reason string }
				Terminated       *struct {
					Reason   string
					ExitCode int
				}
			}
		}
	}
}

func podStatusOf(t *testing.T, ref string) podStatus {
	t.Helper()
	var all []podStatus
	out := podtask(t, "inspect", "--format", "podstatus", ref)
	if err := json.Unmarshal([]byte(out), &all); err != nil || len(all) != 1 || len(all[0].Status.ContainerStatuses) != 2 {
		t.Fatalf("%v: %s", err, out)
	}
	return all[0]
}

// greedyPod is a Pod with a container that takes more memory than it may.
func greedyPod(t *testing.T, name, policy string) (path string) {
	t.Helper()
	leavesNothing(t)
	path = filepath.Join(t.TempDir(), "pod.yaml")
	text := strings.NewReplacer("@NAME", name, "@POLICY", policy, "@IMAGE", image).Replace(`
apiVersion: v1
kind: Pod
metadata: {name: @NAME}
spec:
  restartPolicy: @POLICY
  terminationGracePeriodSeconds: 1
  containers:
    - {name: greedy, image: "@IMAGE", args: [alloc, "64"], resources: {limits: {memory: 32Mi}}}
    - {name: modest, image: "@IMAGE", args: [sleep, forever], resources: {limits: {memory: 32Mi}}}
`)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// One container of a Pod is killed for memory: it ends as OOMKilled, the other one runs on,
// and the restart policy decides.
func TestPodContainerOutOfMemory(t *testing.T) {
	t.Run("OnFailure", func(t *testing.T) {
		id := podtask(t, "run", "-d", greedyPod(t, "again", "OnFailure"))
		t.Cleanup(func() { podtask(t, "rm", "--force", "--ignore", id) })
		eventually(t, "a restart after the kill", func() bool {
			return podStatusOf(t, id).Status.ContainerStatuses[0].RestartCount > 0
		})
		got := podStatusOf(t, id).Status
		greedy, modest := got.ContainerStatuses[0], got.ContainerStatuses[1]
		last := greedy.LastState.Terminated
		if got.Phase != "Running" || last == nil || last.Reason != "OOMKilled" || last.ExitCode != 137 {
			t.Errorf("phase %s, %+v: %+v", got.Phase, greedy, last)
		}
		if modest.State.Running == nil || modest.RestartCount != 0 {
			t.Errorf("the other container: %+v", modest)
		}
	})
	t.Run("Never", func(t *testing.T) {
		path := greedyPod(t, "once", "Never")
		id := podtask(t, "run", "-d", path)
		t.Cleanup(func() { podtask(t, "rm", "--force", "--ignore", id) })
		eventually(t, "an end", func() bool { return podStatusOf(t, id).Status.ContainerStatuses[0].State.Terminated != nil })
		greedy := podStatusOf(t, id).Status.ContainerStatuses[0]
		if end := greedy.State.Terminated; end.Reason != "OOMKilled" || end.ExitCode != 137 || greedy.RestartCount != 0 {
			t.Errorf("%+v: %+v", greedy, end)
		}
	})
}
