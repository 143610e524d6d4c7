package preflight

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/podtask/podtask/internal/host/ulimit"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/logdriver"
	"golang.org/x/sys/unix"
)

// checkHost reports what the task's containers need and this host or user cannot provide,
// each with the number or the reason.
func (p *Checker) checkHost(t taskdef.Task) error {
	var errs []error
	for _, c := range t.Containers {
		for _, u := range c.Linux.Ulimits {
			if err := ulimit.Check(u); err != nil {
				errs = append(errs, describe(c, "%v", err))
			}
		}
		for _, d := range c.Linux.Devices {
			errs = append(errs, checkDevice(c, d))
		}
		if c.Log != nil && c.Log.Driver == logdriver.Journald {
			if _, err := fs.Stat(p.Root, "run/systemd/journal/socket"); err != nil {
				errs = append(errs, describe(c, "its log driver is journald, and this host has no journal; use json-file"))
			}
		}
	}
	return errors.Join(errs...)
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
