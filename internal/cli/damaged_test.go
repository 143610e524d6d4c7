package cli

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/hostview"
	"github.com/podtask/podtask/internal/parts"
)

// Every list of tasks, of this host or of several, names a damaged record until it is removed, also if another process found it first
// and moved it aside.
func TestADamagedRecordIsToldOf(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bad, good := w.create("bad"), w.create("good")
	stateDir, _, err := command.Dirs(w.getenv, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(stateDir, "tasks", bad.ID+".json"), []byte("broken\x1b[2J"), 0o600); err != nil {
		t.Fatal(err)
	}
	open := func(ctx context.Context) (hostview.Stream, error) {
		here, there := net.Pipe()
		p := &command.Program{Stdin: there, Stdout: there, Stderr: &strings.Builder{}, Getenv: w.getenv, Environ: func() []string { return nil }, Notify: func(chan<- os.Signal, ...os.Signal) {}}
		go func() {
			defer there.Close()
			runLine(ctx, p, parts.Build(), []string{"podtask", "view"})
		}()
		return here, nil
	}
	for range 2 {
		v := hostview.New(t.Context(), []*hostview.Host{{Name: "box", Open: open}}, nil, time.Now)
		t.Cleanup(v.Close)
		if err := v.Connected(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			tasks, err := v.Tasks(t.Context())
			if err != nil || len(tasks) != 1 || tasks[0].ID != good.ID {
				t.Errorf("%v, %v", tasks, err)
			}
			if _, err := v.Beside(t.Context()); err == nil || !strings.Contains(err.Error(), "box: ") || !strings.Contains(err.Error(), bad.ID[:12]) || strings.Contains(err.Error(), "\x1b") {
				t.Errorf("a host of several says %v", err)
			}
		}
	}
	for _, format := range []string{"table", "json"} {
		out, stderr, code := w.podtask("ps", "--format", format)
		if code != 0 || !strings.Contains(out, "good") || strings.Count(stderr, bad.ID[:12]) != 1 || !strings.Contains(stderr, "podtask gc --corrupt") {
			t.Errorf("ps --format %s: %d %q %q", format, code, out, stderr)
		}
	}
}
