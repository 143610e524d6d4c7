package lifecycle

import (
	"fmt"
	"time"
)

// exitKilled is the exit code of SIGKILL.
const exitKilled = 137

// outOfMemory tells whether a container's end had to do with memory. Podman's
// flag says so, or the slice's counter: conmon of Podman 4.3.1 misses some. The
// counter does not say which container it was; so it only counts for one that
// got a SIGKILL that podtask did not send.
func outOfMemory(s *State, seen Observed) bool {
	return seen.OOMKilled || seen.ExitCode == exitKilled && s.Goal == Up && seen.Memory.Kills > memoryOf(s, seen.Memory).Kills
}

// memoryOf returns the memory that was accounted for before; zero if the slice is a new one.
func memoryOf(s *State, now MemoryUse) MemoryUse {
	if now.Kills < s.Sandbox.Memory.Kills {
		return MemoryUse{}
	}
	return s.Sandbox.Memory
}

// memoryFailure names the limit that was reached, and tells a container that was
// killed from one that lost a process and ended by itself: Podman sets the same
// flag for both.
func memoryFailure(s *State, at time.Time, i int, seen Observed) Failure {
	f := Failure{Class: Permanent, Name: ErrOutOfMemory, At: at}
	if seen.ExitCode == exitKilled {
		f.Message = "the container was killed because " + limitReached(s, i, seen.Memory)
	} else {
		f.Tolerated = true
		f.Message = "a process of the container was killed because " + limitReached(s, i, seen.Memory) + "; the container itself ended later"
	}
	return f
}

// limitReached names the limit that was reached, with the use of it.
func limitReached(s *State, i int, m MemoryUse) string {
	own, whole := s.Task.Containers[i].Memory, m.Limit
	if whole == 0 {
		whole = s.Quota().Memory
	}
	switch {
	case m.Full > memoryOf(s, m).Full:
		return fmt.Sprintf("the task used all of its memory limit: %s of %s", size(max(m.Peak, whole)), size(whole))
	case own > 0 && m.Peak > 0 && whole > 0:
		return fmt.Sprintf("it used all of its memory limit of %s; the task used up to %s of %s", size(own), size(m.Peak), size(whole))
	case own > 0:
		return fmt.Sprintf("it used all of its memory limit of %s", size(own))
	case m.Kills == 0 && whole > 0:
		return fmt.Sprintf("the task used all of its memory limit of %s", size(whole))
	default:
		return "the host had no memory left"
	}
}

// size is a number of bytes for people.
func size(bytes int64) string {
	const mib = 1 << 20
	if bytes%mib == 0 {
		return fmt.Sprintf("%d MiB", bytes/mib)
	}
	return fmt.Sprintf("%.1f MiB", float64(bytes)/mib)
}
