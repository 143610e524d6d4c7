package libpod

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/containers/podman/v5/libpod/define"
	"golang.org/x/sys/unix"
)

// StartMonitor starts a process with the arguments of the conmon of a container, which runs
// until end is called or the test ends.
func StartMonitor(t *testing.T, id, dir string, more ...string) (pid int, end func()) {
	t.Helper()
	// To the shell all after its script are parameters of the script.
	c := &exec.Cmd{Path: "/bin/sh", Args: append([]string{"conmon", "-c", "echo; read line", "script", "--cid", id, "--exit-dir", dir}, more...)}
	stdin, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	end = sync.OnceFunc(func() {
		_ = stdin.Close()
		_ = c.Wait()
	})
	t.Cleanup(end)
	if _, err := stdout.Read(make([]byte, 1)); err != nil { // now it has its arguments
		t.Fatal(err)
	}
	return c.Process.Pid, end
}

// Remembered is the number of containers of which an inspection is kept for their wait.
func Remembered(c *Client) (n int) {
	c.monitored.Range(func(any, any) bool { n++; return true })
	return n
}

// The end of conmon is enough: the exit file may be missing, because conmon was killed, and
// so may the directory, where Podman has another view of the files.
func TestEndOfConmonEndsTheWait(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(dir string) error{
		"no exit file": func(string) error { return nil },
		"no directory": os.Remove,
		"another file": func(dir string) error { return os.WriteFile(filepath.Join(dir, "another"), nil, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			pid, end := StartMonitor(t, "id", dir)
			m, _ := monitoredBy(&define.InspectContainerData{ID: "id", State: &define.InspectContainerState{Status: "running", ConmonPid: pid}})
			monitor := m.find()
			if monitor == nil {
				t.Fatal("conmon is not found")
			}
			var files exitFiles
			t.Cleanup(files.close)
			done := make(chan error, 1)
			go func() { done <- monitor.awaitExit(t.Context(), &files, nil) }()
			if err := prepare(dir); err != nil {
				t.Error(err)
			}
			select {
			case err := <-done:
				t.Errorf("the wait ended before conmon: %v", err)
			default:
			}
			end()
			if err := <-done; err != nil {
				t.Error(err)
			}
			files.mu.Lock() // the inotify instance is still read
			defer files.mu.Unlock()
			if len(files.waiting) > 0 {
				t.Errorf("%d files are still waited for", len(files.waiting))
			}
		})
	}
}

func TestExitDirectoryOfConmon(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"/usr/bin/conmon -c id -u id --exit-dir /run/exits --persist-dir /p": "/run/exits",
		"conmon --exit-dir /run/exits --cid id":                              "/run/exits",
		"conmon -c other --exit-dir /run/exits":                              "",
		"conmon -c id --exit-dir exits":                                      "",
		"conmon -c id --exit-dir":                                            "",
		"conmon -c id":                                                       "",
		"sleep -c id --exit-dir /run/exits":                                  "",
		"":                                                                   "",
	} {
		dir, ok := exitDir(strings.Split(line, " "), "id")
		if ok != (want != "") || ok && dir != want {
			t.Errorf("%q: %q, %v", line, dir, ok)
		}
	}
}

// event is an inotify event as the kernel writes it.
func event(mask uint32, name string) []byte {
	size := (len(name) + 16) / 16 * 16
	if name == "" {
		size = 0
	}
	buf := make([]byte, unix.SizeofInotifyEvent+size)
	binary.NativeEndian.PutUint32(buf[4:], mask)
	binary.NativeEndian.PutUint32(buf[12:], uint32(size))
	copy(buf[unix.SizeofInotifyEvent:], name)
	return buf
}

func TestNamesOfInotifyEvents(t *testing.T) {
	t.Parallel()
	names, lost := eventNames(slices.Concat(event(unix.IN_MOVED_TO, "a"), event(unix.IN_CLOSE_WRITE, "b")))
	if lost || !slices.Equal(names, []string{"a", "b"}) {
		t.Errorf("%q, %v", names, lost)
	}
	for _, buf := range [][]byte{event(unix.IN_Q_OVERFLOW, ""), event(unix.IN_MOVED_TO, "a")[:20]} {
		if _, lost := eventNames(buf); !lost {
			t.Errorf("%v: nothing was lost", buf)
		}
	}
}

func FuzzEventNames(f *testing.F) {
	f.Add(slices.Concat(event(unix.IN_MOVED_TO, "a"), event(unix.IN_CLOSE_WRITE, "b")))
	f.Fuzz(func(t *testing.T, buf []byte) {
		names, _ := eventNames(buf)
		for _, name := range names {
			if name == "" || strings.ContainsRune(name, 0) {
				t.Errorf("name %q", name)
			}
		}
	})
}
