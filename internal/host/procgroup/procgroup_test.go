package procgroup

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"
)

// held returns a file for a program and its child processes, and a function that waits until
// the last of them has ended.
func held(t *testing.T) (*os.File, func()) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return w, func() {
		t.Helper()
		_ = w.Close()
		_ = r.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := io.ReadAll(r); err != nil {
			t.Errorf("a child process still runs: %v", err)
		}
	}
}

func TestNoChildOutlivesAProgram(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w, gone := held(t)
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "sleep 1000 & echo done")
	cmd.Stdout, cmd.ExtraFiles, cmd.WaitDelay = &out, []*os.File{w}, time.Minute
	if err := Run(cmd); err != nil || out.String() != "done\n" {
		t.Errorf("got %q, %v", out.String(), err)
	}
	gone()
}

func TestNoChildOutlivesAProgramThatIsGivenUp(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	w, gone := held(t)
	ready, started, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", "sleep 1000 & echo x >&4; exec 4>&-; wait")
	cmd.ExtraFiles = []*os.File{w, started}
	go func() {
		_, _ = ready.Read(make([]byte, 1))
		cancel()
	}()
	if err := Run(cmd); err == nil {
		t.Error("a program that was given up succeeds")
	}
	gone()
	_ = ready.Close()
	_ = started.Close()
}

func TestAProgramThatDoesNotStart(t *testing.T) {
	t.Parallel()
	if err := Run(exec.CommandContext(t.Context(), "/does/not/exist")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
