package cgroups_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/podtask/podtask/pkg/cgroups"
)

// tree is a cgroup tree; names are below its root.
func tree(files map[string]string) fstest.MapFS {
	root := fstest.MapFS{}
	for name, text := range files {
		root["sys/fs/cgroup/"+name] = &fstest.MapFile{Data: []byte(text)}
	}
	return root
}

func TestUsageOfAllControllers(t *testing.T) {
	t.Parallel()
	root := tree(map[string]string{
		"a/cpu.stat":            "usage_usec 2500000\nuser_usec 1\nsystem_usec 2\nnr_periods 10\nnr_throttled 4\nthrottled_usec 300\n",
		"a/cpu.max":             "50000 100000\n",
		"a/memory.current":      "1000\n",
		"a/memory.stat":         "anon 5\nfile 700\ninactive_file 600\n",
		"a/memory.peak":         "1500\n",
		"a/memory.max":          "2000\n",
		"a/memory.swap.current": "7\n",
		"a/memory.events":       "low 0\nhigh 0\nmax 9\noom 3\noom_kill 2\n",
		"a/memory.events.local": "oom 1\noom_kill 0\n",
		"a/pids.current":        "12\n",
		"a/pids.peak":           "20\n",
		"a/pids.max":            "max\n",
		"a/pids.events":         "max 8\n",
		"a/io.stat":             "8:0 rbytes=100 wbytes=200 rios=1 wios=2 dbytes=0 dios=0\n8:16 rbytes=1 wbytes=2\n",
		"a/cpu.pressure":        "some avg10=12.50 avg60=3.00 avg300=1.00 total=12345\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
		"a/memory.pressure":     "some avg10=1.00 avg60=0.00 avg300=0.00 total=6\nfull avg10=0.50 avg60=0.00 avg300=0.00 total=5\n",
		"a/io.pressure":         "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
	})
	got, err := cgroups.ReadUsage(root, "a")
	want := cgroups.Usage{
		CPUUsec:    2500000,
		Throttling: &cgroups.Throttling{Periods: 10, Throttled: 4, Usec: 300, Limit: 512},
		Memory:     &cgroups.Memory{Current: 1000, InactiveFile: 600, Used: 400, Peak: 1500, Limit: 2000, Swap: 7, Kills: 2, Full: 1},
		PIDs:       &cgroups.PIDs{Current: 12, Peak: 20, Refused: 8},
		IO:         &cgroups.IO{Read: 101, Written: 202},
		Pressure:   &cgroups.Pressure{CPU: cgroups.Stall{Some: 12.5, SomeUsec: 12345}, Memory: cgroups.Stall{Some: 1, Full: 0.5, SomeUsec: 6}},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
}

func TestUsageOfWhatTheHostDoesNotCount(t *testing.T) {
	t.Parallel()
	root := tree(map[string]string{"a/cpu.stat": "usage_usec 5\nuser_usec 5\nsystem_usec 0\n"})
	got, err := cgroups.ReadUsage(root, "a")
	if diff := cmp.Diff(cgroups.Usage{CPUUsec: 5}, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
	if _, err := cgroups.ReadUsage(root, "gone"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a cgroup that is not there: %v", err)
	}
}

// Debian 12's crun puts a container's limits on a cgroup within its scope, which has
// systemd's default for processes.
func TestLimitsOfAContainerAreFoundWithin(t *testing.T) {
	t.Parallel()
	root := tree(map[string]string{
		"s/cpu.stat": "usage_usec 5\n", "s/memory.current": "10\n", "s/memory.max": "max\n", "s/pids.current": "1\n", "s/pids.max": "30\n",
		"s/container/memory.max": "4096\n", "s/container/pids.max": "20\n",
	})
	got, err := cgroups.ReadContainer(root, "s")
	if err != nil || got.Memory.Limit != 4096 || got.PIDs.Limit != 20 {
		t.Errorf("%+v %+v %v", got.Memory, got.PIDs, err)
	}
}

func TestLimitsOfAContainerAreReadBack(t *testing.T) {
	t.Parallel()
	root := tree(map[string]string{
		"good/cpu.max": "50000 100000\n", "good/memory.max": "67108864\n",
		"deb12/cpu.max": "max 100000\n", "deb12/memory.max": "max\n", "deb12/container/cpu.max": "50000 100000\n", "deb12/container/memory.max": "67108864\n",
		"half/cpu.max": "max 100000\n", "half/memory.max": "67108864\n",
	})
	l := cgroups.Limits{CPU: 0.5, Memory: 64 << 20, CPUWeight: 7}
	for scope, want := range map[string]string{"good": "", "deb12": "", "half": "cpu.max", "none": "cpu.max memory.max"} {
		var files []string
		for _, m := range cgroups.CheckContainer(root, scope, l) {
			files = append(files, m.File)
		}
		if got := strings.Join(files, " "); got != want {
			t.Errorf("%s lacks %q, want %q", scope, got, want)
		}
	}
	if bad := cgroups.CheckContainer(root, "none", cgroups.Limits{CPUWeight: 7}); len(bad) != 0 {
		t.Errorf("no hard limit, yet %v", bad)
	}
}

func TestScopesOfContainers(t *testing.T) {
	t.Parallel()
	id := strings.Repeat("ab", 32)
	root := tree(map[string]string{
		"t.slice/cgroup.procs":                                           "",
		"t.slice/p.slice/libpod-" + id + ".scope/cgroup.procs":           "",
		"t.slice/p.slice/libpod-" + id + ".scope/container/cgroup.procs": "42\n43\n",
		"t.slice/p.slice/libpod-conmon-" + id + ".scope/cgroup.procs":    "7\n",
	})
	want := map[string]string{id: "t.slice/p.slice/libpod-" + id + ".scope"}
	got := cgroups.Scopes(root, "t.slice")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if pid := cgroups.Process(root, got[id]); pid != 42 {
		t.Errorf("its process is %d, want 42", pid)
	}
	if got := cgroups.Scopes(root, "gone.slice"); len(got) != 0 {
		t.Errorf("a slice that is not there has %v", got)
	}
	if pid := cgroups.Process(root, "gone.slice"); pid != 0 {
		t.Errorf("a slice that is not there has process %d", pid)
	}
}

// Whatever the files hold, reading them ends, and what it says is in range.
func FuzzReadUsage(f *testing.F) {
	f.Add("cpu.stat", "usage_usec 1\nnr_periods 2\n")
	f.Add("io.stat", "8:0 rbytes=1 wbytes=18446744073709551615\n")
	f.Add("cpu.pressure", "some avg10=101 total=-1\nfull\n\n")
	f.Add("memory.stat", "inactive_file 99999\n")
	f.Fuzz(func(t *testing.T, file, text string) {
		files := map[string]string{"a/cpu.stat": "usage_usec 5\n", "a/memory.current": "10\n"}
		if fs.ValidPath(file) && !strings.Contains(file, "/") {
			files["a/"+file] = text
		}
		u, err := cgroups.ReadUsage(tree(files), "a")
		if err != nil {
			t.Fatal(err)
		}
		if m := u.Memory; m != nil && m.Used > m.Current {
			t.Errorf("%+v", m)
		}
		if p := u.Pressure; p != nil && !(p.CPU.Some >= 0 && p.CPU.Some <= 100 && p.CPU.Full >= 0 && p.CPU.Full <= 100) {
			t.Errorf("%+v", p)
		}
	})
}

// Without a memory controller the memory of a container is that of its processes, whatever cgroup
// manager Podman has. Its monitor is not a part of it.
func TestResidentMemoryOfContainers(t *testing.T) {
	t.Parallel()
	a, b := strings.Repeat("ab", 32), strings.Repeat("cd", 32)
	root := fstest.MapFS{"proc/meminfo": &fstest.MapFile{Data: []byte("MemTotal: 1 kB\n")}}
	process := func(pid, group, anon string) {
		root["proc/"+pid+"/cgroup"] = &fstest.MapFile{Data: []byte("3:cpu:/elsewhere\n0::" + group + "\n")}
		root["proc/"+pid+"/status"] = &fstest.MapFile{Data: []byte("Name:\tmain\nVmRSS:\t  900 kB\n" + anon + "Threads:\t1\n")}
	}
	process("10", "/user.slice/libpod-"+a+".scope/container", "RssAnon:\t     100 kB\n")
	process("11", "/user.slice/libpod-"+a+".scope/container/below", "RssAnon:\t      20 kB\n")
	process("12", "/libpod_parent/libpod-"+b, "RssAnon:\t       3 kB\n")
	process("13", "/user.slice/libpod-conmon-"+a+".scope", "RssAnon:\t    5000 kB\n")
	process("14", "/user.slice", "RssAnon:\t    5000 kB\n")
	process("15", "/user.slice/libpod-"+a+".scope", "") // a zombie has none
	delete(root, "proc/14/status")
	want := map[string]uint64{a: 120 << 10, b: 3 << 10}
	if diff := cmp.Diff(want, cgroups.Resident(root)); diff != "" {
		t.Error(diff)
	}
	if got := cgroups.Resident(fstest.MapFS{}); len(got) != 0 {
		t.Errorf("without /proc there is %v", got)
	}
}
