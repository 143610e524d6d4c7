//go:build e2e && bed_systemd

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podtask/podtask/pkg/cgroups"
)

// sample is what stats says of a task at a moment.
type sample struct {
	ID, Source string
	CPUUsec    uint64
	Memory     *struct{}
	Pressure   *struct{ CPU struct{ SomeUsec uint64 } }
	Containers []struct{ Name string }
}

// On a terminal the table is redrawn for each sample, in a pipe each is a line of
// JSON, until Ctrl-C. What this host does not count is absent.
func TestStatsGoOnUntilInterrupted(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	id := b.detach("--wait=running", b.waiter())
	b.up(id)

	term := b.onTerminal("stats", "--interval", "100ms", id)
	for range 2 {
		term.see("\x1b[H\x1b[J")
		term.see("CPU %")
		term.see("(task)")
		term.see("app")
	}
	term.keysIn("\x03")
	term.wait()

	stream := b.start("stats", "--interval", "100ms", "--format", "json", id)
	var seen [2]sample
	for i := range seen {
		var line string
		eventually(t, "a line of the stream", func() (found bool) {
			line, found = stream.out.line()
			return found
		})
		if err := json.Unmarshal([]byte(line), &seen[i]); err != nil {
			t.Fatalf("%v: %q", err, line)
		}
	}
	for _, s := range seen {
		if s.ID != id || s.Source != "cgroup" || s.Memory != nil || len(s.Containers) != 1 || s.Containers[0].Name != "app" {
			t.Errorf("a sample of %s: %+v", id, s)
		}
	}
	if seen[1].CPUUsec < seen[0].CPUUsec || seen[0].CPUUsec == 0 {
		t.Errorf("the time on CPUs goes from %d to %d us", seen[0].CPUUsec, seen[1].CPUUsec)
	}
	stream.interrupt()
	stream.wait()
	b.tell(id, "app", "/tmp/go")
	b.want(0, "wait", id)
}

// What the kernel counts is told as it counts it; pressure is absent where it has none.
func TestStatsAgreeWithTheKernel(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	id := b.detach("--wait=running", b.waiter())
	b.up(id)
	group := filepath.Join("/sys/fs/cgroup", cgroups.Path(os.Getuid(), "podtask"+id+".slice"))
	kernel := func() (u cgroups.Usage) {
		t.Helper()
		u, err := cgroups.ReadUsage(os.DirFS("/"), strings.TrimPrefix(group, "/sys/fs/cgroup/"))
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	before := kernel()
	out := b.want(0, "stats", "--no-stream", "--interval", "100ms", "--format", "json", id).out
	after := kernel()
	var got []sample
	if err := json.Unmarshal([]byte(out), &got); err != nil || len(got) != 1 {
		t.Fatalf("%v in %s", err, out)
	}
	if s := got[0]; s.CPUUsec < before.CPUUsec || s.CPUUsec > after.CPUUsec {
		t.Errorf("%d us of cpu, the kernel counts %d before and %d after", s.CPUUsec, before.CPUUsec, after.CPUUsec)
	}
	_, err := os.Stat(filepath.Join(group, "cpu.pressure"))
	switch s := got[0]; {
	case err != nil && s.Pressure != nil:
		t.Errorf("a kernel without pressure has %+v", s.Pressure)
	case err == nil && s.Pressure == nil:
		t.Error("the pressure is not told")
	case err == nil && (s.Pressure.CPU.SomeUsec < before.Pressure.CPU.SomeUsec || s.Pressure.CPU.SomeUsec > after.Pressure.CPU.SomeUsec):
		t.Errorf("waited %d us for cpu, the kernel says %d before and %d after", s.Pressure.CPU.SomeUsec, before.Pressure.CPU.SomeUsec, after.Pressure.CPU.SomeUsec)
	}
	b.tell(id, "app", "/tmp/go")
	b.want(0, "wait", id)
}

// An agent's metrics have what the kernel counts of each task, by its name.
func TestMetricsOfATaskAgreeWithTheKernel(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.agent()
	name := b.family + "-measured"
	id := b.detach("--wait=running", "--name", name, b.waiter())
	b.up(id)
	kernel := func() float64 {
		t.Helper()
		u, err := cgroups.ReadUsage(os.DirFS("/"), cgroups.Path(os.Getuid(), "podtask"+id+".slice"))
		if err != nil {
			t.Fatal(err)
		}
		return float64(u.CPUUsec) / 1e6
	}
	before := kernel()
	got := metric(b, `podtask_task_cpu_seconds_total{family="`+b.inspect(id).Family+`",task="`+name+`"}`)
	if after := kernel(); got < before || got > after {
		t.Errorf("%f seconds of CPU, the kernel counts %f before and %f after", got, before, after)
	}
	b.tell(id, "app", "/tmp/go")
	b.want(0, "wait", id)
}

// line takes the first line, once it is there.
func (s *syncBuffer) line() (text string, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, rest, found := strings.Cut(s.buf.String(), "\n")
	if found {
		s.buf.Reset()
		s.buf.WriteString(rest)
	}
	return text, found
}
