//go:build e2e && bed_vm

package vm

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/podtask/podtask/pkg/cgroups"
)

// sliceOf is the cgroup of a task's slice.
func sliceOf(id string) string { return filepath.Join(manager(), "podtask"+id+".slice") }

// manager is the cgroup of the user's manager.
func manager() string {
	uid := os.Getuid()
	return fmt.Sprintf("/sys/fs/cgroup/user.slice/user-%d.slice/user@%d.service", uid, uid)
}

// setting is what the kernel says in a cgroup's file.
func setting(t *testing.T, group, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(group, file))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// members is the number of processes in a cgroup and those below it.
func members(t *testing.T, group string) (pids []string) {
	t.Helper()
	err := filepath.WalkDir(group, func(path string, _ os.DirEntry, err error) error {
		if err == nil && filepath.Base(path) == "cgroup.procs" {
			pids = append(pids, strings.Fields(setting(t, filepath.Dir(path), "cgroup.procs"))...)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return pids
}

// scope is the cgroup that Podman made for a container, which lies in slice.
func scope(t *testing.T, slice, id string) (group string) {
	t.Helper()
	_ = filepath.WalkDir(slice, func(path string, _ os.DirEntry, _ error) error {
		if filepath.Base(path) == "libpod-"+id+".scope" {
			group = path
		}
		return nil
	})
	if group == "" {
		t.Fatalf("no cgroup of container %s is in %s", id, slice)
	}
	return group
}

// memoryOf is the limit of a container's memory. Debian 12's crun puts it on a
// cgroup within the scope.
func memoryOf(t *testing.T, scope string) string {
	t.Helper()
	return within(t, scope, "memory.max", "max")
}

// within is a setting of a container's scope, or that of the cgroup within it
// where the scope has none.
func within(t *testing.T, scope, file, none string) string {
	t.Helper()
	if got := setting(t, scope, file); got != none {
		return got
	}
	inner := filepath.Join(scope, "container")
	if _, err := os.Stat(inner); err != nil {
		return none
	}
	return setting(t, inner, file)
}

func TestLimitsAreInTheKernel(t *testing.T) {
	id := detach(t, define(t, "limits", "512", "96", box("app", "sleep forever", 32), box("side", "sleep forever", 0)))
	slice := sliceOf(id)
	for file, want := range map[string]string{
		"memory.max": "100663296", "memory.swap.max": "100663296", "memory.high": "max", "memory.low": "0",
		"cpu.max": "50000 100000", "pids.max": "4096",
	} {
		if got := setting(t, slice, file); got != want {
			t.Errorf("%s of the task is %s, want %s", file, got, want)
		}
	}

	task := inspect(t, id)
	app := scope(t, slice, task.Containers[0].RuntimeID)
	if got := memoryOf(t, app); got != "33554432" {
		t.Errorf("memory.max of app is %s, want 33554432", got)
	}
	// Podman's own limit; on Debian 12 the scope has systemd's besides.
	if got := []string{setting(t, app, "pids.max"), within(t, app, "pids.max", setting(t, app, "pids.max"))}; !slices.Contains(got, "2048") {
		t.Errorf("pids.max of app is %s, want 2048", got)
	}
	side := scope(t, slice, task.Containers[1].RuntimeID)
	if got := memoryOf(t, side); got != "max" {
		t.Errorf("memory.max of side is %s, want max", got)
	}

	inSlice := members(t, slice)
	pids := strings.Fields(must(t, "podman", "ps", "--filter", "pod="+task.PodID, "--format", "{{.ID}}"))
	if len(pids) != 2 {
		t.Fatalf("the pod has containers %v, want app and side", pids)
	}
	for _, c := range pids {
		for _, process := range []string{"Pid", "ConmonPid"} {
			if pid := must(t, "podman", "inspect", "--format", "{{.State."+process+"}}", c); !slices.Contains(inSlice, pid) {
				t.Errorf("the %s of container %s, %s, is not in the task's slice: %v", process, c, pid, inSlice)
			}
		}
	}

	podtask(t, "rm", "--force", id)
	if _, err := os.Stat(slice); !os.IsNotExist(err) {
		t.Errorf("the slice is still there: %v", err)
	}
}

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

// runtimeCurve is that of the containers' runtime.
func runtimeCurve(t *testing.T) cgroups.Curve {
	t.Helper()
	name, version, _ := strings.Cut(must(t, "podman", "info", "--format", "{{.Host.OCIRuntime.Name}}\t{{.Host.OCIRuntime.Version}}"), "\t")
	return cgroups.CurveOf(name, version)
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

// spent is the CPU time of a task in microseconds.
func spent(t *testing.T, id string) int {
	t.Helper()
	return cpuTime(t, sliceOf(id))
}

// cpuTime is that of a cgroup in microseconds.
func cpuTime(t *testing.T, group string) int {
	t.Helper()
	_, rest, _ := strings.Cut(setting(t, group, "cpu.stat"), "usage_usec ")
	usec, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return usec
}

// Two tasks that take what they get: one may have a quarter of what the other may.
func TestQuotaHoldsAHungryTask(t *testing.T) {
	smallPath := define(t, "small", "128", "64", box("app", "burn 10m", 0))
	bigPath := define(t, "big", "512", "64", box("app", "burn 10m", 0))
	small, big := detach(t, smallPath), detach(t, bigPath)
	ofSmall, ofBig := spent(t, small), spent(t, big)
	eventually(t, "two seconds of work of the big task", func() bool { return spent(t, big)-ofBig > 2_000_000 })
	ofSmall, ofBig = spent(t, small)-ofSmall, spent(t, big)-ofBig
	if ratio := float64(ofBig) / float64(ofSmall); ratio < 3 || ratio > 5 {
		t.Errorf("the small task got %d us and the big one %d: ratio %.2f, want 4", ofSmall, ofBig, ratio)
	}
}

func TestForkBombIsStopped(t *testing.T) {
	out, errs, code := command(t, bin(), "run", "--name", "bomb", "--pids-limit", "40", define(t, "bomb", "", "128", box("app", "spawn 500", 0)))
	t.Cleanup(func() { podtask(t, "rm", "--force", "bomb") })
	if code == 0 {
		t.Errorf("the bomb went off: %s%s", out, errs)
	}
	id := inspect(t, "bomb").ID
	slice := sliceOf(id)
	if got := setting(t, slice, "pids.max"); got != "40" {
		t.Errorf("pids.max is %s, want 40", got)
	}
	// Which cgroup counts the refusal differs between kernels; that there was one
	// the bomb says itself.
	if all := out + errs; !strings.Contains(all, "resource temporarily unavailable") && !strings.Contains(all, "failed to create new OS thread") {
		t.Errorf("no fork was refused: %s", all)
	}
}
