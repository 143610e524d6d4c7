package userfile_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/userfile"
	"golang.org/x/sys/unix"
)

func TestWhatIsNoFileIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipe, link := filepath.Join(dir, "pipe"), filepath.Join(dir, "link")
	if err := errors.Join(unix.Mkfifo(pipe, 0o600), os.Symlink(pipe, link)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		pipe: "is a named pipe", link: "is a named pipe", "/dev/zero": "is a device", "/dev/full": "is a device", dir: "is a directory",
	} {
		if _, err := userfile.Read(name, 10); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := userfile.Read(filepath.Join(dir, "none"), 10); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if text, err := userfile.Read("/dev/null", 10); err != nil || len(text) != 0 {
		t.Errorf("%q %v", text, err)
	}
}

func TestReadIsBounded(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	for limit, want := range map[int64]string{10: "0123456789", 20: "0123456789", 3: "0123"} {
		if text, err := userfile.Read(name, limit); string(text) != want || err != nil {
			t.Errorf("%d: %q %v", limit, text, err)
		}
	}
}

// The pipe of <(command) is read to its end, also if it is slow.
func TestPipesOfAShellAreRead(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"/dev/fd/%d", "/proc/self/fd/%d", fmt.Sprintf("/proc/%d/fd/%%d", os.Getpid())} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		type result struct {
			text []byte
			err  error
		}
		got := make(chan result, 1)
		go func() {
			text, err := userfile.Read(fmt.Sprintf(form, r.Fd()), 1<<20)
			got <- result{text, err}
		}()
		for _, part := range []string{"a", strings.Repeat("b", 1<<17), "c"} {
			if _, err := w.WriteString(part); err != nil {
				t.Fatal(err)
			}
		}
		w.Close()
		if r := <-got; r.err != nil || len(r.text) != 1<<17+2 {
			t.Errorf("%s: %d bytes, %v", form, len(r.text), r.err)
		}
		r.Close()
	}
}

// A signal ends the wait for a pipe that says nothing. It is not parallel: signals are the process's.
func TestASignalEndsARead(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	defer r.Close()
	for _, s := range []unix.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP} {
		if signal.Ignored(s) { // as under nohup
			continue
		}
		got := make(chan error, 1)
		begun := make(chan struct{})
		go func() {
			_, err := userfile.ReadFrom(readerFunc(func(p []byte) (int, error) {
				close(begun)
				return r.Read(p)
			}), "stdin", 10)
			got <- err
		}()
		<-begun
		if err := unix.Kill(os.Getpid(), s); err != nil {
			t.Fatal(err)
		}
		var interrupted *userfile.InterruptedError
		if err := <-got; !errors.As(err, &interrupted) || interrupted.Signal != s {
			t.Errorf("%s: %v", s, err)
		}
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
