package program

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// launchEnv tells a process to start the successor and to end, or the successor to write its PID. A service manager notices
// the end of its children only, so the successor must become one, though its predecessor lives on for as long as old
// connections do.
const (
	launchEnv   = "PODTASK_INGRESS_LAUNCH"
	launcher    = "launcher"
	afterLaunch = "successor"
)

// handOver starts this program again, perhaps another version, with the listeners, and returns when it
// serves.
func (s *server) handOver() (pid int, err error) {
	path, err := os.Executable()
	if err != nil {
		return 0, err
	}
	names, files, err := s.sockets.files(s.streams.listeners())
	defer func() {
		for _, f := range files {
			_ = f.Close()
		}
	}()
	if err != nil {
		return 0, err
	}
	from, to, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer from.Close()
	var descriptors []uintptr
	for _, f := range append(files, to) {
		fd, failed := descriptor(f)
		err = errors.Join(err, failed)
		descriptors = append(descriptors, fd)
	}
	var child int
	if err == nil {
		child, err = spawn(path, append(os.Environ(), inheritedEnv+"="+strings.Join(names, ":"), launchEnv+"="+launcher), descriptors)
	}
	_ = to.Close()
	if err != nil {
		return 0, err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = syscall.Wait4(child, nil, 0, nil)
	}()
	if err := from.SetReadDeadline(time.Now().Add(successorTime)); err != nil {
		return 0, err
	}
	if pid, err = readSuccessor(from); err != nil {
		if pid != 0 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		_ = syscall.Kill(child, syscall.SIGKILL)
		<-ended
		return 0, fmt.Errorf("the new process does not serve: %w", err)
	}
	s.notify("MAINPID=" + strconv.Itoa(pid))
	return pid, nil
}

// readSuccessor reads the PID of the successor, and then until it serves. The PID is not 0 as soon as it is known.
func readSuccessor(from io.Reader) (pid int, err error) {
	r := bufio.NewReader(from)
	line, err := r.ReadString('\n')
	if err != nil {
		return 0, err
	}
	if pid, err = strconv.Atoi(strings.TrimSpace(line)); err != nil {
		return 0, err
	}
	_, err = r.ReadByte()
	return pid, err
}

// launch starts the successor with all that this process has inherited.
func launch() error {
	path, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.Setenv(launchEnv, afterLaunch); err != nil {
		return err
	}
	ready := firstDescriptor + strings.Count(os.Getenv(inheritedEnv), ":") + 1
	var descriptors []uintptr
	for fd := firstDescriptor; fd <= ready; fd++ {
		descriptors = append(descriptors, uintptr(fd))
	}
	_, err = spawn(path, os.Environ(), descriptors)
	return err
}

// spawn starts a program with the arguments and the streams of this process, and more descriptors from 3 on. Unlike os/exec it
// leaves the descriptors nonblocking: they share that with the listeners of this process, which could not be
// closed any more while they wait for a connection.
func spawn(path string, env []string, descriptors []uintptr) (pid int, err error) {
	return syscall.ForkExec(path, os.Args, &syscall.ProcAttr{Env: env, Files: append([]uintptr{0, 1, 2}, descriptors...)})
}

// descriptor returns the descriptor of a file, which it leaves as it is.
func descriptor(f *os.File) (fd uintptr, err error) {
	c, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	err = c.Control(func(n uintptr) { fd = n })
	return fd, err
}

// tellPID writes the PID of a successor to the pipe to its predecessor.
func tellPID(ready io.Writer) error {
	if os.Getenv(launchEnv) != afterLaunch {
		return nil
	}
	_, err := fmt.Fprintln(ready, os.Getpid())
	return errors.Join(err, os.Unsetenv(launchEnv))
}
