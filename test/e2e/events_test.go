//go:build e2e

package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// event is a line of `podtask events --format json`.
type event struct {
	Seq                                   uint64
	Task, Container, Status, Digest, Name string
	ExitCode                              *int
	Reason                                string
}

// String is the form in which tests name events: container or "task", and status.
func (e event) String() string {
	if e.Container == "" {
		return "task " + e.Status
	}
	return e.Container + " " + e.Status
}

// events lists the events so far of all the box's tasks.
func (b *box) events() []event {
	b.t.Helper()
	r := b.podtask("events", "--stream=false", "--format", "json")
	if r.code != 0 {
		b.t.Errorf("events: code %d\n%s", r.code, r.err)
	}
	var list []event
	for line := range strings.Lines(r.out) {
		list = append(list, decodeEvent(b.t, line))
	}
	return list
}

func decodeEvent(t *testing.T, line string) (e event) {
	if err := json.Unmarshal([]byte(line), &e); err != nil {
		t.Errorf("event %q: %v", line, err)
	}
	return e
}

// inOrder fails the test unless the events occur in that order, others between
// them or not.
func inOrder(t *testing.T, list []event, want ...string) {
	t.Helper()
	next := 0
	for _, e := range list {
		if next < len(want) && e.String() == want[next] {
			next++
		}
	}
	if next < len(want) {
		t.Errorf("%q is missing at its place in the order %q; the events were\n%s", want[next], want, describe(list))
	}
}

// allBefore fails the test unless every event of the one status comes before
// any of the other, whatever the container.
func allBefore(t *testing.T, list []event, first, later string) {
	t.Helper()
	seen := false
	for _, e := range list {
		if e.Status == later {
			seen = true
		}
		if e.Status == first && seen {
			t.Errorf("%s comes after a %s:\n%s", e, later, describe(list))
			return
		}
	}
}

func count(list []event, what string) (n int) {
	for _, e := range list {
		if e.String() == what {
			n++
		}
	}
	return n
}

func describe(list []event) string {
	var s strings.Builder
	for _, e := range list {
		fmt.Fprintf(&s, "  %.6s %s", e.Task, e)
		if e.ExitCode != nil {
			fmt.Fprintf(&s, " %d", *e.ExitCode)
		}
		fmt.Fprintf(&s, " %s\n", e.Reason)
	}
	return s.String()
}

// follower is a `podtask events` that runs as long as the test.
type follower struct {
	cmd  *exec.Cmd
	mu   sync.Mutex
	more *sync.Cond
	list []event
	over bool // it has ended, or the wait is over
}

// await waits for an event, named as event.String does, of the box's tasks.
func (b *box) await(what string) event {
	b.t.Helper()
	f := b.follower()
	limit := time.AfterFunc(patience, f.end)
	defer limit.Stop()
	f.mu.Lock()
	defer f.mu.Unlock()
	for seen := 0; ; f.more.Wait() {
		for ; seen < len(f.list); seen++ {
			if f.list[seen].String() == what {
				return f.list[seen]
			}
		}
		if f.over {
			b.t.Fatalf("the event %q never comes; there were\n%s", what, describe(f.list))
		}
	}
}

func (b *box) follower() *follower {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.follow != nil {
		return b.follow
	}
	f := &follower{cmd: exec.Command(bed.podtask, "events", "--since", "0", "--format", "json")}
	f.more = sync.NewCond(&f.mu)
	f.cmd.Env, f.cmd.Dir = b.env, b.dir
	out, err := f.cmd.StdoutPipe()
	if err == nil {
		err = f.cmd.Start()
	}
	if err != nil {
		b.t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			f.add(decodeEvent(b.t, lines.Text()))
		}
		f.end()
	}()
	b.t.Cleanup(func() {
		_ = f.cmd.Process.Kill()
		<-read
		_ = f.cmd.Wait()
	})
	b.follow = f
	return f
}

func (f *follower) add(e event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, e)
	f.more.Broadcast()
}

func (f *follower) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over = true
	f.more.Broadcast()
}

// following reports whether the process is the box's own follower.
func (b *box) following(pid string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.follow != nil && strconv.Itoa(b.follow.cmd.Process.Pid) == pid
}
