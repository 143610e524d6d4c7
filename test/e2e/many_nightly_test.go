//go:build e2e && bed_systemd && nightly

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/podtask/podtask/internal/host/quota"
	"github.com/podtask/podtask/test/testbed"
)

// TestManyTasksOnOneHost submits more tasks than the default quota of keys has room for: 250.
// None of them fails, the rest waits, and each that stops lets another one start. Where
// root has raised the quota it is 300 or 500 tasks, and all run at once. It runs alone, because
// other tests use the quota too.
func TestManyTasksOnOneHost(t *testing.T) {
	b := newBox(t)
	keys := quota.Keys(os.DirFS("/"), os.Getuid())
	if len(keys) == 0 {
		t.Skip("the kernel has no quota of keys")
	}
	n, all := 250, false
	for _, more := range []int64{300, 500} {
		if keys[0].Free() >= more+20 && keys[1].Free() >= 75*more {
			n, all = int(more), true
		}
	}
	t.Logf("%d tasks, with %+v", n, keys)
	agent := b.agent()
	file := b.define(ctr{Name: "app", Command: words("sleep forever"), StopTimeout: 2})
	b.want(0, "run", "--rm", b.define(ctr{Name: "app", Command: words("exit 0")})) // Podman's service runs now
	before := memory(t)
	begun := time.Now()
	ids := make([]string, n)
	submit := new(errgroup.Group)
	submit.SetLimit(8)
	for i := range n {
		submit.Go(func() error {
			r := b.podtask("run", "-d", file)
			ids[i] = strings.TrimSpace(r.out)
			if r.code != 0 {
				return fmt.Errorf("task %d is refused: %s", i, r.err)
			}
			return nil
		})
	}
	if err := submit.Wait(); err != nil {
		t.Fatal(err)
	}
	running, queued, others := 0, 0, []string(nil)
	count := func() bool {
		running, queued, others = 0, 0, nil
		for _, s := range liveStatuses(b) {
			switch {
			case s == "RUNNING":
				running++
			case strings.Contains(s, "(queued: "):
				queued++
			default:
				others = append(others, s)
			}
		}
		return running+queued == n
	}
	for before := -1; !testbed.Until(count); before = running { // a busy machine needs longer
		if running <= before {
			t.Fatalf("%d run, %d are queued, others are %q:\n%s", running, queued, others, stopReasons(b))
		}
	}
	t.Logf("%d run and %d are queued after %s", running, queued, time.Since(begun).Round(time.Millisecond))
	if all && running != n || !all && (running < 100 || queued < 20) {
		t.Errorf("%d run, %d are queued", running, queued)
	}
	after := memory(t)
	resident := func() int { return statusKB(t, agent.cmd.Process.Pid, "VmRSS:") }
	t.Logf("memory for a task: %d KiB of all processes; the agent, which has just worked, has %d KiB", (after-before)/max(running, 1), resident())
	most := 56*1024 + n*256 // docs/scaling.md
	if !testbed.Until(func() bool { return resident() <= most }) {
		t.Errorf("the agent has nothing to start and has %d KiB, more than %d", resident(), most)
	}
	t.Logf("the agent, which has nothing to start, has %d KiB", resident())
	var took []time.Duration
	for range 5 {
		at := time.Now()
		b.want(0, "ps")
		took = append(took, time.Since(at))
	}
	slices.Sort(took)
	t.Logf("ps of %d tasks takes %s", n, took[2])
	if !all {
		nextFollows(b, ids, running)
	}
	b.want(0, append([]string{"stop"}, ids...)...)
	if keys := quota.Keys(os.DirFS("/"), os.Getuid()); keys[0].Used > 50 {
		t.Errorf("all have stopped, and %d keys are used", keys[0].Used)
	}
	for some := range slices.Chunk(ids, 50) { // all at once take longer than a command may
		b.want(0, append([]string{"rm"}, some...)...)
	}
}

// nextFollows stops some running tasks and waits until as many others run.
func nextFollows(b *box, ids []string, running int) {
	b.t.Helper()
	i := slices.IndexFunc(ids, func(id string) bool { code, _ := b.why(id); return code == "queued" })
	if i < 0 {
		b.t.Fatal("no task is queued")
	}
	if _, sentence := b.why(ids[i]); !strings.Contains(sentence, "kernel.keys.maxkeys") && !strings.Contains(sentence, "its turn") {
		b.t.Errorf("why says %s", sentence)
	}
	var stopped []string
	for _, id := range ids {
		if b.inspect(id).Status == "RUNNING" {
			stopped = append(stopped, id)
		}
		if len(stopped) == 10 {
			break
		}
	}
	b.want(0, append([]string{"stop"}, stopped...)...)
	eventually(b.t, "others run instead", func() bool {
		n := 0
		for _, s := range liveStatuses(b) {
			if s == "RUNNING" {
				n++
			}
		}
		return n >= running
	})
}

// liveStatuses are the statuses of all tasks that have not stopped.
func liveStatuses(b *box) []string {
	b.t.Helper()
	return strings.Split(strings.TrimSpace(b.want(0, "ps", "--format", "{{.Status}}").out), "\n")
}

// stopReasons are why the tasks that have stopped did.
func stopReasons(b *box) string {
	b.t.Helper()
	var out strings.Builder
	for _, id := range strings.Fields(b.want(0, "ps", "--all", "--quiet").out) {
		if s := b.inspect(id); s.Status == "STOPPED" {
			fmt.Fprintf(&out, "%s: %s %+v\n", id, s.StoppedReason, s.Containers)
		}
	}
	return out.String()
}

// memory is what all processes of the user use together, in KiB: each page that several of
// them share is divided among them.
func memory(t *testing.T) (sum int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/smaps_rollup")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // another user's, or it has ended
		}
		sum += fieldKB(string(text), "Pss:")
	}
	return sum
}

func statusKB(t *testing.T, pid int, field string) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	return fieldKB(string(text), field)
}

func fieldKB(text, name string) int {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == name {
			n, _ := strconv.Atoi(f[1])
			return n
		}
	}
	return 0
}
