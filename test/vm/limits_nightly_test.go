//go:build e2e && bed_vm && nightly

package vm

import (
	"fmt"
	"strings"
	"testing"
)

// Rows 36 and 37 of the ECS agent's integration tests: Podman is told memory and swap
// together, and a reservation is protected.
func TestSwapReservationAndHardLimitOfAContainer(t *testing.T) {
	app := box("app", "sleep forever", 32)
	app.Reservation, app.Linux, app.Beyond = 16, map[string]any{"maxSwap": 8}, map[string]any{"cpuLimit": 0.25}
	id := detach(t, define(t, "swap", "512", "96", app))
	container := inspect(t, id).Containers[0].RuntimeID
	// crun 1.21 takes the sum for the swap; podtask corrects that.
	if got := must(t, "podman", "inspect", "--format", "{{.HostConfig.MemorySwap}}", container); got != "41943040" {
		t.Errorf("memory and swap are %s, want 41943040", got)
	}
	group := scope(t, sliceOf(id), container)
	for _, c := range []struct{ file, none, want string }{
		{"memory.max", "max", "33554432"}, {"memory.low", "0", "16777216"}, {"cpu.max", "max 100000", "25000 100000"},
		{"memory.swap.max", "max", "8388608"},
	} {
		if got := within(t, group, c.file, c.none); got != c.want {
			t.Errorf("%s is %s, want %s", c.file, got, c.want)
		}
	}
}

// Shares are a container's weight within the task and the task's among tasks;
// reservations are protected, and throttle a task that uses nearly all it may.
func TestSharesAndReservations(t *testing.T) {
	half, full := box("half", "sleep forever", 0), box("full", "sleep forever", 40)
	half.CPU, half.Reservation = 128, 16
	full.CPU, full.Reservation = 512, 24
	id := detach(t, define(t, "shares", "", "96", half, full))
	slice, curve := sliceOf(id), runtimeCurve(t)
	// 40 MiB and nine tenths of the 56 beyond; the kernel keeps whole pages.
	for file, want := range map[string]string{"memory.low": "41943040", "memory.high": "94789632", "cpu.max": "max 100000", "cpu.weight": fmt.Sprint(curve.Weight(128 + 512))} {
		if got := setting(t, slice, file); got != want {
			t.Errorf("%s of the task is %s, want %s", file, got, want)
		}
	}
	task := inspect(t, id)
	for i, shares := range []uint64{128, 512} {
		group := scope(t, slice, task.Containers[i].RuntimeID)
		if got, want := within(t, group, "cpu.weight", "100"), fmt.Sprint(curve.Weight(shares)); got != want {
			t.Errorf("%d shares are the weight %s of a container, want %s", shares, got, want)
		}
	}
}

// A container without cpu has the smallest weight, so that it cannot outweigh the app.
func TestSidecarWithoutCPUHasTheSmallestWeight(t *testing.T) {
	app, side := box("app", "sleep forever", 0), box("side", "sleep forever", 0)
	app.CPU = 256
	id := detach(t, define(t, "implicit", "", "96", app, side))
	slice, curve := sliceOf(id), runtimeCurve(t)
	if got, want := setting(t, slice, "cpu.weight"), fmt.Sprint(curve.Weight(256+2)); got != want {
		t.Errorf("cpu.weight of the task is %s, want %s", got, want)
	}
	task := inspect(t, id)
	for i, shares := range []uint64{256, 2} {
		group := scope(t, slice, task.Containers[i].RuntimeID)
		if got, want := within(t, group, "cpu.weight", "100"), fmt.Sprint(curve.Weight(shares)); got != want {
			t.Errorf("cpu.weight of container %d is %s, want %s", i, got, want)
		}
	}
}

func TestPeriodAndTasksMaxAreConfigured(t *testing.T) {
	path := define(t, "configured", "512", "96", box("app", "sleep forever", 32))
	id := must(t, "env", "PODTASK_PIDS_LIMIT=77", "PODTASK_CPU_PERIOD=20ms", bin(), "run", "-d", "--wait=running", path)
	t.Cleanup(func() { podtask(t, "rm", "--force", id) })
	for file, want := range map[string]string{"cpu.max": "10000 20000", "pids.max": "77"} {
		if got := setting(t, sliceOf(id), file); got != want {
			t.Errorf("%s is %s, want %s", file, got, want)
		}
	}
}

// New limits reach the kernel, and are kept by the next owner of the task.
func TestLimitsOfARunningTaskChange(t *testing.T) {
	id := detach(t, define(t, "update", "512", "96", box("app", "sleep forever", 32)))
	slice := sliceOf(id)
	check := func(when, memory, cpu, pids string) {
		t.Helper()
		for file, want := range map[string]string{"memory.max": memory, "cpu.max": cpu, "pids.max": pids} {
			if got := setting(t, slice, file); got != want {
				t.Errorf("%s %s is %s, want %s", when, file, got, want)
			}
		}
	}
	podtask(t, "update", "--memory", "128m", "--pids-limit", "50", id)
	check("after update", "134217728", "50000 100000", "50")

	killOwner(t, id)
	podtask(t, "update", "--cpus", "0.25", id) // carries the task on itself
	check("without owner", "134217728", "25000 100000", "50")
	if got := podtask(t, "inspect", "--format", "{{.CPU}} {{.Memory}} {{.TasksMax}} {{.Status}}", id); got != "0.25 134217728 50 RUNNING" {
		t.Errorf("inspect says %s", got)
	}
	podtask(t, "update", "--memory", "0", "--cpus", "0", "--pids-limit", "0", id)
	check("back to the definition", "100663296", "50000 100000", "max")

	_, errs, code := command(t, bin(), "update", "--memory", "16m", id)
	if code != 125 || !strings.Contains(errs, "container app") {
		t.Errorf("less than its container may use: code %d, %s", code, errs)
	}
	if _, errs, code = command(t, bin(), "update", "--io-weight", "50", id); code != 125 || !strings.Contains(errs, "Delegate=") {
		t.Errorf("a controller that is not delegated: code %d, %s", code, errs)
	}
	check("after what was refused", "100663296", "50000 100000", "max")
}
