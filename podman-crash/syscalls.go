package main

import (
	"fmt"
	"syscall"
)

// syscalls has the system calls at which a process can be killed. They change files, mounts, namespaces and processes, or talk to another process.
var syscalls = map[string]uint64{
	"write": syscall.SYS_WRITE, "pwrite64": syscall.SYS_PWRITE64, "fdatasync": syscall.SYS_FDATASYNC,
	"ftruncate": syscall.SYS_FTRUNCATE, "mkdirat": syscall.SYS_MKDIRAT, "unlinkat": syscall.SYS_UNLINKAT,
	"renameat": syscall.SYS_RENAMEAT, "symlinkat": syscall.SYS_SYMLINKAT, "fchmodat": syscall.SYS_FCHMODAT,
	"mount": syscall.SYS_MOUNT, "umount2": syscall.SYS_UMOUNT2, "unshare": syscall.SYS_UNSHARE,
	"execve": syscall.SYS_EXECVE, "clone": syscall.SYS_CLONE, "kill": syscall.SYS_KILL,
	"connect": syscall.SYS_CONNECT, "sendto": syscall.SYS_SENDTO, "flock": syscall.SYS_FLOCK,
}

// callsOf returns the numbers of the named system call, of all in the table for "any".
func callsOf(name string) (map[uint64]bool, error) {
	out := map[uint64]bool{}
	for n, nr := range syscalls {
		if n == name || name == "any" {
			out[nr] = true
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("-syscall %s: want any or one of %v", name, names(syscalls, ""))
	}
	return out, nil
}

// nameOf returns the name of a call of the table.
func nameOf(nr uint64) string {
	for name, n := range syscalls {
		if n == nr {
			return name
		}
	}
	return "-"
}
