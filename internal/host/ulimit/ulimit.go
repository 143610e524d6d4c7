// Package ulimit compares the ulimits of task definitions with the hard limits of this user, above
// which no process of the user can raise its own.
package ulimit

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/podtask/podtask/pkg/taskdef"
	"golang.org/x/sys/unix"
)

// numbers are the kernel's numbers of limits.
var numbers = map[string]int{
	"core": unix.RLIMIT_CORE, "cpu": unix.RLIMIT_CPU, "data": unix.RLIMIT_DATA, "fsize": unix.RLIMIT_FSIZE, "locks": unix.RLIMIT_LOCKS,
	"memlock": unix.RLIMIT_MEMLOCK, "msgqueue": unix.RLIMIT_MSGQUEUE, "nice": unix.RLIMIT_NICE, "nofile": unix.RLIMIT_NOFILE,
	"nproc": unix.RLIMIT_NPROC, "rss": unix.RLIMIT_RSS, "rtprio": unix.RLIMIT_RTPRIO, "rttime": unix.RLIMIT_RTTIME,
	"sigpending": unix.RLIMIT_SIGPENDING, "stack": unix.RLIMIT_STACK,
}

// Hard returns this user's hard limit of a name; false if there is none.
func Hard(name string) (uint64, bool) {
	number, known := numbers[name]
	var own unix.Rlimit
	if !known || unix.Getrlimit(number, &own) != nil || own.Max == math.MaxUint64 {
		return 0, false
	}
	return own.Max, true
}

// Check returns an error for a limit above this user's hard limit: the container would not start.
func Check(u taskdef.Ulimit) error {
	most, ok := Hard(u.Name)
	if !ok || kernelValue(u.Hard) <= most {
		return nil
	}
	return fmt.Errorf("the hard limit %s of %s is above this user's own of %d; give --clamp-ulimits, or raise the user's (LimitNOFILE= and the like of user@.service, or limits.conf)",
		u.Name, format(u.Hard), most)
}

// Clamp returns a copy of a task in which no limit is above this user's hard limit, and a line for
// each limit that was lowered.
func Clamp(t taskdef.Task) (clamped taskdef.Task, lowered []string) {
	t.Containers = slices.Clone(t.Containers)
	for i, c := range t.Containers {
		c.Linux.Ulimits = slices.Clone(c.Linux.Ulimits)
		for j, u := range c.Linux.Ulimits {
			most, ok := Hard(u.Name)
			if !ok || kernelValue(u.Hard) <= most {
				continue
			}
			lowered = append(lowered, fmt.Sprintf("container %s: the hard limit %s is lowered from %s to this user's own of %d", c.Name, u.Name, format(u.Hard), most))
			c.Linux.Ulimits[j].Hard = int64(most)
			if kernelValue(u.Soft) > most {
				c.Linux.Ulimits[j].Soft = int64(most)
			}
		}
		t.Containers[i] = c
	}
	return t, lowered
}

// kernelValue returns a limit as the kernel has it; -1 means none.
func kernelValue(n int64) uint64 {
	if n < 0 {
		return math.MaxUint64
	}
	return uint64(n)
}

func format(n int64) string {
	if n < 0 {
		return "unlimited"
	}
	return strconv.FormatInt(n, 10)
}
