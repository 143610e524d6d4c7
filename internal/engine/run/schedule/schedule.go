package schedule

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// Overlap says what happens when a run is due while an earlier one has not ended.
type Overlap string

// The values of Overlap.
const (
	Forbid  Overlap = "forbid"  // leave the new run out
	Replace Overlap = "replace" // stop the earlier run first
	Allow   Overlap = "allow"   // run both
)

// Overlaps are all values of Overlap.
var Overlaps = []Overlap{Forbid, Replace, Allow}

// Status is what became of a run.
type Status string

// The values of Status.
const (
	Starting Status = "starting" // its task is to be created
	Running  Status = "running"  // its task was created, and has not ended as far as is known
	Ended    Status = "ended"    // its task has ended
	Skipped  Status = "skipped"  // an earlier run had not ended
	Missed   Status = "missed"   // the host was off, or busy for too long
	Failed   Status = "failed"   // its task could not be created
)

const (
	// onTime is how late a run may begin without CatchUp.
	onTime = time.Minute
	// maxRuns is the number of runs that a record has.
	maxRuns = 100
)

// State is the record of a schedule.
type State struct {
	// ID is random: a schedule that is created again under its name has other tasks.
	ID   string `json:"id"`
	Name string `json:"name"`
	// Source is how the user wrote the times; Calendar are the expressions of systemd.time(7) for it.
	Source   string   `json:"source"`
	Calendar []string `json:"calendar"`
	Overlap  Overlap  `json:"overlap"`
	// CatchUp makes up for missed times by one run; Within limits how late it may begin, 0: no limit.
	CatchUp bool          `json:"catchUp,omitempty"`
	Within  time.Duration `json:"within,omitempty"`
	Paused  bool          `json:"paused,omitempty"`
	Created time.Time     `json:"created"`
	// Decided is the latest time for which it is decided whether there is a run.
	Decided time.Time         `json:"decided"`
	Task    taskdef.Task      `json:"task"`
	Options lifecycle.Options `json:"options"`
	// Files are the contents of a manifest's files, which no Secret is among.
	Files map[string][]byte `json:"files,omitempty"`
	// Runs are the latest runs, the newest last.
	Runs []Run `json:"runs,omitempty"`
}

// Run is a run of a schedule, or a time at which there was none.
type Run struct {
	// Due is the time for which it runs; of a run by hand, when it was asked for.
	Due    time.Time `json:"due"`
	Manual bool      `json:"manual,omitempty"`
	Status Status    `json:"status"`
	// Task is the ID of its task; empty if it was skipped or missed.
	Task string `json:"task,omitempty"`
	// Missed is how many earlier times had no run of their own since the run before.
	Missed int    `json:"missed,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Begun is the time at which it was decided, Ended when its task stopped; zero: it has not, or that is not known.
	Begun    time.Time `json:"begun"`
	Ended    time.Time `json:"ended,omitzero"`
	ExitCode *int      `json:"exitCode,omitempty"`
}

var validName = lazy.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]*$`)

// CheckName returns an error for a name that no schedule can have.
func CheckName(name string) error {
	if len(name) > 100 || !validName.MatchString(name) {
		return fmt.Errorf("a schedule's name has up to 100 letters, digits, dots, dashes and underscores, and begins with a letter or a digit: not %q", name)
	}
	return nil
}

// Check returns an error for a record that cannot be used.
func Check(s State) error {
	switch {
	case len(s.ID) != 32:
		return fmt.Errorf("the schedule's id is %q", s.ID)
	case len(s.Calendar) == 0:
		return fmt.Errorf("the schedule %s has no times", s.Name)
	case !slices.Contains(Overlaps, s.Overlap):
		return fmt.Errorf("the schedule %s has the overlap %q", s.Name, s.Overlap)
	}
	return CheckName(s.Name)
}

// TaskID is the ID of the task that a schedule runs for a due time.
func (s State) TaskID(due time.Time) string {
	sum := sha256.Sum256([]byte("schedule\x00" + s.ID + "\x00" + strconv.FormatInt(due.Unix(), 10)))
	return hex.EncodeToString(sum[:16])
}

// TaskName is the name of a run's task.
func (s State) TaskName(r Run) string { return s.Name + "-" + r.Due.UTC().Format("20060102T150405Z") }

// Due are the due times of a span.
type Due struct {
	// Latest is the last one; zero if there is none.
	Latest time.Time
	// Count is how many there are, or a limit that is large enough for users.
	Count int
}

