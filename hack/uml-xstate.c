// uml-xstate lets the kernel of the VM bed run on processors with AMX. User-mode
// Linux 6.1 and 6.12 keep 2696 bytes of a process's extended registers, and a host
// kernel takes them back only whole (PTRACE_SETREGSET of NT_X86_XSTATE fails with
// EFAULT), which with AMX are 11008. No guest process uses what is missing: Linux
// wants to be asked for permission first. So what is given back is made whole with
// the registers' own zeros.
//
// This is preloaded into the kernel, whose only thread that traces it serves.
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define NT_X86_XSTATE 0x202

static char whole[64 << 10];
static size_t size; // of the host's registers; 0: not known yet

static long give_back(long pid, struct iovec *part)
{
	struct iovec all = { whole, sizeof whole };

	if (size == 0) {
		if (syscall(SYS_ptrace, PTRACE_GETREGSET, pid, NT_X86_XSTATE, &all) < 0)
			return -1;
		size = all.iov_len;
		memset(whole, 0, size);
	}
	if (part->iov_len > size) {
		errno = EFAULT;
		return -1;
	}
	memcpy(whole, part->iov_base, part->iov_len);
	all.iov_len = size;
	return syscall(SYS_ptrace, PTRACE_SETREGSET, pid, NT_X86_XSTATE, &all);
}

// ptrace is the C library's, but for the request above.
long ptrace(enum __ptrace_request request, ...)
{
	va_list ap;
	long pid, addr, data, word, result;

	va_start(ap, request);
	pid = va_arg(ap, long);
	addr = va_arg(ap, long);
	data = va_arg(ap, long);
	va_end(ap);
	switch (request) {
	case PTRACE_SETREGSET:
		if (addr == NT_X86_XSTATE)
			return give_back((int)pid, (struct iovec *)data);
		break;
	case PTRACE_PEEKTEXT:
	case PTRACE_PEEKDATA:
	case PTRACE_PEEKUSER: // the system call puts the word where data points
		result = syscall(SYS_ptrace, request, (long)(int)pid, addr, &word);
		if (result < 0)
			return result;
		errno = 0;
		return word;
	default:
		break;
	}
	return syscall(SYS_ptrace, request, (long)(int)pid, addr, data);
}
