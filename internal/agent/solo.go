package agent

import "context"

// Ending reports whether the user's systemd manager is shutting down, and with it
// every container. Without a manager it is false.
func (h *Host) Ending(ctx context.Context) bool {
	user, err := h.userManager(ctx)
	if err != nil {
		return false
	}
	stopping, err := user.Stopping(ctx)
	if err != nil {
		h.log.Warn("is this host shutting down?", "error", err)
	}
	return stopping
}

// agentKey is the lock of the one agent that a state directory has.
const agentKey = "00000000000000000000000000000001"

// LockAgent makes this process the agent of the state directory. While another one
// lives the error is state.ErrLocked and names it.
func (h *Host) LockAgent() (unlock func() error, err error) {
	lock, err := h.locks.Lock(agentKey)
	if err != nil {
		return nil, err
	}
	return lock.Unlock, nil
}
