package cgroups_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/podtask/podtask/pkg/cgroups"
)

const (
	mib    = 1 << 20
	taskID = "0123456789abcdef0123456789abcdef"
)

// properties prints what systemd is asked for, with the D-Bus types.
func properties(t *testing.T, l cgroups.Limits) []string {
	t.Helper()
	props, err := cgroups.Properties(l)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range props {
		got = append(got, fmt.Sprintf("%s=%s %v", p.Name, p.Value.Signature(), p.Value.Value()))
	}
	return got
}

func TestProperties(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		in   cgroups.Limits
		want []string
	}{
		{"nothing asked, nothing set", cgroups.Limits{}, nil},
		{"half a CPU", cgroups.Limits{CPU: 0.5}, []string{"CPUQuotaPerSecUSec=t 500000", "CPUQuotaPeriodUSec=t 100000"}},
		{"CPU is rounded up to a percent", cgroups.Limits{CPU: 0.125}, []string{"CPUQuotaPerSecUSec=t 130000", "CPUQuotaPeriodUSec=t 100000"}},
		{"a float that is not quite a percent", cgroups.Limits{CPU: 0.29}, []string{"CPUQuotaPerSecUSec=t 290000", "CPUQuotaPeriodUSec=t 100000"}},
		{"memory and processes", cgroups.Limits{Memory: 64 * mib, TasksMax: 100}, []string{"MemoryMax=t 67108864", "TasksMax=t 100"}},
		{"soft memory", cgroups.Limits{MemoryHigh: 2 * mib, MemoryLow: mib}, []string{"MemoryHigh=t 2097152", "MemoryLow=t 1048576"}},
		{"swap limited", cgroups.Limits{SwapMax: mib}, []string{"MemorySwapMax=t 1048576"}},
		{"swap forbidden", cgroups.Limits{SwapMax: cgroups.NoSwap}, []string{"MemorySwapMax=t 0"}},
		{"weight", cgroups.Limits{CPUWeight: 100}, []string{"CPUWeight=t 100"}},
		{"disks", cgroups.Limits{IOWeight: 50}, []string{"IOWeight=t 50"}},
		{"a period of one's own", cgroups.Limits{CPU: 0.5, CPUPeriod: 20 * time.Millisecond}, []string{"CPUQuotaPerSecUSec=t 500000", "CPUQuotaPeriodUSec=t 20000"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := properties(t, tt.in); !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestLimitsOutOfRangeAreAllReported(t *testing.T) {
	t.Parallel()
	_, err := cgroups.Properties(cgroups.Limits{CPU: 0.001, CPUWeight: 10001, IOWeight: 10001, CPUPeriod: 1, Memory: -1, MemoryHigh: -2, MemoryLow: -3, SwapMax: -4})
	if err == nil {
		t.Fatal("accepted")
	}
	if n := len(strings.Split(err.Error(), "\n")); n != 8 {
		t.Errorf("%d problems, want 8:\n%v", n, err)
	}
	if err := (cgroups.Limits{CPU: 0.04, CPUPeriod: 20 * time.Millisecond}).Check(); err == nil {
		t.Error("a quota of less than a millisecond was accepted")
	}
	for _, cpu := range []float64{-1, math.NaN(), math.Inf(1), 1e300} {
		if err := (cgroups.Limits{CPU: cpu}).Check(); err == nil {
			t.Errorf("CPU %v accepted", cpu)
		}
	}
}

// What is not limited must not keep the limit of before.
func TestReplacementSetsEveryProperty(t *testing.T) {
	t.Parallel()
	none, err := cgroups.Replacement(cgroups.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	some, err := cgroups.Replacement(cgroups.Limits{Memory: mib})
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range none {
		want := uint64(math.MaxUint64)
		if p.Name == "MemoryLow" {
			want = 0
		}
		if p.Value.Value() != want {
			t.Errorf("no %s is %v, want %d", p.Name, p.Value, want)
		}
		if p.Name == "MemoryMax" {
			want = mib
		}
		if some[i].Name != p.Name || some[i].Value.Value() != want {
			t.Errorf("with a limit of memory %s is %v, want %d", some[i].Name, some[i].Value, want)
		}
	}
	if _, err := cgroups.Replacement(cgroups.Limits{Memory: -1}); err == nil {
		t.Error("a negative limit was accepted")
	}
}

func TestSliceNames(t *testing.T) {
	t.Parallel()
	name, err := cgroups.SliceName(taskID)
	if err != nil || name != "podtask"+taskID+".slice" || strings.Contains(name, "-") {
		t.Errorf("SliceName = %q, %v", name, err)
	}
	if id, ok := cgroups.TaskID(name); !ok || id != taskID {
		t.Errorf("TaskID = %q, %v", id, ok)
	}
	for _, id := range []string{"", "abc", taskID + "0", strings.ToUpper(taskID), "-" + taskID[1:]} {
		if name, err := cgroups.SliceName(id); err == nil {
			t.Errorf("id %q makes %q", id, name)
		}
	}
	for _, other := range []string{"user.slice", "podtask.slice", taskID + ".slice", "podtask" + taskID + "-libpod_pod_ff.slice"} {
		if _, ok := cgroups.TaskID(other); ok {
			t.Errorf("%s is taken for ours", other)
		}
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	l := cgroups.Limits{CPU: 1.5, Memory: 64*mib + 1000, TasksMax: 50, SwapMax: cgroups.NoSwap, IOWeight: 50}
	applied := func() map[string]string {
		return map[string]string{
			"cpu.max": "150000 100000\n", "memory.max": "67108864\n", "pids.max": "50\n", "memory.swap.max": "0\n", "io.weight": "default 50\n",
		}
	}
	tests := []struct {
		name   string
		change func(map[string]string)
		want   string
	}{
		{"applied, memory in whole pages", func(map[string]string) {}, ""},
		{"kernel without swap accounting", func(m map[string]string) { delete(m, "memory.swap.max") }, ""},
		{"no limit at all", func(m map[string]string) { m["memory.max"] = "max\n" }, "memory.max=max"},
		{"more memory than asked", func(m map[string]string) { m["memory.max"] = "67112960\n" }, "memory.max=67112960"},
		{"far less memory than asked", func(m map[string]string) { m["memory.max"] = "33554432\n" }, "memory.max=33554432"},
		{"other weights of single disks", func(m map[string]string) { m["io.weight"] = "default 50\n8:0 100\n" }, ""},
		{"disks weigh as ever", func(m map[string]string) { m["io.weight"] = "default 100\n" }, "io.weight=default 100"},
		{"other period", func(m map[string]string) { m["cpu.max"] = "15000 10000\n" }, "cpu.max=15000 10000"},
		{"files missing", func(m map[string]string) { clear(m) }, "cpu.max= io.weight= memory.max= pids.max="},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			files := applied()
			tt.change(files)
			var got []string
			for _, m := range cgroups.Compare(l, files) {
				got = append(got, m.File+"="+m.Got)
			}
			if s := strings.Join(got, " "); s != tt.want {
				t.Errorf("mismatches %q, want %q", s, tt.want)
			}
		})
	}
}

// What is asked of systemd and what is expected of the kernel name the same
// controllers.
func TestControllersCoverWantedFiles(t *testing.T) {
	t.Parallel()
	all := cgroups.Limits{CPU: 1, CPUWeight: 5, Memory: 4, MemoryHigh: 3, MemoryLow: 2, SwapMax: 1, TasksMax: 9, IOWeight: 7}
	var want []string
	for file := range cgroups.Wanted(all) {
		want = append(want, cgroups.Mismatch{File: file}.Controller())
	}
	slices.Sort(want)
	if want = slices.Compact(want); !slices.Equal(all.Controllers(), want) {
		t.Errorf("Controllers = %v, files need %v", all.Controllers(), want)
	}
	if props, files := len(properties(t, all)), len(cgroups.Wanted(all)); props != files+1 { // the CPU period has no file of its own
		t.Errorf("%d properties for %d files", props, files)
	}
}

func TestUndelegatedErrorNamesTheMend(t *testing.T) {
	t.Parallel()
	err := error(&cgroups.UndelegatedError{Controllers: []string{"cpu"}, Unit: "podtaskx.slice", Version: cgroups.V2, Offered: []string{"cpu", "memory", "pids"}})
	for _, part := range []string{"cpu", "podtaskx.slice", "/etc/systemd/system/user@.service.d/delegate.conf", "Delegate=cpu memory pids"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q lacks %q", err, part)
		}
	}
	err = &cgroups.UndelegatedError{Controllers: []string{"cpu"}, Version: cgroups.Hybrid}
	if !strings.Contains(err.Error(), "systemd.unified_cgroup_hierarchy=1") {
		t.Errorf("on a hybrid host: %q", err)
	}
}

func TestDetect(t *testing.T) {
	t.Parallel()
	const delegated = "sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/cgroup.controllers"
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	manager := func(m fstest.MapFS) fstest.MapFS { m["run/user/1000/systemd/private"] = file(""); return m }
	tests := []struct {
		name        string
		root        fstest.MapFS
		version     cgroups.Version
		controllers string
		reason      string
	}{
		{"systemd 252 and newer", manager(fstest.MapFS{"sys/fs/cgroup/cgroup.controllers": file("cpu io memory pids\n"), delegated: file("pids cpu memory\n")}),
			cgroups.V2, "cpu memory pids", ""},
		{"systemd 251 and older", manager(fstest.MapFS{"sys/fs/cgroup/cgroup.controllers": file("cpu memory pids\n"), delegated: file("memory pids\n")}),
			cgroups.V2, "memory pids", "controllers cpu are not delegated"},
		{"controllers kept elsewhere", manager(fstest.MapFS{"sys/fs/cgroup/cgroup.controllers": file("cpu\n"), delegated: file("")}),
			cgroups.V2, "", "has no memory, pids to delegate"},
		{"no user manager", fstest.MapFS{"sys/fs/cgroup/cgroup.controllers": file("cpu memory pids\n"), delegated: file("cpu memory pids\n")},
			cgroups.V2, "cpu memory pids", "loginctl enable-linger 1000"},
		{"hybrid", manager(fstest.MapFS{"sys/fs/cgroup/unified/cgroup.controllers": file(""), "sys/fs/cgroup/memory/x": file("")}),
			cgroups.Hybrid, "", "unified_cgroup_hierarchy"},
		{"v1", manager(fstest.MapFS{"sys/fs/cgroup/memory/x": file("")}), cgroups.V1, "", "unified_cgroup_hierarchy"},
		{"nothing mounted", fstest.MapFS{}, cgroups.NoGroup, "", "mount cgroup2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := cgroups.Detect(tt.root, 1000, func(k string) string {
				return map[string]string{"XDG_RUNTIME_DIR": "/run/user/1000"}[k]
			})
			if h.Version != tt.version || strings.Join(h.Controllers, " ") != tt.controllers {
				t.Errorf("got %+v", h)
			}
			if (h.Reason == "") != (tt.reason == "") || !strings.Contains(h.Reason, tt.reason) {
				t.Errorf("reason %q, want %q", h.Reason, tt.reason)
			}
		})
	}
}

