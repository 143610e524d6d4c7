package agent

import (
	"github.com/podtask/podtask/pkg/lifecycle"
)

// Attend says, until leave is called or this process ends, however it ends, that it shows
// the task to a user. A task that is to be removed as soon as it has stopped
// (Options.Remove) is then left to this process, which wants its logs first; without it
// whoever owns the task removes it, or the clean-up does. Call it while the task is owned
// and before it runs.
func (h *Host) Attend(id string) (leave func() error, err error) {
	lock, err := h.attendance.Lock(id)
	if err != nil {
		return nil, err
	}
	return lock.Remove, nil
}

// attended reports whether somebody shows the task to a user.
func (h *Host) attended(id string) bool {
	_, held, err := h.attendance.Holder(id)
	return held && err == nil
}

// forgetAttendance removes the file of a lock whose holder was killed.
func (h *Host) forgetAttendance(s lifecycle.State) {
	if !s.Options.Remove {
		return
	}
	if lock, err := h.attendance.Lock(s.ID); err == nil {
		_ = lock.Remove() // an empty file, which the next one of that name would use
	}
}
