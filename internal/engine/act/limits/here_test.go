package limits_test

import (
	"fmt"
	"os"
	"testing"
	"testing/fstest"

	"github.com/podtask/podtask/internal/engine/act/limits"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// A task was created while cpu was delegated, and started again after it was not.
func TestImplicitSharesNeedTheController(t *testing.T) {
	t.Parallel()
	s := lifecycle.State{Options: lifecycle.Options{Quota: lifecycle.Quota{ImplicitShares: true, TasksMax: 7}}}
	for offered, want := range map[string]bool{"cpu memory pids": true, "memory pids": false} {
		c := &limits.Slices{Root: hostOffering(offered), Getenv: os.Getenv}
		got := c.Here(s)
		if got.Options.Quota.ImplicitShares != want || got.Options.Quota.TasksMax != 7 {
			t.Errorf("with %q: %+v", offered, got.Options.Quota)
		}
	}
	if !s.Options.Quota.ImplicitShares {
		t.Error("the task's own state has changed")
	}
}

func hostOffering(controllers string) fstest.MapFS {
	file := &fstest.MapFile{Data: []byte(controllers + "\n")}
	uid := os.Getuid()
	return fstest.MapFS{
		"sys/fs/cgroup/cgroup.controllers": file,
		managerPath(uid):                   file,
	}
}

func managerPath(uid int) string {
	return fmt.Sprintf("sys/fs/cgroup/user.slice/user-%[1]d.slice/user@%[1]d.service/cgroup.controllers", uid)
}