func TestMissingNamesOnlyWhatIsNeeded(t *testing.T) {
	t.Parallel()
	h := cgroups.Host{Controllers: []string{"memory", "pids"}}
	if got := h.Missing(cgroups.Limits{Memory: 1, TasksMax: 1}); len(got) != 0 {
		t.Errorf("missing %v for memory and processes", got)
	}
	if got := h.Missing(cgroups.Limits{CPU: 1, Memory: 1}); !slices.Equal(got, []string{"cpu"}) {
		t.Errorf("missing %v, want cpu", got)
	}
}

func TestDialWithoutAManagerSaysSo(t *testing.T) {
	t.Parallel()
	for name, env := range map[string]map[string]string{
		"nothing set":       {},
		"empty runtime dir": {"XDG_RUNTIME_DIR": t.TempDir()},
		"dead bus address":  {"DBUS_SESSION_BUS_ADDRESS": "unix:path=" + t.TempDir() + "/bus"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u, err := cgroups.Dial(t.Context(), func(k string) string { return env[k] })
			if err == nil {
				u.Close()
			}
			if !errors.Is(err, cgroups.ErrNoUserManager) {
				t.Errorf("Dial: %v, want ErrNoUserManager", err)
			}
		})
	}
}

// A host that has all that tasks usually need still says how to get the rest.
func TestReasonForWhatFewHostsDelegate(t *testing.T) {
	t.Parallel()
	root := tree(map[string]string{
		"cgroup.controllers": "cpu io memory pids\n",
		"user.slice/user-1000.slice/user@1000.service/cgroup.controllers": "cpu memory pids\n",
	})
	root["run/user/1000/systemd/private"] = &fstest.MapFile{}
	h := cgroups.Detect(root, 1000, func(string) string { return "/run/user/1000" })
	if why := h.ReasonFor(cgroups.Limits{IOWeight: 1}); !strings.Contains(why, "controllers io are not delegated") || !strings.Contains(why, "Delegate=cpu io memory pids") {
		t.Errorf("without io: %q", why)
	}
	if why := h.ReasonFor(cgroups.Limits{CPU: 1, Memory: 1, TasksMax: 1}); why != "" || h.Reason != "" {
		t.Errorf("with all that is needed: %q, %q", why, h.Reason)
	}
}

