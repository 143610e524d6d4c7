//go:build e2e && bed_vm

package vm

import (
	"strconv"
	"syscall"
	"testing"
)

// startAgent starts an agent as a unit, which ends with the test, and returns its
// process.
func startAgent(t *testing.T, unit string) (pid int) {
	t.Helper()
	must(t, "systemd-run", "--user", "--unit="+unit, "--property=Type=notify", "--property=KillMode=process", "--collect", bin(), "agent")
	t.Cleanup(func() { _, _, _ = command(t, "systemctl", "--user", "stop", unit) })
	pid, err := strconv.Atoi(must(t, "systemctl", "--user", "show", "--property=MainPID", "--value", unit))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// An agent that is killed and started again finds task, slice and limits as they were.
func TestLimitsAfterARestartOfTheAgent(t *testing.T) {
	first := startAgent(t, "podtask-agent-first")
	id := detach(t, define(t, "agent", "512", "96", box("app", "sleep forever", 32)))
	if owner := inspect(t, id).Owner.PID; owner != first {
		t.Fatalf("process %d owns the task, not the agent, %d", owner, first)
	}
	container := inspect(t, id).Containers[0].RuntimeID
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	second := startAgent(t, "podtask-agent-second")
	eventually(t, "the task of the second agent", func() bool { return inspect(t, id).Owner.PID == second })
	for file, want := range map[string]string{"memory.max": "100663296", "cpu.max": "50000 100000"} {
		if got := setting(t, sliceOf(id), file); got != want {
			t.Errorf("%s is %s, want %s", file, got, want)
		}
	}
	if got := memoryOf(t, scope(t, sliceOf(id), container)); got != "33554432" {
		t.Errorf("the container's memory.max is %s, want 33554432", got)
	}
	if now := inspect(t, id); now.Status != "RUNNING" || now.Containers[0].RuntimeID != container {
		t.Errorf("the task is %s, its container %s, before %s", now.Status, now.Containers[0].RuntimeID, container)
	}
	podtask(t, "stop", id)
}

// A new owner gives the slice of its task the limits that were removed from it before. The
// unit of the owner that was killed starts the new one.
func TestLimitsAreGivenBackAtAdoption(t *testing.T) {
	id := detach(t, define(t, "adopted", "512", "96", box("app", "sleep forever", 32)))
	files := []string{"memory.max", "memory.swap.max", "cpu.max", "pids.max"}
	settings := func() (all string) {
		for _, file := range files {
			all += file + " " + setting(t, sliceOf(id), file) + "; "
		}
		return all
	}
	before := settings()
	container, first := inspect(t, id).Containers[0].RuntimeID, inspect(t, id).Owner.PID
	must(t, "systemctl", "--user", "set-property", "--runtime", "podtask"+id+".slice",
		"MemoryMax=infinity", "MemorySwapMax=infinity", "CPUQuota=", "TasksMax=infinity")
	if got, want := settings(), "memory.max max; memory.swap.max max; cpu.max max 100000; pids.max max; "; got != want {
		t.Fatalf("the slice has %s, want %s", got, want)
	}
	killOwner(t, id)
	eventually(t, "another owner", func() bool {
		owner := inspect(t, id).Owner
		return owner.Alive && owner.PID != first
	})
	eventually(t, before, func() bool { return settings() == before })
	if now := inspect(t, id); now.Status != "RUNNING" || now.Containers[0].RuntimeID != container {
		t.Errorf("the task is %s, its container %s, before %s", now.Status, now.Containers[0].RuntimeID, container)
	}
	podtask(t, "stop", id)
}
