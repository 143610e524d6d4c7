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

// Podman answers a wait by looking at the container several times a second, which with a
// hundred containers takes it a tenth of a core. So the end of a container is learned from
// conmon, the process that holds it: conmon writes the exit code into a file in the exit
// directory of its arguments, and ends. Both wake this process up without polling. Where
// conmon is not a process of this host, Podman is asked.

// conmon is the process that monitors a container.
type conmon struct {
	exitFile string
	// lenient: the clean-up that conmon has Podman run leaves a container alone that was started
	// again in the meantime.
	lenient bool
	process *os.File // a pidfd, which is readable from the end of conmon
}

// monitored is what an inspection says of the conmon of a running container.
type monitored struct {
	id  string // of the container
	pid int
}

// monitoredBy returns what data says of conmon; ok is false if the container does not run.
func monitoredBy(data *define.InspectContainerData) (m monitored, ok bool) {
	if data.State == nil || data.State.ConmonPid <= 0 || statusFrom(data.State.Status) != Running {
		return m, false
	}
	return monitored{data.ID, data.State.ConmonPid}, true
}

// find finds the conmon of a container; nil if it is not, or no longer, a process that can
// be watched.
func (m monitored) find() *conmon {
	fd, err := unix.PidfdOpen(m.pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil // none here, or a kernel before 5.10
	}
	process := os.NewFile(uintptr(fd), "conmon")
	// The process may have got the number after conmon ended, or on another host.
	line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(m.pid), "cmdline"))
	args := strings.Split(string(line), "\x00")
	dir, ok := exitDir(args, m.id)
	if err != nil || !ok {
		_ = process.Close()
		return nil
	}
	return &conmon{exitFile: filepath.Join(dir, m.id), lenient: slices.Contains(args, "--stopped-only"), process: process}
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

// ended waits until the process ends, or is closed here.
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

// awaitExit returns when the container has exited: when conmon has ended, has written the
// exit file and does not end, or has written it and final, called once then, says that this
// is enough. It returns an error if the exit cannot be waited for.
func (c *conmon) awaitExit(ctx context.Context, files *exitFiles, final func() bool) error {
	written, forget := files.watch(c.exitFile)
	defer forget()
	ended := make(chan error, 1)
	var wait sync.WaitGroup
	wait.Go(func() { ended <- c.ended() })
	defer wait.Wait()
	defer c.process.Close()
	if _, err := os.Lstat(c.exitFile); err != nil { // not between the inspection and the watch
		select {
		case <-written:
		case err := <-ended:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if c.lenient && final() {
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

// cleanupLimit is how long Podman may take to clean up after the exit of a container that was
// stopped with Podman, before the exit is reported. conmon ends when that is done. An
// inspection before would see a container that a user restarts as one that has exited.
const cleanupLimit = 3 * time.Second

// exitFiles tells when files appear in exit directories, with one inotify instance. What it
// cannot watch is never reported.
type exitFiles struct {
	mu      sync.Mutex
	notify  *os.File // nil until the first watch, and if there can be none
	closed  bool
	waiting map[string][]chan struct{}
	reader  sync.WaitGroup
}

// watch returns a channel that is closed when the file is written, or may have been, and a
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
			return // the user has too many; conmon's end is noticed all the same
		}
		e.notify = os.NewFile(uintptr(fd), "inotify")
		e.reader.Go(func() { e.read(e.notify) })
	}
	raw, err := e.notify.SyscallConn()
	if err != nil {
		return
	}
	// Adding a watch again finds a directory that was removed and made again.
	_ = raw.Control(func(fd uintptr) {
		_, _ = unix.InotifyAddWatch(int(fd), dir, unix.IN_MOVED_TO|unix.IN_CLOSE_WRITE|unix.IN_ONLYDIR)
	})
}

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

// read passes events on until the instance is closed.
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

// close ends the watches.
func (e *exitFiles) close() {
	e.mu.Lock()
	e.closed = true
	if e.notify != nil {
		_ = e.notify.Close()
	}
	e.mu.Unlock()
	e.reader.Wait()
}
