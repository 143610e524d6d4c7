//go:build e2e && bed_vm

package vm

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// usage is what stats says of a task or a container.
type usage struct {
	Name       string
	CPUPercent float64
	CPUUsec    int
	Memory     struct{ Current, Used, Limit, Peak int }
	PIDs       struct{ Current, Limit int }
	Network    *struct{ Received, Sent int }
	Pressure   *struct{}
	Throttling struct{ Throttled int }
	Containers []usage
}

// used measures a task for a while.
func used(t *testing.T, id, interval string) usage {
	t.Helper()
	var got []usage
	out := podtask(t, "stats", "--no-stream", "--interval", interval, "--format", "json", id)
	if err := json.Unmarshal([]byte(out), &got); err != nil || len(got) != 1 || len(got[0].Containers) != 2 {
		t.Fatalf("stats: %v in %s", err, out)
	}
	return got[0]
}

// near tells whether got is within five percent of the range from low to high.
func near(got, low, high float64) bool { return got >= low*0.95 && got <= high*1.05 }

func number(t *testing.T, text string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestStatisticsAgreeWithThoseOfOthers(t *testing.T) {
	id := detach(t, define(t, "stats", "256", "128", box("app", "alloc 40 -- burn 10m", 64), box("idle", "sleep forever", 0)))
	app := inspect(t, id).Containers[0].RuntimeID

	eventually(t, "40 MiB in use", func() bool { return used(t, id, "100ms").Containers[0].Memory.Used > 40<<20 })

	before := used(t, id, "100ms").Containers[0]
	theirs := strings.Fields(must(t, "podman", "stats", "--no-stream", "--no-reset", "--format", "{{.ContainerStats.CPUNano}} {{.ContainerStats.MemUsage}}", app))
	after := used(t, id, "100ms").Containers[0]
	if cpu := number(t, theirs[0]) / 1000; !near(cpu, float64(before.CPUUsec), float64(after.CPUUsec)) {
		t.Errorf("Podman counts %.0f us of CPU, podtask %d before and %d after", cpu, before.CPUUsec, after.CPUUsec)
	}
	if memory := number(t, theirs[1]); !near(memory, float64(before.Memory.Current), float64(after.Memory.Current)) {
		t.Errorf("Podman counts %.0f bytes of memory, podtask %d before and %d after", memory, before.Memory.Current, after.Memory.Current)
	}
	if after.Memory.Limit != 64<<20 || after.Memory.Used < 40<<20 || after.Memory.Used > after.Memory.Current {
		t.Errorf("memory of app: %+v", after.Memory)
	}

	// Both measure at the same time. The task always gets the quarter of a CPU that
	// it may have, so it does not matter which of them begins first.
	slice := sliceOf(id)
	top := make(chan string, 1)
	go func() {
		out, errs, _ := command(t, "systemd-cgtop", "--batch", "--raw", "--iterations=2", "--delay=6s", "--depth=1", "--order=path", strings.TrimPrefix(filepath.Clean(slice), "/sys/fs/cgroup"))
		top <- out + errs
	}()
	task := used(t, id, "6s")
	said := <-top
	rows := strings.Split(strings.TrimSpace(said), "\n")
	var row []string // path, tasks, % of a CPU, memory, ...
	for _, r := range rows {
		if fields := strings.Fields(r); len(fields) >= 4 && strings.HasSuffix(fields[0], filepath.Base(slice)) && fields[2] != "-" {
			row = fields
		}
	}
	if row == nil {
		t.Fatalf("systemd-cgtop says nothing of %s:\n%s", slice, said)
	}
	t.Logf("podtask: %.1f %% of a CPU, %d bytes, %d processes; systemd-cgtop: %s", task.CPUPercent, task.Memory.Current, task.PIDs.Current, row)
	if cpu := number(t, row[2]); !near(task.CPUPercent, cpu, cpu) {
		t.Errorf("systemd-cgtop says %.1f %% of a CPU, podtask %.1f", cpu, task.CPUPercent)
	}
	if memory := number(t, row[3]); !near(float64(task.Memory.Current), memory, memory) {
		t.Errorf("systemd-cgtop says %.0f bytes of memory, podtask %d", memory, task.Memory.Current)
	}
	if fmt.Sprint(task.PIDs.Current) != row[1] || task.PIDs.Limit != 4096 {
		t.Errorf("systemd-cgtop says %s processes, podtask %+v", row[1], task.PIDs)
	}
	if task.Throttling.Throttled == 0 || task.Network == nil || task.Pressure != nil {
		t.Errorf("a task that wants more than its limit, with a network, on a kernel without PSI: %+v", task)
	}
}

// The agent's metrics have the limits of each task, and how it feels them.
func TestMetricsOfATaskShowItsLimits(t *testing.T) {
	startAgent(t, "podtask-agent-metrics")
	id := detach(t, define(t, "metrics", "256", "128", box("app", "burn 10m", 64)), "--name", "measured")
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "podtask", "podtask.sock"))
	}}}
	labels := `{family="metrics",task="measured"}`
	value := func(name string) float64 {
		t.Helper()
		answer, err := client.Get("http://podtask/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		_, rest, found := strings.Cut(string(text), "\n"+name+labels+" ")
		if !found {
			t.Fatalf("there is no %s in\n%s", name, text)
		}
		first, _, _ := strings.Cut(rest, "\n")
		return number(t, first)
	}
	eventually(t, "a throttled period", func() bool { return value("podtask_task_cpu_throttled_periods_total") > 0 })
	for name, want := range map[string]float64{
		"podtask_task_cpu_limit_cores": 0.25, "podtask_task_memory_limit_bytes": 128 << 20, "podtask_task_oom_kills_total": 0,
	} {
		if got := value(name); got != want {
			t.Errorf("%s is %g, want %g", name, got, want)
		}
	}
	for _, name := range []string{"podtask_task_cpu_seconds_total", "podtask_task_cpu_periods_total", "podtask_task_cpu_throttled_seconds_total", "podtask_task_memory_used_bytes", "podtask_task_processes"} {
		if got := value(name); got <= 0 {
			t.Errorf("%s is %g", name, got)
		}
	}
	podtask(t, "stop", id)
}

// Without --no-stream samples come until Ctrl-C.
func TestStatisticsStream(t *testing.T) {
	id := detach(t, define(t, "stream", "256", "128", box("app", "burn 10m", 64), box("idle", "sleep forever", 0)))
	cmd := exec.Command(bin(), "stats", "--interval", "200ms", "--format", "json", id)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	samples, last, used := json.NewDecoder(out), usage{}, 0
	for taken := 0; used < 3; taken++ {
		var now usage
		if err := samples.Decode(&now); err != nil {
			t.Fatal(err)
		}
		if taken == 100 || len(now.Containers) != 2 || now.CPUUsec < last.CPUUsec || now.Memory.Limit != 128<<20 || now.Memory.Peak < now.Memory.Current/2 {
			t.Fatalf("sample %d is %+v after %+v", taken, now, last)
		}
		if now.CPUUsec > last.CPUUsec && now.CPUPercent > 0 { // a busy host may give it no CPU for an interval
			used++
		}
		last = now
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for samples.Decode(new(usage)) == nil {
	}
	_ = cmd.Wait()
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGINT {
		t.Errorf("after Ctrl-C it ended by %v", status)
	}
}
