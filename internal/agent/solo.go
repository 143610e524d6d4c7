package agent

import "context"

// ShuttingDown reports whether the user's systemd manager is shutting down, and with it
// every container. Without a manager it is false.
func (u *UserManager) ShuttingDown(ctx context.Context) bool {
	user, err := u.Get(ctx)
	if err != nil {
		return false
	}
	stopping, err := user.Stopping(ctx)
	if err != nil {
		u.log.Warn("is this host shutting down?", "error", err)
	}
	return stopping
}

// agentKey is the lock of the one agent that a state directory has.
const agentKey = "00000000000000000000000000000001"

// LockAgent makes this process the agent of the state directory. While another one
// lives the error is state.ErrLocked and names it.
func (t *Tasks) LockAgent() (unlock func() error, err error) {
	lock, err := t.Locks.Lock(agentKey)
	if err != nil {
		return nil, err
	}
	return lock.Unlock, nil
}
