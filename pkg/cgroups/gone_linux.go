package cgroups

import (
	"errors"
	"syscall"
)

// gone tells whether a cgroup was removed, or a file of it has nothing to say,
// while it was read.
func gone(err error) bool {
	return errors.Is(err, syscall.ENODEV) || errors.Is(err, syscall.EOPNOTSUPP)
}
