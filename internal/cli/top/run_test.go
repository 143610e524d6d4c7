package top

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
)

// terminal collects what is drawn on a pseudo-terminal of 80x24.
type terminal struct {
	keys, line *os.File

	mu    sync.Mutex // guards what follows
	more  *sync.Cond
	drawn strings.Builder
	ended bool
}

func openTerminal(t *testing.T) *terminal {
	t.Helper()
	keys, line, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	x := &terminal{keys: keys, line: line}
	x.more = sync.NewCond(&x.mu)
	x.resize(t, 80, 24)
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 4096)
		for {
			n, err := keys.Read(buf)
			x.mu.Lock()
			x.drawn.Write(buf[:n])
			x.ended = err != nil
			x.more.Broadcast()
			x.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { line.Close(); <-done; keys.Close() })
	return x
}

func (x *terminal) resize(t *testing.T, columns, rows uint16) {
	t.Helper()
	if err := pty.Setsize(x.keys, &pty.Winsize{Rows: rows, Cols: columns}); err != nil {
		t.Fatal(err)
	}
}

// wait waits until a text was drawn, and forgets what was drawn until then.
func (x *terminal) wait(t *testing.T, text string) {
	t.Helper()
	x.mu.Lock()
	defer x.mu.Unlock()
	for !strings.Contains(x.drawn.String(), text) {
		if x.ended {
			t.Fatalf("the terminal ended without %q: %q", text, x.drawn.String())
		}
		x.more.Wait()
	}
	x.drawn.Reset()
}

func (x *terminal) press(t *testing.T, keys string) {
	t.Helper()
	if _, err := x.keys.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}

// run shows the view on the terminal; the result comes when it has ended.
func (x *terminal) run(ctx context.Context, h *host) <-chan error {
	ended := make(chan error, 1)
	go func() {
		ended <- Run(ctx, h, h, Options{Pace: time.Hour, Now: time.Now}, Terminal{x.line, x.line, []string{"TERM=xterm"}})
	}()
	return ended
}

func TestOnARealTerminal(t *testing.T) {
	x := openTerminal(t)
	h := &host{lines: []Line{{"app", "listening on 8080"}}}
	ended := x.run(t.Context(), h)
	// Only the cells that change are drawn: each wait is for a word that was not there.
	x.wait(t, "filter")
	x.press(t, "/bat\r")
	x.wait(t, "cccccccccccc")
	x.press(t, "\r")
	x.wait(t, "CONTAINER")
	x.press(t, "3")
	x.wait(t, "image pulled")
	x.press(t, "2")
	x.wait(t, "listening")
	x.resize(t, 40, 12)
	if err := syscall.Kill(os.Getpid(), syscall.SIGWINCH); err != nil {
		t.Fatal(err)
	}
	x.wait(t, "listening") // drawn again
	x.press(t, "q")
	if err := <-ended; err != nil {
		t.Error(err)
	}
	x.wait(t, "\x1b[?1049l") // the screen before is back
}

func TestTheContextEndsTheView(t *testing.T) {
	x := openTerminal(t)
	why := errors.New("terminated")
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := x.run(ctx, &host{})
	x.wait(t, "filter")
	cancel(why)
	if err := <-ended; !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
	x.wait(t, "\x1b[?1049l")
}
