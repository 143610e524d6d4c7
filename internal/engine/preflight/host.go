package preflight

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strconv"

	"github.com/podtask/podtask/internal/engine/taskspec"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/pkg/taskdef"
	"golang.org/x/sys/unix"
)

// checkHost reports what the task's containers need and this host or user cannot provide,
// each with the number or the reason.
func (p *Checker) checkHost(t taskdef.Task) error {
	var errs []error
	for _, c := range t.Containers {
		for _, u := range c.Linux.Ulimits {
			errs = append(errs, checkUlimit(c, u))
		}
		for _, d := range c.Linux.Devices {
			errs = append(errs, checkDevice(c, d))
		}
		if c.Log != nil && c.Log.Driver == taskdef.LogJournald {
			if _, err := fs.Stat(p.Root, "run/systemd/journal/socket"); err != nil {
				errs = append(errs, describe(c, "its log driver is journald, and this host has no journal; use json-file"))
			}
		}
	}
	return errors.Join(errs...)
}

// rlimits are the kernel's numbers of limits.
var rlimits = map[string]int{
	"core": unix.RLIMIT_CORE, "cpu": unix.RLIMIT_CPU, "data": unix.RLIMIT_DATA, "fsize": unix.RLIMIT_FSIZE, "locks": unix.RLIMIT_LOCKS,
	"memlock": unix.RLIMIT_MEMLOCK, "msgqueue": unix.RLIMIT_MSGQUEUE, "nice": unix.RLIMIT_NICE, "nofile": unix.RLIMIT_NOFILE,
	"nproc": unix.RLIMIT_NPROC, "rss": unix.RLIMIT_RSS, "rtprio": unix.RLIMIT_RTPRIO, "rttime": unix.RLIMIT_RTTIME,
	"sigpending": unix.RLIMIT_SIGPENDING, "stack": unix.RLIMIT_STACK,
}

// checkUlimit refuses a limit above the user's own hard one, which no process of
// the user can raise: the container would not start.
func checkUlimit(c taskdef.Container, u taskdef.Ulimit) error {
	most, ok := hardLimit(u.Name)
	if !ok || taskspec.Rlimit(u.Hard) <= most {
		return nil
	}
	return describe(c, "the hard limit %s of %s is above this user's own of %d; give --clamp-ulimits, or raise the user's (LimitNOFILE= and the like of user@.service, or limits.conf)",
		u.Name, limitWord(taskspec.Rlimit(u.Hard)), most)
}

// ClampUlimits lowers limits that are above the user's own hard ones to these, and says which.
// The task itself is left as it is.
func ClampUlimits(t taskdef.Task) (taskdef.Task, []string) {
	var lowered []string
	t.Containers = slices.Clone(t.Containers)
	for i, c := range t.Containers {
		c.Linux.Ulimits = slices.Clone(c.Linux.Ulimits)
		for j, u := range c.Linux.Ulimits {
			most, ok := hardLimit(u.Name)
			if !ok || taskspec.Rlimit(u.Hard) <= most {
				continue
			}
			lowered = append(lowered, fmt.Sprintf("container %s: the hard limit %s is lowered from %s to this user's own of %d", c.Name, u.Name, limitWord(taskspec.Rlimit(u.Hard)), most))
			c.Linux.Ulimits[j].Hard = int64(most)
			if taskspec.Rlimit(u.Soft) > most {
				c.Linux.Ulimits[j].Soft = int64(most)
			}
		}
		t.Containers[i] = c
	}
	return t, lowered
}

// hardLimit is the user's own hard limit of a name; false where there is none.
func hardLimit(name string) (uint64, bool) {
	number, known := rlimits[name]
	var own unix.Rlimit
	if !known || unix.Getrlimit(number, &own) != nil || own.Max == libpod.Unlimited {
		return 0, false
	}
	return own.Max, true
}

func limitWord(n uint64) string {
	if n == math.MaxUint64 {
		return "unlimited"
	}
	return strconv.FormatUint(n, 10)
}

// checkDevice checks whether the user may open a device; a container's processes cannot
// exceed that.
func checkDevice(c taskdef.Container, d taskdef.Device) error {
	var mode uint32
	for _, p := range d.Permissions {
		switch p {
		case "read":
			mode |= unix.R_OK
		case "write":
			mode |= unix.W_OK
		}
	}
	switch err := unix.Access(d.HostPath, mode); {
	case errors.Is(err, fs.ErrNotExist):
		return describe(c, "this host has no device %s", d.HostPath)
	case err != nil:
		return describe(c, "device %s: %w; give this user access, often through a group", d.HostPath, err)
	}
	return nil
}

// describe names a container in a message.
func describe(c taskdef.Container, format string, a ...any) error {
	return fmt.Errorf("container %s: "+format, append([]any{c.Name}, a...)...)
}
