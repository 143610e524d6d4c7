package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Numbers of linux/ptrace.h that package syscall does not have.
const (
	ptraceSeize       = 0x4206
	ptraceInterrupt   = 0x4207
	ptraceListen      = 0x4208
	ptraceSyscallInfo = 0x420e // Linux 5.3
	eventStop         = 128
	traceOptions      = syscall.PTRACE_O_TRACESYSGOOD | syscall.PTRACE_O_TRACEFORK | syscall.PTRACE_O_TRACEVFORK |
		syscall.PTRACE_O_TRACECLONE | syscall.PTRACE_O_TRACEEXEC
)

// traced are the programs that are followed. A process that executes another one, such as the program of a container,
// is let go.
var traced = map[string]bool{
	"podman": true, "conmon": true, "crun": true, "runc": true, "netavark": true, "aardvark-dns": true,
	"pasta": true, "pasta.avx2": true, "passt": true, "passt.avx2": true, "slirp4netns": true, "rootlessport": true,
	"fuse-overlayfs": true,
	"dash":           true, "bash": true, // a script in place of a runtime
}

// A tracer follows one command and all that it starts, counts the entries into some system calls by the processes of
// one program, and kills the process of the when-th entry. That call is then not made. strace counts for each thread
// by itself instead, which for a Go program is another number in each run.
type tracer struct {
	program string // its file name without .avx2; "" is any
	calls   map[uint64]bool
	when    int    // 0 only counts
	instead string // a command of the shell that runs at that entry, in place of the kill
	refused string // a directory that is read-only from that entry on, in place of the kill
	attach  string // processes of the program that run before with this word in their command line are followed too
	rest    string // requests to the command, which is a service: a socket, then one request a line

	root     int
	counts   atomic.Bool
	answered chan int // 0 after requests that succeeded
	count    int
	killed   int            // the process that was killed, or in which the fault began, or 0
	readOnly bool           // refused is
	refusing map[int]bool   // threads in a call that fails
	err      error          // what the tracer could not do
	at       string         // the program and the call of the kill
	programs map[int]string // by thread
}

// traceResult is the report of the tracer to the process that started it.
type traceResult struct {
	Count, Killed, Exit int
	At                  string // the call of the kill, "-" without one
}

// trace runs the command until it ends. What it leaves is let go when the tracer's process ends.
func (t *tracer) trace(command []string) (traceResult, error) {
	runtime.LockOSThread()
	// The shell waits until it is traced, and has one thread.
	r, w, err := os.Pipe()
	if err != nil {
		return traceResult{}, err
	}
	stub := exec.Command("/bin/sh", append([]string{"-c", `read -r go <&3; exec 3<&-; exec "$@"`, "sh"}, command...)...)
	stub.Stdout, stub.Stderr = os.Stdout, os.Stderr
	stub.ExtraFiles = []*os.File{r}
	if err := stub.Start(); err != nil {
		return traceResult{}, err
	}
	root := stub.Process.Pid
	t.root = root
	if err := ptrace(ptraceSeize, root, traceOptions); err != nil {
		return traceResult{}, fmt.Errorf("ptrace is refused here: %w", err)
	}
	// A seized process runs on until it is interrupted.
	if err := ptrace(ptraceInterrupt, root, 0); err != nil {
		return traceResult{}, err
	}
	t.programs, t.refusing, t.at, t.answered = map[int]string{}, map[int]bool{}, "-", make(chan int, 1)
	t.attachAll()
	t.counts.Store(t.rest == "")
	if t.rest != "" {
		go t.request()
	}
	fmt.Fprintln(w, "go")
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WALL, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil:
			return traceResult{}, fmt.Errorf("wait: %w", err)
		case status.Stopped():
			t.stopped(pid, status)
			continue
		}
		delete(t.programs, pid)
		if pid == root {
			return traceResult{t.count, t.killed, t.exit(status), t.at}, t.err
		}
	}
}

// attachAll follows what runs already.
func (t *tracer) attachAll() {
	if t.attach == "" {
		return
	}
	for _, pid := range processes(t.attach) {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
		for _, task := range tasks {
			tid, _ := strconv.Atoi(filepath.Base(task))
			if t.of(tid) && ptrace(ptraceSeize, tid, traceOptions) == nil {
				_ = ptrace(ptraceInterrupt, tid, 0)
			}
		}
	}
}