// Decide returns the record after the times due since State.Decided, and whether it differs. The last of its runs
// is to be started if it is Starting. Due has the times after State.Decided up to now. A run is active if its
// task exists and has not ended.
//
// Of several due times only the latest has a run, as for a timer of systemd; it counts the others. A clock that was
// set back does not repeat a run that is in the record.
func Decide(s State, now time.Time, due Due, active bool) (next State, changed bool) {
	if s.Paused {
		return s, false
	}
	if now.Before(s.Decided) {
		s.Decided = s.decidedBefore(now)
		return s, true
	}
	if due.Latest.IsZero() || !due.Latest.After(s.Decided) || due.Latest.After(now) {
		return s, false
	}
	s.Decided = due.Latest
	if slices.ContainsFunc(s.Runs, func(r Run) bool { return !r.Manual && r.Due.Equal(due.Latest) && r.Status != Missed }) {
		return s, true
	}
	r := Run{Due: due.Latest, Missed: max(0, due.Count-1), Begun: now, Status: Starting}
	late := now.Sub(due.Latest)
	switch {
	case late > onTime && !s.CatchUp:
		r.Status, r.Reason = Missed, "the host was off or asleep, and the schedule has no --catch-up"
	case late > onTime && s.Within > 0 && late > s.Within:
		r.Status, r.Reason = Missed, fmt.Sprintf("the host was off or asleep for longer than %v", s.Within)
	case active && s.Overlap == Forbid:
		r.Status, r.Reason = Skipped, "the run before it was still running"
	default:
		r.Task = s.TaskID(due.Latest)
	}
	return s.add(r), true
}

// decidedBefore is State.Decided after the clock was set back to now: nothing is known of the times after the latest
// run before now, or without one of those within onTime.
func (s State) decidedBefore(now time.Time) time.Time {
	for _, r := range slices.Backward(s.Runs) {
		if !r.Manual && !r.Due.After(now) {
			return r.Due
		}
	}
	return now.Add(-onTime)
}

// ByHand returns the record with a run that a user asks for. Task is the ID of its task.
func ByHand(s State, now time.Time, task string) State {
	return s.add(Run{Due: now, Manual: true, Status: Starting, Task: task, Begun: now})
}

// add appends a run. A run before it that could not be started is given up. The oldest runs are dropped that
// have ended.
func (s State) add(r Run) State {
	runs := slices.Clone(s.Runs)
	for i := range runs {
		if runs[i].Status == Starting && r.Status == Starting {
			runs[i].Status = Failed
			runs[i].Reason = "not started before the next run; " + runs[i].Reason
		}
	}
	runs = append(runs, r)
	for i := 0; len(runs) > maxRuns && i < len(runs); {
		if runs[i].Status == Starting || runs[i].Status == Running {
			i++
			continue
		}
		runs = slices.Delete(runs, i, i+1)
	}
	s.Runs = runs
	return s
}

// giveUp is the time for which the start of a run without CatchUp is tried again.
const giveUp = 10 * time.Minute

// StartFailed notes that the task of a run could not be created. Again reports whether to try again.
func StartFailed(s State, i int, now time.Time, err error) (next State, again bool) {
	s.Runs = slices.Clone(s.Runs)
	r := &s.Runs[i]
	r.Reason = err.Error()
	if r.Manual || !s.CatchUp && now.Sub(r.Begun) > giveUp {
		r.Status = Failed
		return s, false
	}
	return s, true
}

// GiveUp returns the record without a run whose task a process before was to create, if it is too late for that.
func GiveUp(s State, i int, now time.Time) (next State, changed bool) {
	s.Runs = slices.Clone(s.Runs)
	r := &s.Runs[i]
	switch {
	case r.Manual:
		r.Status, r.Reason = Failed, "podtask was ended before it had created the task"
	case !s.CatchUp && now.Sub(r.Begun) > giveUp, s.CatchUp && s.Within > 0 && now.Sub(r.Due) > s.Within:
		r.Status, r.Task = Missed, ""
		r.Reason = "the host was off or asleep when the task was to be created; " + r.Reason
	default:
		return s, false
	}
	return s, true
}

// Fold returns the record with what has become of its tasks. Find returns a task's state and whether it exists.
func Fold(s State, find func(id string) (lifecycle.State, bool)) (next State, changed, active bool) {
	s.Runs = slices.Clone(s.Runs)
	for i := range s.Runs {
		r := &s.Runs[i]
		if r.Status != Running && r.Status != Starting {
			continue
		}
		t, found := find(r.Task)
		switch {
		case found && !t.Settled() && (t.Goal == lifecycle.Up || t.StoppedAt().IsZero()): // one that has stopped may still give back its share
			active = true
		case found:
			code := t.ExitCode()
			r.Status, r.Reason, r.ExitCode, r.Ended = Ended, "", &code, t.StoppedAt()
			if code != 0 {
				r.Reason = t.Stop.Reason
			}
			changed = true
		case r.Status == Running:
			r.Status, r.Reason, changed = Ended, "its task was removed before its end was noted", true
		}
	}
	return s, changed, active
}