// The controller alone weighs nothing.
func TestKernelThatCannotWeighDisksIsNamed(t *testing.T) {
	t.Parallel()
	const manager = "user.slice/user-1000.slice/user@1000.service/"
	files := map[string]string{"cgroup.controllers": "cpu io memory pids\n", manager + "cgroup.controllers": "cpu io memory pids\n"}
	detect := func() cgroups.Host {
		root := tree(files)
		root["run/user/1000/systemd/private"] = &fstest.MapFile{}
		return cgroups.Detect(root, 1000, func(string) string { return "/run/user/1000" })
	}
	weight := cgroups.Limits{CPU: 1, IOWeight: 1}
	h := detect()
	if missing, why := h.Missing(weight), h.ReasonFor(weight); !slices.Equal(missing, []string{"io"}) || !strings.Contains(why, "no io.weight") {
		t.Errorf("missing %v: %q", missing, why)
	}
	if missing := h.Missing(cgroups.Limits{CPU: 1}); len(missing) > 0 || h.Reason != "" {
		t.Errorf("without a weight %v are missing: %q", missing, h.Reason)
	}
	files[manager+"io.weight"] = "default 100\n"
	h = detect()
	if missing, why := h.Missing(weight), h.ReasonFor(weight); len(missing) > 0 || why != "" {
		t.Errorf("where the kernel can %v are missing: %q", missing, why)
	}
}
