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

// socketAge is how old a socket is before it may count as dead: between its making and
// its first listening nobody answers on one either.
const socketAge = time.Minute

// sweepSockets removes the sockets of owners that have died: nobody listens, and who owns
// such a task next makes its own. They do not tell which state directory a task belongs
// to, and need not: one that is served is left alone. So they are no Orphans.
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

// refused reports whether it is certain that nobody listens on a socket.
func refused(ctx context.Context, path string) bool {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", path)
	if err == nil {
		_ = c.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}
