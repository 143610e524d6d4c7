// Package procgroup runs programs in process groups of their own, which end with them: no child
// process of a program that was given up keeps its output open or holds what it was asked for.
// A process that makes a session of its own, as daemons do, is not in the group.
package procgroup

import (
	"errors"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// Lead makes cmd, which has a context and is not started, the leader of a process group. At the
// end of its context the group gets sig.
func Lead(cmd *exec.Cmd, sig syscall.Signal) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, sig) }
}

// Wait waits for the end of cmd, a leader that runs, and returns what cmd.Wait does. What is left
// of the group is killed after the end of the leader and before the release of its process ID:
// no other group can have that ID then.
func Wait(cmd *exec.Cmd) error {
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	return cmd.Wait()
}

// Run runs cmd, which has a context, as the leader of a process group, and returns what cmd.Run
// does. At the end of its context the group is killed.
func Run(cmd *exec.Cmd) error {
	Lead(cmd, syscall.SIGKILL)
	if err := cmd.Start(); err != nil {
		return err
	}
	return Wait(cmd)
}
