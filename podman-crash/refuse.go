package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"unsafe"
)

// A syscallInfo is the ptrace_syscall_info of linux/ptrace.h.
type syscallInfo struct {
	op   uint8 // 1 at the entry into a call, 2 at its exit
	_    [3]uint8
	_    uint32
	_    [2]uint64
	nr   uint64 // the call; at its exit what it returns
	args [6]uint64
	_    uint64
}

func infoOf(pid int) (info syscallInfo, err error) {
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PTRACE, ptraceSyscallInfo, uintptr(pid), unsafe.Sizeof(info), uintptr(unsafe.Pointer(&info)), 0, 0)
	if errno != 0 {
		return info, errno
	}
	return info, nil
}

// set changes the call, or what it returns.
func (info *syscallInfo) set(pid int) error {
	const setSyscallInfo = 0x4212 // Linux 6.16
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PTRACE, setSyscallInfo, uintptr(pid), unsafe.Sizeof(*info), uintptr(unsafe.Pointer(info)), 0, 0)
	switch errno {
	case 0, syscall.ESRCH: // killed meanwhile
		return nil
	case syscall.EIO:
		return errors.New("a read-only store needs Linux 6.16")
	}
	return errno
}

// refuse lets a call that changes a file below t.refused fail as on a file system that is read-only.
func (t *tracer) refuse(pid int, info syscallInfo) {
	switch {
	case info.op == 1 && t.changes(pid, info):
		t.refusing[pid] = true
		info.nr = ^uint64(0)
	case info.op == 2 && t.refusing[pid]:
		delete(t.refusing, pid)
		info.nr = ^uint64(syscall.EROFS) + 1 // -EROFS
		info.args[0] = 1 // is_error
	default:
		return
	}
	if err := info.set(pid); err != nil {
		t.err = fmt.Errorf("%d: %w", pid, err)
	}
}

// changes tells whether a call changes a file below t.refused, by its path or as an open file.
func (t *tracer) changes(pid int, info syscallInfo) bool {
	a := info.args
	switch info.nr {
	case syscall.SYS_WRITE, syscall.SYS_PWRITE64, syscall.SYS_FTRUNCATE:
		return t.below(fdPath(pid, a[0]))
	case syscall.SYS_MKDIRAT, syscall.SYS_UNLINKAT, syscall.SYS_FCHMODAT:
		return t.below(pathAt(pid, a[0], a[1]))
	case syscall.SYS_RENAMEAT:
		return t.below(pathAt(pid, a[0], a[1])) || t.below(pathAt(pid, a[2], a[3]))
	case syscall.SYS_SYMLINKAT:
		return t.below(pathAt(pid, a[1], a[2]))
	case syscall.SYS_OPENAT:
		path := pathAt(pid, a[0], a[1])
		_, err := os.Lstat(path)
		writes := a[2]&(syscall.O_ACCMODE|syscall.O_TRUNC) != 0 || a[2]&syscall.O_CREAT != 0 && err != nil
		return writes && t.below(path)
	}
	return false
}

func (t *tracer) below(path string) bool { return strings.HasPrefix(path, t.refused+"/") }

// fdPath returns the path of an open file of a process.
func fdPath(pid int, fd uint64) string {
	path, _ := os.Readlink("/proc/" + strconv.Itoa(pid) + "/fd/" + strconv.Itoa(int(int32(fd))))
	return path
}

// pathAt returns the path that a call of a process names by an open directory and the address of a path.
func pathAt(pid int, fd, address uint64) string {
	mem, err := os.Open("/proc/" + strconv.Itoa(pid) + "/mem")
	if err != nil {
		return ""
	}
	defer mem.Close()
	var path string
	for buf := make([]byte, 256); ; address += 256 { // the page after the end of the path may be missing
		n, _ := mem.ReadAt(buf, int64(address))
		part, _, end := strings.Cut(string(buf[:n]), "\x00")
		path += part
		if end || n < len(buf) {
			break
		}
	}
	switch {
	case filepath.IsAbs(path):
		return path
	case int32(fd) == -100: // AT_FDCWD
		dir, _ := os.Readlink("/proc/" + strconv.Itoa(pid) + "/cwd")
		return filepath.Join(dir, path)
	}
	return filepath.Join(fdPath(pid, fd), path)
}
