package cleanup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// socketAge is the age from which a socket may count as dead: a new socket does not
// answer either until its process listens.
const socketAge = time.Minute

// sweepSockets removes the sockets of owners that have died: nothing listens on them, and
// the next owner of the task creates its own. A socket does not show to which state
// directory its task belongs, so sockets are not Orphans.
func (c *Orphans) sweepSockets(ctx context.Context) error {
	paths, err := filepath.Glob(filepath.Join(c.RuntimeDir, "tasks", "*.sock"))
	errs := []error{err}
	for _, path := range paths {
		info, err := os.Lstat(path)
		if err != nil || info.Mode().Type() != fs.ModeSocket || time.Since(info.ModTime()) < socketAge || !refused(ctx, path) {
			continue
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("remove the socket of an owner that has died: %w", err))
		}
	}
	return errors.Join(errs...)
}

// refused reports whether it is certain that nothing listens on a socket.
func refused(ctx context.Context, path string) bool {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", path)
	if err == nil {
		_ = c.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}
