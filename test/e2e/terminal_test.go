//go:build e2e

package e2e

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"

	"github.com/podtask/podtask/internal/testing/registrytest"
)

// terminal is a podtask on a real terminal.
type terminal struct {
	*process
	keys *os.File
	// screen is all that was printed.
	screen *syncBuffer
	// line is the other end of keys, held open so that the terminal's settings can
	// be read after the program.
	line *os.File
}

// onTerminal starts podtask on a terminal of 24 rows and 80 columns.
func (b *box) onTerminal(args ...string) *terminal {
	b.t.Helper()
	return onTerminalWith(b, func(*exec.Cmd) {}, args...)
}

// onTerminalWith starts what change makes of podtask.
func onTerminalWith(b *box, change func(*exec.Cmd), args ...string) *terminal {
	b.t.Helper()
	keys, line, err := pty.Open()
	if err != nil {
		b.t.Fatal(err)
	}
	t := &terminal{keys: keys, line: line, screen: new(syncBuffer)}
	b.t.Cleanup(func() { line.Close(); keys.Close() })
	t.resize(24, 80)
	t.process = b.startWith(func(cmd *exec.Cmd) {
		cmd.Stdin, cmd.Stdout, cmd.Stderr = line, line, line
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		cmd.Env = append(cmd.Environ(), "TERM=xterm") // who runs the tests may have none
		change(cmd)
	}, args...)
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := keys.Read(buf)
			_, _ = t.screen.Write(buf[:n])
			if err != nil {
				return
			}
		}
	}()
	return t
}

func (t *terminal) resize(rows, columns uint16) {
	t.process.fatal(pty.Setsize(t.keys, &pty.Winsize{Rows: rows, Cols: columns}))
}

// fatal ends the test at an error; p may be nil before the start.
func (p *process) fatal(err error) {
	if err != nil && p != nil {
		p.t.Helper()
		p.t.Fatal(err)
	}
}

// keysIn types.
func (t *terminal) keysIn(text string) {
	t.t.Helper()
	_, err := t.keys.WriteString(text)
	t.fatal(err)
}

// see waits until a text is on the screen and forgets what was there up to it.
func (t *terminal) see(text string) {
	t.t.Helper()
	eventually(t.t, "the text "+text+" on the terminal", func() bool { return t.screen.cut(text) })
}

// cut forgets everything up to the end of a text; false if it is not there.
func (s *syncBuffer) cut(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, after, found := strings.Cut(s.buf.String(), text)
	if found {
		s.buf.Reset()
		s.buf.WriteString(after)
	}
	return found
}

// settings are those of the terminal: echo, line by line, and so on.
func (t *terminal) settings() unix.Termios {
	t.t.Helper()
	got, err := unix.IoctlGetTermios(int(t.line.Fd()), unix.TCGETS)
	t.fatal(err)
	return *got
}

// shellImage has the bed's own shell and what the tests do with it.
func shellImage(t *testing.T) v1.Image {
	t.Helper()
	files := map[string]registrytest.File{"/tmp/": {Path: "/tmp/", Mode: 0o1777}, "/testbox": {Path: "/testbox", Data: bed.testbox}}
	for _, program := range []string{"sh", "stty", "cat", "sleep"} {
		path, err := exec.LookPath(program)
		if err != nil {
			t.Fatal(err)
		}
		addProgram(t, files, path, "/bin/"+program)
	}
	files["/bin/noexec"] = registrytest.File{Path: "/bin/noexec", Mode: 0o644, Data: []byte("no program\n")}
	var all []registrytest.File
	for _, f := range files {
		all = append(all, f)
	}
	img, err := registrytest.Image(v1.Config{Entrypoint: []string{"/testbox"}, Env: []string{"PATH=/bin", "LD_LIBRARY_PATH=/lib"}}, all...)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// addProgram adds a program under a path, with its loader and libraries.
func addProgram(t *testing.T, files map[string]registrytest.File, from, as string) {
	t.Helper()
	if _, done := files[as]; done {
		return
	}
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	files[as] = registrytest.File{Path: as, Data: data}
	f, err := elf.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if loader := f.Section(".interp"); loader != nil {
		name, err := loader.Data()
		if err != nil {
			t.Fatal(err)
		}
		path := strings.TrimRight(string(name), "\x00")
		addProgram(t, files, path, path)
	}
	libraries, err := f.ImportedLibraries()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range libraries {
		found, err := filepath.Glob("/lib/*-linux-*/" + name)
		if err != nil || len(found) == 0 {
			found, _ = filepath.Glob("/lib*/" + name)
		}
		if len(found) == 0 {
			t.Fatalf("no library %s for %s", name, from)
		}
		addProgram(t, files, found[0], "/lib/"+name)
	}
}

// shell runs a task with a container that has a shell and waits, until it is up.
func (b *box) shell() (id string) {
	b.t.Helper()
	ref, _ := b.push("shell:1", shellImage(b.t))
	return b.detach("--wait=running", "--name", b.family, b.define(ctr{Name: "app", Image: ref, Command: words("sleep forever")}))
}
