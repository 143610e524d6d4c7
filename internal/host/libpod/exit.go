package libpod

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/containers/podman/v5/libpod/define"
	"golang.org/x/sys/unix"
)

// Podman answers a wait by polling the container several times a second, which takes a tenth of
// a core with a hundred containers, in all versions (docs/upstream#waits-poll). So WaitContainer watches conmon, the process that monitors
// the container: it writes the exit code to a file in the exit directory that its arguments
// name, and then ends. Neither needs polling here. If conmon is not a process of this host,
// WaitContainer asks Podman to wait.

// conmon is the process that monitors a container.
type conmon struct {
	exitFile string
	// stoppedOnly: the clean-up that conmon starts does nothing to a container that was started
	// again in the meantime.
	stoppedOnly bool
	process     *os.File // a pidfd, which becomes readable when conmon ends
}

// monitored identifies the conmon of a running container, from an inspection.
type monitored struct {
	id  string // of the container
	pid int
}

// monitoredBy returns the conmon in data; ok is false if the container is not running.
func monitoredBy(data *define.InspectContainerData) (m monitored, ok bool) {
	if data.State == nil || data.State.ConmonPid <= 0 || statusFrom(data.State.Status) != Running {
		return m, false
	}
	return monitored{data.ID, data.State.ConmonPid}, true
}

// find opens the conmon of a container; nil if it does not exist or cannot be watched.
func (m monitored) find() *conmon {
	fd, err := unix.PidfdOpen(m.pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil // no such process here, or a kernel before 5.10
	}
	process := os.NewFile(uintptr(fd), "conmon")
	// Another process may have the PID: conmon may have ended, or run on another host.
	line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(m.pid), "cmdline"))
	args := strings.Split(string(line), "\x00")
	dir, ok := exitDir(args, m.id)
	if err != nil || !ok {
		_ = process.Close()
		return nil
	}
	return &conmon{exitFile: filepath.Join(dir, m.id), stoppedOnly: slices.Contains(args, "--stopped-only"), process: process}
}

// exitDir returns the exit directory in the command line of the conmon of a container.
func exitDir(args []string, id string) (dir string, ok bool) {
	if filepath.Base(args[0]) != "conmon" {
		return "", false
	}
	for i := 1; i < len(args); i++ {
		switch {
		case i+1 == len(args):
		case args[i] == "--exit-dir":
			dir = args[i+1]
		case args[i] == "-c" || args[i] == "--cid":
			ok = args[i+1] == id
		}
	}
	return dir, ok && filepath.IsAbs(dir)
}

// ended waits until the process ends or its pidfd is closed.
func (c *conmon) ended() error {
	raw, err := c.process.SyscallConn()
	if err != nil {
		return err
	}
	var pollErr error
	err = raw.Read(func(fd uintptr) (done bool) {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		if err != nil && !errors.Is(err, unix.EINTR) {
			pollErr = err
		}
		return n > 0 || pollErr != nil
	})
	return errors.Join(err, pollErr)
}

// awaitExit returns when the container has exited: when conmon has ended, or when it has
// written the exit file and either final returns true or cleanupLimit has passed. final is
// called once, after the file was written. The error says why the wait is not possible.
func (c *conmon) awaitExit(ctx context.Context, files *exitFiles, final func() bool) error {
	written, forget := files.watch(c.exitFile)
	defer forget()
	ended := make(chan error, 1)
	var wait sync.WaitGroup
	wait.Go(func() { ended <- c.ended() })
	defer wait.Wait()
	defer c.process.Close()
	if _, err := os.Lstat(c.exitFile); err != nil { // it was not written before the watch began
		select {
		case <-written:
		case err := <-ended:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if c.stoppedOnly && final() {
		return nil
	}
	late := time.NewTimer(cleanupLimit)
	defer late.Stop()
	select {
	case <-ended:
	case <-late.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// cleanupLimit is the longest wait for Podman's clean-up after the exit of a container that was
// stopped with Podman. conmon ends after the clean-up. An inspection before that would report
// a container that a user is restarting as exited.
const cleanupLimit = 3 * time.Second

// exitFiles watches for new files in exit directories, with one inotify instance. Files in a
// directory that cannot be watched are never reported.
type exitFiles struct {
	mu      sync.Mutex
	notify  *os.File // nil before the first watch, or if inotify is not available
	closed  bool
	waiting map[string][]chan struct{}
	reader  sync.WaitGroup
}

// watch returns a channel that is closed when the file was or may have been written, and a
// function that ends the watch.
func (e *exitFiles) watch(path string) (written <-chan struct{}, forget func()) {
	ch := make(chan struct{})
	e.mu.Lock()
	defer e.mu.Unlock()
	name := filepath.Base(path)
	if e.waiting == nil {
		e.waiting = make(map[string][]chan struct{})
	}
	e.waiting[name] = append(e.waiting[name], ch)
	e.follow(filepath.Dir(path))
	return ch, func() { e.forget(name, ch) }
}

// follow watches a directory. The caller holds mu.
func (e *exitFiles) follow(dir string) {
	if e.closed {
		return
	}
	if e.notify == nil {
		fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
		if err != nil {
			return // the user has no inotify instance left; the end of conmon is still noticed
		}
		e.notify = os.NewFile(uintptr(fd), "inotify")
		e.reader.Go(func() { e.read(e.notify) })
	}
	raw, err := e.notify.SyscallConn()
	if err != nil {
		return
	}
	// Adding a watch again covers a directory that was removed and created again.
	_ = raw.Control(func(fd uintptr) {
		_, _ = unix.InotifyAddWatch(int(fd), dir, unix.IN_MOVED_TO|unix.IN_CLOSE_WRITE|unix.IN_ONLYDIR)
	})
}

// forget ends a watch.
func (e *exitFiles) forget(name string, ch chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := e.waiting[name]
	for i := range all {
		if all[i] == ch {
			e.waiting[name] = append(all[:i:i], all[i+1:]...)
			break
		}
	}
	if len(e.waiting[name]) == 0 {
		delete(e.waiting, name)
	}
}

// read closes the channels of written files until the inotify instance is closed.
func (e *exitFiles) read(from *os.File) {
	buf := make([]byte, 16*(unix.SizeofInotifyEvent+unix.NAME_MAX+1))
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		names, lost := eventNames(buf[:n])
		e.mu.Lock()
		if lost {
			names = slices.Collect(maps.Keys(e.waiting))
		}
		for _, name := range names {
			for _, ch := range e.waiting[name] {
				close(ch)
			}
			delete(e.waiting, name)
		}
		e.mu.Unlock()
	}
}

// eventNames returns the names of files in inotify events, and whether events were lost.
func eventNames(buf []byte) (names []string, lost bool) {
	for len(buf) >= unix.SizeofInotifyEvent {
		mask, size := binary.NativeEndian.Uint32(buf[4:]), int(binary.NativeEndian.Uint32(buf[12:]))
		buf = buf[unix.SizeofInotifyEvent:]
		if size > len(buf) {
			return names, true
		}
		lost = lost || mask&unix.IN_Q_OVERFLOW != 0
		if name, _, _ := bytes.Cut(buf[:size], []byte{0}); len(name) > 0 {
			names = append(names, string(name))
		}
		buf = buf[size:]
	}
	return names, lost
}

// close ends all watches.
func (e *exitFiles) close() {
	e.mu.Lock()
	e.closed = true
	if e.notify != nil {
		_ = e.notify.Close()
	}
	e.mu.Unlock()
	e.reader.Wait()
}
