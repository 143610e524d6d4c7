//go:build e2e && bed_systemd

package e2e

import (
	"encoding/json"
	"strings"
	"testing"
)

// sample is what stats says of a task at a moment.
type sample struct {
	ID, Source string
	CPUUsec    uint64
	Memory     *struct{}
	Containers []struct{ Name string }
}

// On a terminal the table is drawn anew for each sample, in a pipe each is a line of
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
