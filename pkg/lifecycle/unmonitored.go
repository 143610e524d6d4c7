package lifecycle

import "time"

// Podman learns of a container's end from conmon, the process that monitors it. If conmon
// is killed, Podman reports "running" for as long as the host is up, and each wait for the
// container's end returns at once. Such a container is inspected again after a pause. If
// it is still without a monitor, it has ended with an unknown exit code: a process that
// still runs is stopped first.

// Unmonitored counts the evidence that a running container has lost its monitor.
type Unmonitored int

// The stages.
const (
	Monitored   Unmonitored = iota
	suspected               // waits return early
	seenOnce                // and an inspection found no monitor
	MonitorLost             // and so did a later one
)

// confirmAfter is the pause between the two inspections.
const confirmAfter = 2 * time.Second

// suspect notes that waits return early.
func (u *Unmonitored) suspect() { *u = max(*u, suspected) }

// note takes in an inspection and reports whether another one must confirm it.
func (u *Unmonitored) note(seen Observed) (confirm bool) {
	switch {
	case seen.Presence != Running:
		return false
	case !seen.Unmonitored:
		*u = Monitored
		return false
	case *u == Monitored:
		return false
	}
	*u = min(*u+1, MonitorLost)
	return *u == seenOnce
}

// observeMonitor takes in what was seen of a container's monitor, and reports whether the
// container has ended for that reason.
func observeMonitor(s *State, at time.Time, i int, seen Observed) (ended bool) {
	c := &s.Containers[i]
	if c.Unmonitored.note(seen) {
		c.Stale, c.Retry.NotUntil = true, at.Add(confirmAfter)
	}
	if c.StartedAt.IsZero() || c.Unmonitored != MonitorLost || seen.Presence == Running && !seen.ProcessGone {
		return false
	}
	c.fail(lostMonitor(at))
	c.end(at)
	return true
}

// LostMonitor reports whether the container ended with an unknown exit code because its
// monitor was killed.
func (c Container) LostMonitor() bool { return c.Ended && c.Unmonitored == MonitorLost }

// lostMonitor is the failure of a container whose exit code is unknown.
func lostMonitor(at time.Time) Failure {
	return Failure{Class: Permanent, Name: ErrMonitorLost, At: at, Message: monitorLost + "; the container's exit code is unknown"}
}

const monitorLost = "the process of Podman that monitors the container (conmon) was killed"

// infraMonitorLost is the reason for which the task stops.
const infraMonitorLost = "the process of Podman that monitors the pod's infra container (conmon) was killed"
