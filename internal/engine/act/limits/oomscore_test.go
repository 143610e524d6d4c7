package limits

import (
	"log/slog"
	"os/exec"
	"strconv"
	"testing"
	"testing/fstest"

	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// A container that is restarted for other resources has the oom_score_adj that goes with them.
func TestChangedResourcesChangeTheOOMScore(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("cat")
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		input.Close()
		_ = cmd.Wait()
	}()
	c := &Slices{Log: slog.New(slog.DiscardHandler), Root: fstest.MapFS{"sys/fs/cgroup/a.scope/cgroup.procs": {Data: []byte(strconv.Itoa(cmd.Process.Pid))}}}
	s := lifecycle.State{Task: taskdef.Task{Containers: make([]taskdef.Container, 1)}}
	before, _ := libpod.OOMScoreAdj(cmd.Process.Pid)
	for _, step := range [][2]int{{0, before}, {1000, 1000}} {
		s.Task.Containers[0].Extensions.Kube.OOMScoreAdj = step[0]
		c.setOOMScore(t.Context(), s, 0, "a.scope")
		if got, _ := libpod.OOMScoreAdj(cmd.Process.Pid); got != step[1] {
			t.Errorf("with %d the process has %d, want %d", step[0], got, step[1])
		}
	}
}
