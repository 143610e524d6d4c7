package agent

import (
	"github.com/podtask/podtask/pkg/lifecycle"
)

// LockForeground says, until leave is called or this process ends, however it ends, that it shows
// the task to a user. A task that is to be removed as soon as it has stopped
// (Options.Remove) is then left to this process, which wants its logs first; without it
// whoever owns the task removes it, or the clean-up does. Call it while the task is owned
// and before it runs.
func (t *Tasks) LockForeground(id string) (leave func() error, err error) {
	lock, err := t.foreground.Lock(id)
	if err != nil {
		return nil, err
	}
	return lock.Remove, nil
}

// InForeground reports whether somebody shows the task to a user.
func (t *Tasks) InForeground(id string) bool {
	_, held, err := t.foreground.Holder(id)
	return held && err == nil
}

// ForgetForeground removes the file of a lock whose holder was killed.
func (t *Tasks) ForgetForeground(s lifecycle.State) {
	if !s.Options.Remove {
		return
	}
	if lock, err := t.foreground.Lock(s.ID); err == nil {
		_ = lock.Remove() // an empty file, which the next one of that name would use
	}
}
