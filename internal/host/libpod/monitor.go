package libpod

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/blang/semver/v4"
	"golang.org/x/sys/unix"
)

// withoutMonitor is the first version that is known to remove a container whose conmon has ended with an exit file.
var withoutMonitor = semver.MustParse("5.0.0")

// reapLimit is the longest wait for the end of the programs of a pod that is about to be removed.
const reapLimit = 3 * time.Second

// killMembers kills the running containers of a pod that is about to be removed. Podman would kill them all the same,
// but each conmon would start `podman container cleanup` then: half of a removal's processor time, for work that
// the removal does itself. So each conmon is kept from starting a process before its program is killed. It still
// writes the rest of the log and the exit file. All versions start them (docs/upstream#a-forced-removal-starts-clean-ups-that-find-nothing).
//
// A conmon that no systemd reaps is left to Podman, which takes a process that was not reaped for alive. So is
// whatever fails. If podtask ends before the removal, Podman finds the exit file, and the next removal cleans up.
func (c *Client) killMembers(ctx context.Context, members []member) {
	if c.version.LT(withoutMonitor) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, reapLimit)
	defer cancel()
	var ending sync.WaitGroup
	defer ending.Wait()
	for _, m := range members {
		if m.pid <= 1 {
			continue
		}
		program, err := pidfd(m.pid)
		if err != nil {
			continue
		}
		ending.Go(func() {
			defer program.Close()
			killMember(ctx, program, m.pid, m.id)
		})
	}
}

// killMember kills the program of a container, which is process 1 of the container, and returns when its conmon has ended.
func killMember(ctx context.Context, program *os.File, pid int, id string) {
	parent, ok := parentOf(pid)
	if !ok {
		return
	}
	monitor := monitored{id, parent}.find() // only a conmon of this container, so pid is its program
	if monitor == nil {
		return
	}
	defer monitor.process.Close()
	if !adopted(parent) || signalTo(program, 0) != nil || !monitor.forbidChildren(parent) {
		return
	}
	if signalTo(program, unix.SIGKILL) == nil {
		awaitReaped(ctx, monitor.process)
	}
}

// forbidChildren keeps conmon, which has that PID, from starting processes: its clean-up then fails to start, and it
// ends. False if the kernel refuses the limit, or conmon has ended.
func (c *conmon) forbidChildren(pid int) bool {
	return signalTo(c.process, 0) == nil && unix.Prlimit(pid, unix.RLIMIT_NPROC, &unix.Rlimit{}, nil) == nil && signalTo(c.process, 0) == nil
}

// pidfd opens a process. It is the same one for as long as the file is open.
func pidfd(pid int) (*os.File, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "process"), nil
}

// signalTo sends a signal to a process; 0 only checks that its parent does not know of its end.
func signalTo(process *os.File, sig unix.Signal) error {
	raw, err := process.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = unix.PidfdSendSignal(int(fd), sig, nil, 0) }); err != nil {
		return err
	}
	return failed
}

// awaitReaped returns when a process has ended and its parent knows, which nothing tells a third process; false if ctx
// ends before.
func awaitReaped(ctx context.Context, process *os.File) bool {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for signalTo(process, 0) == nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// parentOf returns the parent of a process; ok is false if it cannot be read.
func parentOf(pid int) (parent int, ok bool) {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, false
	}
	// The name before the last parenthesis may contain anything.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 {
		return 0, false
	}
	parent, err = strconv.Atoi(string(fields[1]))
	return parent, err == nil
}

// adopted reports whether systemd is the parent of a process, and becomes that of its children: it waits for all.
func adopted(pid int) bool {
	parent, ok := parentOf(pid)
	name, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(parent), "comm"))
	return ok && err == nil && strings.TrimSpace(string(name)) == "systemd"
}
