//go:build e2e && soak

package e2e

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/test/testbed"
)

// soakSize is how many tasks TestSoak runs and at least how long it takes.
func soakSize(t *testing.T) (tasks int, duration time.Duration) {
	t.Helper()
	tasks, duration = 10000, time.Hour
	var err error
	if text := os.Getenv("SOAK_TASKS"); text != "" {
		if tasks, err = strconv.Atoi(text); err != nil || tasks < 20 {
			t.Fatalf("SOAK_TASKS=%s: give a number from 20 on", text)
		}
	}
	if text := os.Getenv("SOAK_TIME"); text != "" {
		if duration, err = time.ParseDuration(text); err != nil {
			t.Fatalf("SOAK_TIME: %v", err)
		}
	}
	return tasks, duration
}

// soakAtOnce is the number of tasks of the soak that there are at a time.
const soakAtOnce = 8

// soakTask is a short task and the exit code that it ends with.
type soakTask struct {
	definition []byte
	code       int
}

// soakTasks are the kinds of tasks that take turns.
func soakTasks(b *box) (kinds []soakTask) {
	for _, k := range []struct {
		code       int
		containers []ctr
	}{
		{0, []ctr{{Name: "app", Command: words("print hello")}}},
		{3, []ctr{{Name: "app", Command: words("lines 200 -- eprint failed -- exit 3")}}},
		{0, []ctr{
			{Name: "init", Command: words("print first"), Essential: optional},
			{Name: "app", Command: words("print second"), DependsOn: []on{{"init", "SUCCESS"}}},
		}},
		{7, []ctr{
			{Name: "app", Command: words("write /tmp/up -- sleep 1h"), Health: healthyIf("exists /tmp/up"), Essential: optional},
			{Name: "check", Command: words("exit 7"), DependsOn: []on{{"app", "HEALTHY"}}},
		}},
		{0, []ctr{{Name: "app", Command: words("await " + metadataURI + "/task")}}},
	} {
		definition, err := os.ReadFile(b.write(def{Network: "awsvpc", Containers: k.containers}))
		if err != nil {
			b.t.Fatal(err)
		}
		kinds = append(kinds, soakTask{definition, k.code})
	}
	return kinds
}

// usage is what an agent uses.
type usage struct{ rss, descriptors, goroutines, files float64 }

// usageOf asks the agent for its metrics and counts the files of the state directory.
func usageOf(b *box) (u usage) {
	b.t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", b.agentSocket())
	}}}
	resp, err := client.Get("http://podtask/metrics")
	if err != nil {
		b.t.Error(err)
		return u
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		n, _ := strconv.ParseFloat(value, 64)
		switch name {
		case "process_resident_memory_bytes":
			u.rss = n / (1 << 20)
		case "process_open_fds":
			u.descriptors = n
		case "go_goroutines":
			u.goroutines = n
		}
	}
	_ = filepath.WalkDir(b.stateHome(), func(string, os.DirEntry, error) error { u.files++; return nil })
	return u
}

// TestSoak runs short tasks through one agent, and compares what it uses while the first
// tenth of them runs with what it uses while the last one does, and at the end.
func TestSoak(t *testing.T) {
	b := newBox(t)
	tasks, duration := soakSize(t)
	kinds := soakTasks(b)
	b.env = append(b.env, "PODTASK_SOCKET="+b.agentSocket())
	b.start("agent", "--log-level=error")
	var c *api.Client
	eventually(t, "an answer of the agent", func() (ok bool) {
		var err error
		c, err = api.Dial(t.Context(), b.agentSocket())
		return err == nil
	})
	defer c.Close()

	var (
		wg      sync.WaitGroup
		places  = make(chan struct{}, soakAtOnce)
		samples []usage
		every   = max(1, tasks/200)
		pace    = time.NewTicker(max(duration/time.Duration(tasks), time.Millisecond))
		begun   = time.Now()
	)
	defer pace.Stop()
	for i := range tasks {
		places <- struct{}{}
		<-pace.C
		if i%every == 0 {
			samples = append(samples, usageOf(b))
		}
		wg.Go(func() {
			defer func() { <-places }()
			soakOne(b, c, kinds[i%len(kinds)])
		})
		if t.Failed() {
			break
		}
	}
	wg.Wait()
	took := time.Since(begun)
	eventually(t, "the removal of all tasks", func() bool {
		left, err := c.Tasks(t.Context())
		return err == nil && len(left) == 0
	})
	end := usageOf(b)
	if found, err := testbed.Objects(); err != nil || len(found) > 0 {
		t.Errorf("left in Podman: %v, %v", found, err)
	}
	tenth := max(1, len(samples)/10)
	first, last := medians(samples[:tenth]), medians(samples[len(samples)-tenth:])
	t.Logf("soak: %d tasks in %s; first tenth %s; last tenth %s; at the end %s", tasks, took.Round(time.Second), first, last, end)
	for _, r := range []struct {
		name             string
		first, now, more float64
	}{
		{"MiB of memory in the last", first.rss, last.rss, 16},
		// How many tasks run at a time depends on the host, so these are compared when none runs.
		{"descriptors at the end", first.descriptors, end.descriptors, 5},
		{"goroutines at the end", first.goroutines, end.goroutines, 5},
		{"files at the end", first.files, end.files, 5},
	} {
		if r.now > r.first*1.1+r.more {
			t.Errorf("%.0f in the first tenth, %.0f %s", r.first, r.now, r.name)
		}
	}
}

// soakOne runs a task to its end.
func soakOne(b *box, c *api.Client, kind soakTask) {
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	made, err := c.Create(ctx, api.NewTask{Definition: kind.definition, TaskOptions: api.TaskOptions{Pull: "prefer-cached"}, Remove: true})
	if err != nil {
		b.t.Error(err)
		return
	}
	var last api.Task
	if err := c.Watch(ctx, made.ID, func(task api.Task) bool { last = task; return true }); err != nil && !api.Is(err, api.NotFound) {
		b.t.Errorf("watch %s: %v", made.ID, err)
		return
	}
	if last.ExitCode == nil || int(*last.ExitCode) != kind.code {
		b.t.Errorf("task %s ended as %s with exit code %v, want %d: %s", made.ID, last.Status, last.ExitCode, kind.code, last.StoppedReason)
	}
}

func (u usage) String() string {
	return fmt.Sprintf("%.0f MiB, %.0f descriptors, %.0f goroutines, %.0f files", u.rss, u.descriptors, u.goroutines, u.files)
}

// medians are those of each number.
func medians(all []usage) (m usage) {
	for _, f := range []func(*usage) *float64{
		func(u *usage) *float64 { return &u.rss }, func(u *usage) *float64 { return &u.descriptors },
		func(u *usage) *float64 { return &u.goroutines }, func(u *usage) *float64 { return &u.files },
	} {
		var values []float64
		for _, u := range all {
			values = append(values, *f(&u))
		}
		slices.Sort(values)
		*f(&m) = values[len(values)/2]
	}
	return m
}
