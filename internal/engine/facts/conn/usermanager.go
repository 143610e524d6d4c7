package conn

import (
	"context"
	"log/slog"
	"sync"

	"github.com/podtask/podtask/pkg/cgroups"
)

// UserManager is the connection to the user's systemd manager, which is made on first
// use and again when it was lost.
type UserManager struct {
	Log    *slog.Logger
	Getenv func(string) string

	mu     sync.Mutex // guards the fields below
	conn   *cgroups.User
	absent error // why there is no user manager, once that is known
}

// ShuttingDown reports whether the user's systemd manager is shutting down, and with it
// every container. Without a manager it is false.
func (u *UserManager) ShuttingDown(ctx context.Context) bool {
	user, err := u.Get(ctx)
	if err != nil {
		return false
	}
	stopping, err := user.Stopping(ctx)
	if err != nil {
		u.Log.Warn("is this host shutting down?", "error", err)
	}
	return stopping
}

// Close ends the connection, if one was made.
func (u *UserManager) Close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.conn != nil {
		u.conn.Close()
	}
}

// Get returns the connection to the systemd user manager, a new one where the
// last was lost; an error says that there is none, and is remembered.
func (u *UserManager) Get(ctx context.Context) (*cgroups.User, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	lost := u.conn != nil && !u.conn.Connected() // the bus was restarted, or stopped at shutdown
	if lost || u.conn == nil && u.absent == nil {
		conn, err := cgroups.Dial(ctx, u.Getenv)
		switch {
		case err != nil && (lost || ctx.Err() != nil):
			return nil, err // there was one, or the caller gave up: the next call tries again
		case err != nil:
			u.absent = err
			return nil, err
		case lost:
			u.conn.Close()
		}
		u.conn = conn
	}
	return u.conn, u.absent
}
