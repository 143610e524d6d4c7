package program

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
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

// handOver starts this program anew, perhaps another version, with the listeners, and returns when it
// serves.
func (s *server) handOver() (pid int, err error) {
	path, err := os.Executable()
	if err != nil {
		return 0, err
	}
	names, files, err := s.sockets.files()
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
	cmd := exec.Command(path, os.Args[1:]...)
	cmd.Env = append(os.Environ(), inheritedEnv+"="+strings.Join(names, ":"), launchEnv+"="+launcher)
	cmd.ExtraFiles = append(files, to)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	err = cmd.Start()
	_ = to.Close()
	if err != nil {
		return 0, err
	}
	if err := from.SetReadDeadline(time.Now().Add(successorTime)); err != nil {
		return 0, err
	}
	if pid, err = readSuccessor(from); err != nil {
		if pid != 0 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		_ = cmd.Process.Kill()
		return 0, fmt.Errorf("the new process does not serve: %w", errors.Join(err, cmd.Wait()))
	}
	go func() { _ = cmd.Wait() }()
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
	cmd := exec.Command(path, os.Args[1:]...)
	for fd := firstDescriptor; fd <= ready; fd++ {
		cmd.ExtraFiles = append(cmd.ExtraFiles, os.NewFile(uintptr(fd), "inherited"))
	}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Start()
}

// tellPID writes the PID of a successor to the pipe to its predecessor.
func tellPID(ready io.Writer) error {
	if os.Getenv(launchEnv) != afterLaunch {
		return nil
	}
	_, err := fmt.Fprintln(ready, os.Getpid())
	return errors.Join(err, os.Unsetenv(launchEnv))
}
