package sshhost

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/term"
)

func TestMain(m *testing.M) {
	if slices.Equal(os.Args[1:], InnerArguments) {
		os.Exit(inner())
	}
	os.Exit(m.Run())
}

// inner is the podtask of these tests.
func inner() int {
	line, err := ReadLine()
	if err != nil || len(line.Args) == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 99
	}
	switch args := line.Args[1:]; line.Args[0] {
	case "say":
		fmt.Println(strings.Join(args, " "))
		fmt.Fprintln(os.Stderr, "and to stderr")
		return 7
	case "cat":
		_, _ = io.Copy(os.Stdout, os.Stdin)
	case "environ":
		fmt.Println(strings.Join(os.Environ(), "\n"))
		fmt.Println("caller", line.Caller)
	case "files":
		for _, name := range args {
			text, err := os.ReadFile(name)
			fmt.Printf("%s: %s %v\n", name, text, err)
		}
	case "terminal":
		width, height, err := term.GetSize(1)
		fmt.Println(term.IsTerminal(0), term.IsTerminal(1), term.IsTerminal(2), width, height, err)
	case "wait":
		signals := make(chan os.Signal, 1)
		signal.Notify(signals)
		fmt.Println("ready")
		for sig := range signals {
			if sig == syscall.SIGURG { // the runtime's own
				continue
			}
			fmt.Println("got", sig)
			if len(args) > 0 && args[0] != sig.String() {
				continue
			}
			if len(args) > 1 {
				_ = os.WriteFile(args[1], []byte(sig.String()), 0o600)
			}
			return 3
		}
	case "die":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case "much":
		line := strings.Repeat("x", 1<<16)
		for {
			if _, err := fmt.Println(line); err != nil {
				return 1
			}
		}
	}
	return 0
}

// duplex is one end of a connection.
type duplex struct {
	io.Reader
	io.WriteCloser
	closers []io.Closer
}

func (d duplex) Close() error {
	var errs []error
	for _, c := range d.closers {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// pair returns two ends of a connection.
func pair() (a, b duplex) {
	ar, bw := io.Pipe()
	br, aw := io.Pipe()
	return duplex{ar, aw, []io.Closer{ar, aw}}, duplex{br, bw, []io.Closer{br, bw}}
}

// world is a server and a link to it.
type world struct {
	*Link
	dir    string
	conn   duplex // of the link
	served chan error
}

// connect returns a link whose commands have a minute to end after its loss, in which a process runs on a busy host too.
func connect(t *testing.T) *world {
	t.Helper()
	return connectWith(t, time.Minute)
}

// connectWith returns a link whose commands are killed when they have not ended within a time after its loss.
func connectWith(t *testing.T, hangupLimit time.Duration) *world {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ours, its := pair()
	w := &world{dir: t.TempDir(), conn: ours, served: make(chan error, 1)}
	s := &Server{
		Version: "1.4.0", Executable: self, Environ: append(os.Environ(), "PODTASK_HOST=ssh://loop"), Home: w.dir,
		MemoryDir: filepath.Join(w.dir, "memory", "sessions"), DiskDir: filepath.Join(w.dir, "disk", "sessions"), Log: slog.New(slog.DiscardHandler), HangupLimit: hangupLimit,
	}
	go func() { w.served <- s.Serve(context.WithoutCancel(t.Context()), io.NopCloser(its.Reader), its) }()
	if w.Link, err = newLink(Host{Name: "box"}, ours, Options{Version: "1.3.0"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = w.Close()
		_ = ours.Close()
		if err := <-w.served; err != nil {
			t.Error(err)
		}
		left, _ := filepath.Glob(filepath.Join(w.dir, "*", "sessions"))
		if len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
	})
	return w
}

// buffer is a strings.Builder that may be read while it is written.
type buffer struct {
	mu      sync.Mutex
	text    strings.Builder
	changed chan struct{}
}

func newBuffer() *buffer { return &buffer{changed: make(chan struct{}, 1)} }

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case b.changed <- struct{}{}:
	default:
	}
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// await waits until the buffer has a text.
func (b *buffer) await(t *testing.T, text string) {
	t.Helper()
	for !strings.Contains(b.String(), text) {
		select {
		case <-b.changed:
		case <-t.Context().Done():
			t.Fatalf("%q never came, there is %q", text, b)
		}
	}
}

// result is the result of a command.
type result struct {
	out, err string
	code     int
	failure  error
}

func (w *world) run(t *testing.T, req Request, s Streams) result {
	t.Helper()
	out, errs := newBuffer(), newBuffer()
	s.Out, s.Err = out, errs
	code, err := w.Run(t.Context(), req, s)
	return result{out.String(), errs.String(), code, err}
}

func reader(text string) *bufio.Reader { return bufio.NewReader(strings.NewReader(text)) }
