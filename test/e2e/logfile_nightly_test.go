//go:build e2e && nightly

package e2e

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// slowLogs is a CloudWatch Logs that counts numbered lines and keeps none. It holds its answers
// while it is told to, and refuses some requests.
type slowLogs struct {
	t     *testing.T
	check func() // after each request

	mu       sync.Mutex
	held     chan struct{} // closed when it answers again
	counts   []int         // by number
	lines    int           // that came for the first time
	requests int
}

func (s *slowLogs) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in struct{ LogEvents []struct{ Message string } }
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		return // the owner was killed
	}
	s.mu.Lock()
	held := s.held
	s.requests++
	refuse := s.requests%100 == 0
	s.mu.Unlock()
	select {
	case <-held:
	case <-r.Context().Done():
		return
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	if refuse {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"__type":"ThrottlingException"}`))
		return
	}
	s.take(in.LogEvents)
	_, _ = w.Write([]byte("{}"))
	s.check()
}

func (s *slowLogs) take(events []struct{ Message string }) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range events {
		n, err := strconv.Atoi(strings.TrimRight(strings.TrimPrefix(e.Message, "line "), "."))
		if err != nil || n >= len(s.counts) {
			s.t.Errorf("an event is %.100q", e.Message)
			return
		}
		if s.counts[n]++; s.counts[n] == 1 {
			s.lines++
		}
	}
}

// hold makes the server wait with its answers until release is called.
func (s *slowLogs) hold() (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := make(chan struct{})
	s.held = held
	return sync.OnceFunc(func() { close(held) })
}

func (s *slowLogs) has(lines int) func() bool {
	return func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.lines >= lines
	}
}

// A GiB of output goes through segments of 16 MiB to a server that is slow, stands still and
// refuses requests, sent by owners that are killed. Each line arrives once or, at most a batch for
// each kill, again. The files stay within their limits, and logs shows the end without a gap.
func TestAGigabyteOfOutput(t *testing.T) {
	b := newBox(t)
	const (
		rounds, lines, size = 8, 1 << 17, 1 << 10 // 1 GiB
		batch               = 1 << 20 / size
		keep, backlog       = 64 << 20, 192 << 20
		segment             = 16 << 20
	)
	b.env = append(b.env, "PODTASK_LOG_MAX_SIZE=64m", "PODTASK_LOG_BACKLOG=192m")
	most := int64(0)
	var mu sync.Mutex
	measure := func() (sum int64) {
		mu.Lock()
		defer mu.Unlock()
		_ = filepath.WalkDir(filepath.Join(b.stateHome(), "podtask", "logs"), func(_ string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				if info, err := d.Info(); err == nil {
					sum += info.Size()
				}
			}
			return nil // what was just removed
		})
		most = max(most, sum)
		return sum
	}
	server := &slowLogs{t: t, counts: make([]int, rounds*lines+1), check: func() { measure() }}
	server.hold()()
	web := httptest.NewServer(server)
	defer web.Close()
	b.env = append(b.env, "PODTASK_AWSLOGS_ENDPOINT="+web.URL)
	var steps []string
	for i := range rounds {
		steps = append(steps, fmt.Sprintf("wait /tmp/go%d -- lines %d %d %d -- write /tmp/done%d", i, lines, 1+i*lines, size, i))
	}
	id := b.detach(b.define(ctr{Name: "app", Command: words(strings.Join(steps, " -- ") + " -- wait /tmp/end"), More: logTo("awslogs", obj{
		"awslogs-group": "g", "awslogs-region": "eu-west-1", "awslogs-stream": "s", "awslogs-force-flush-interval-seconds": "1",
	})}))
	b.await("app RUNNING")
	app := b.inspect(id).Containers[0].RuntimeID
	kills, begin := 0, time.Now()
	for i := range rounds {
		release := func() {}
		if i%2 == 1 {
			release = server.hold() // the whole of it waits
		}
		b.touch(app, fmt.Sprint("/tmp/go", i))
		if i%2 == 0 {
			eventually(t, "half of the lines", server.has(i*lines+lines/2))
		} else {
			b.podman("exec", app, "/testbox", "wait", fmt.Sprint("/tmp/done", i))
		}
		b.killOwner(id)
		kills++
		b.start("wait", id)
		eventually(t, "another owner", func() bool { return b.inspect(id).Owner.Alive })
		release()
		eventually(t, fmt.Sprintf("all lines of round %d", i), server.has((i+1)*lines))
		measure()
	}
	took := time.Since(begin)
	b.touch(app, "/tmp/end")
	b.want(0, "wait", id)
	again := 0
	for _, n := range server.counts[1:] {
		again += max(0, n-1)
	}
	if again > kills*batch {
		t.Errorf("%d lines came again after %d kills", again, kills)
	}
	if most > keep+backlog+segment {
		t.Errorf("the files took %d MiB", most>>20)
	}
	if left := measure(); left > keep+segment {
		t.Errorf("in the end they take %d MiB", left>>20)
	}
	kept := strings.Split(strings.TrimSpace(b.want(0, "logs", id, "app").out), "\n")
	for i, line := range kept {
		if want := fmt.Sprint("line ", rounds*lines-len(kept)+1+i); strings.TrimRight(line, ".") != want {
			t.Fatalf("line %d of %d that are shown is %.40s, want %s", i+1, len(kept), line, want)
		}
	}
	// A segment grows beyond its size while a busy machine has no time to rotate it, or no owner. Whole segments are
	// removed, but never the newest complete one, in which a tenth are the times and streams of lines.
	if len(kept)*size < segment*9/10 {
		t.Errorf("only %d lines are kept", len(kept))
	}
	t.Logf("1 GiB in %s, %d kills, %d lines again, at most %d MiB of files, %d lines kept", took.Round(time.Second), kills, again, most>>20, len(kept))
}

// A log router is away while the app writes as much as in ten minutes, then gets all of it.
func TestARouterThatWasAwayForLongGetsAllLines(t *testing.T) {
	b := newBox(t)
	const lines = 600_000
	id := b.detach(routed(b, "wait /tmp/up -- "+routes, fmt.Sprintf("lines %d 1 100 -- write /tmp/done -- wait /tmp/go -- print last", lines), func(r *ctr) {
		r.StopTimeout = 120
	}))
	b.await("app RUNNING")
	task := b.inspect(id)
	b.podman("exec", task.Containers[1].RuntimeID, "/testbox", "wait", "/tmp/done")
	b.killOwner(id)
	waiting := b.start("wait", id)
	b.touch(task.Containers[0].RuntimeID, "/tmp/up")
	b.touch(task.Containers[1].RuntimeID, "/tmp/go")
	waiting.want(0)
	got := b.want(0, "logs", id, "router").out
	if n := strings.Count(got, "app stdout line "); n != lines || !strings.HasSuffix(got, "app stdout last\n") {
		t.Errorf("the router has got %d of %d lines, and in the end %q", n, lines, got[max(0, len(got)-200):])
	}
	if n := count(b.events(), "app LOGS_LOST"); n != 0 {
		t.Errorf("LOGS_LOST is reported %d times", n)
	}
}