// exit returns the exit code of the command, 128 and the number of the signal that ended it, or that of the requests.
func (t *tracer) exit(status syscall.WaitStatus) int {
	select {
	case code := <-t.answered:
		return code
	default:
	}
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// stopped lets a stopped thread go on. Errors mean that the thread was killed meanwhile.
func (t *tracer) stopped(pid int, status syscall.WaitStatus) {
	sig, event := status.StopSignal(), int(status)>>16
	switch {
	case event == eventStop && sig != syscall.SIGTRAP:
		_ = ptrace(ptraceListen, pid, 0) // stopped as a group
	case event == syscall.PTRACE_EVENT_EXEC:
		delete(t.programs, pid)
		if pid != t.root && !traced[t.programOf(pid)] { // the shell's own may be seen too
			_ = ptrace(syscall.PTRACE_DETACH, pid, 0)
			return
		}
		_ = ptrace(syscall.PTRACE_SYSCALL, pid, 0)
	case event != 0:
		_ = ptrace(syscall.PTRACE_SYSCALL, pid, 0)
	case sig == syscall.SIGTRAP|0x80:
		if info, err := infoOf(pid); err == nil {
			if info.op == 1 && t.calls[info.nr] {
				t.hit(pid, info.nr)
			}
			if t.readOnly {
				t.refuse(pid, info)
			}
		}
		_ = ptrace(syscall.PTRACE_SYSCALL, pid, 0)
	default:
		_ = ptrace(syscall.PTRACE_SYSCALL, pid, uintptr(sig))
	}
}

// hit counts an entry, and kills at the chosen one.
func (t *tracer) hit(pid int, nr uint64) {
	if !t.counts.Load() || !t.of(pid) {
		return
	}
	t.count++
	switch {
	case t.count != t.when:
		return
	case t.refused != "":
		t.readOnly = true
	case t.instead == "":
		_ = syscall.Kill(pid, syscall.SIGKILL)
	default:
		t.err = exec.Command("/bin/sh", "-c", t.instead).Run()
	}
	t.killed, t.at = pid, t.programOf(pid)+":"+nameOf(nr)
}

// of tells whether a thread is of the program.
func (t *tracer) of(pid int) bool {
	return t.program == "" || strings.TrimSuffix(t.programOf(pid), ".avx2") == t.program
}

// programOf returns the file name of the program of a thread, "" if it has ended.
func (t *tracer) programOf(pid int) string {
	if name, ok := t.programs[pid]; ok {
		return name
	}
	link, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/exe")
	if err != nil {
		return ""
	}
	name := strings.TrimSuffix(filepath.Base(link), " (deleted)")
	// crun and runc execute a copy of themselves, which has no path.
	if name == "/" || strings.HasPrefix(link, "/memfd:") {
		data, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
		word, _, _ := strings.Cut(string(data), "\x00")
		name = filepath.Base(word)
	}
	t.programs[pid] = name
	return name
}

func ptrace(request, pid int, data uintptr) error {
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PTRACE, uintptr(request), uintptr(pid), 0, data, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// errDeadline is the error of a command that does not end in time.
var errDeadline = errors.New("deadline")

// traceCommand runs a tracer in a process of its own, since one that ends lets go all that it traces. The command is one
// of Podman's or lines with requests to its service.
func (b *bed) traceCommand(k kill, command string, deadline time.Duration) (traceResult, string, error) {
	self, err := os.Executable()
	if err != nil {
		return traceResult{}, "", err
	}
	file := filepath.Join(b.dir, "trace")
	os.Remove(file)
	args := []string{self, "-trace", file, "-program", k.Program, "-syscall", k.Syscall, "-when", strconv.Itoa(k.When)}
	if k.Program != "podman" {
		args = append(args, "-attach", filepath.Base(b.dir))
	}
	if k.Fault == "read-only" {
		args = append(args, "-refuse", filepath.Join(b.dir, "store"))
	}
	if do := faults[k.Fault].do; do != "" {
		words := b.inNamespace(do)
		args = append(args, "-instead", strings.Join(words[:len(words)-1], " ")+" '"+words[len(words)-1]+"'")
	}
	if isRequest(command) {
		args = append(args, "-rest", b.fill("SOCKET\n"+command))
		command = "system service -t 0 unix://SOCKET"
	}
	out, code, err := b.run(deadline, append(append(args, "--"), b.args(command)...)...)
	if err != nil {
		return traceResult{}, out, err
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return traceResult{}, out, fmt.Errorf("the tracer ended with %d: %s", code, out)
	}
	var res traceResult
	_, err = fmt.Sscan(string(data), &res.Count, &res.Killed, &res.Exit, &res.At)
	return res, out, err
}
