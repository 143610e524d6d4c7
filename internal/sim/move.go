package sim

import (
	"fmt"
	"math/bits"
	"slices"
	"time"

	"github.com/podtask/podtask/pkg/lifecycle"
)

// verb is what happens in a move.
type verb uint8

const (
	submit      verb = iota // the task is new
	works                   // the operation works
	acts                    // the operation acts and has not answered yet
	canceled                // the operation was given up and has not acted
	actsGivenUp             // the operation was given up, having acted
	fails                   // the operation fails and has not acted; arg is the class
	actsFails               // the operation acts and its answer is a failure; arg is the class
	unhealthy               // the health check says no
	exits                   // the container ends by itself; arg is the exit code
	vanishes                // a user removes the container
	hint                    // the driver tells of an end, or raises a false alarm
	doubled                 // an answer comes again; arg is the place in World.late
	queued                  // there is no room for the task yet
	queueMoves              // the driver tells that what tasks share has changed
	timer                   // time passes to Wake
	clockBack               // the clock is set back by an hour
	ages                    // time passes until the container has run for its attempt period
	pauses                  // a user pauses the container
	resumes                 // a user resumes it
	restarts                // a user restarts it
	podEnds                 // a user kills the infra container
	request                 // a user asks; arg is the place in requests
	crash                   // the owner dies; arg is the set of slots that have acted
	reboot                  // the machine dies
)

// move is one thing that can happen in a world.
type move struct {
	verb verb
	kind lifecycle.Kind // of the operation it happens to; Idle for none
	slot int
	arg  int
}

// trail remembers how a world was reached.
type trail struct {
	move
	prev *trail
}

var requests = []struct {
	words string
	event lifecycle.Event
	goal  lifecycle.Goal // at least
	force bool
}{
	{"a user stops the task", lifecycle.StopRequested{By: "user"}, lifecycle.Down, false},
	{"a user kills the task", lifecycle.StopRequested{By: "user", Force: true}, lifecycle.Down, true},
	{"a user removes the task", lifecycle.RemoveRequested{By: "user"}, lifecycle.Gone, false},
	{"a user removes the task at once", lifecycle.RemoveRequested{By: "user", Force: true}, lifecycle.Gone, true},
}

// moved lists the moves that led here.
func (w *World) moved() []string {
	var out []string
	for t := w.trail; t != nil; t = t.prev {
		out = append(out, w.words(t.move))
	}
	slices.Reverse(out)
	return out
}

// words describe a move for people.
func (w *World) words(m move) string {
	of := fmt.Sprintf("%s of %s ", m.kind, w.name(m.slot))
	class := lifecycle.Class(m.arg).String()
	switch m.verb {
	case submit:
		return "submitted"
	case works:
		return of + "works"
	case acts:
		return of + "acts, its answer is still to come"
	case canceled:
		return of + "is given up, not having acted"
	case actsGivenUp:
		return of + "is given up, having acted"
	case fails:
		return of + "fails, not having acted: " + class
	case actsFails:
		return of + "fails, having acted: " + class
	case unhealthy:
		return of + "says unhealthy"
	case exits:
		return fmt.Sprintf("%s exits with %d", w.name(m.slot), m.arg)
	case vanishes:
		return "a user removes " + w.name(m.slot)
	case hint:
		return "hint about " + w.name(m.slot)
	case doubled:
		return "an answer comes a second time"
	case queued:
		return "there is no room for the task yet"
	case queueMoves:
		return "the queue moves"
	case timer:
		return "timer"
	case clockBack:
		return "the clock is set back"
	case ages:
		return w.name(m.slot) + " has run for its attempt period"
	case pauses:
		return "a user pauses " + w.name(m.slot)
	case resumes:
		return "a user resumes " + w.name(m.slot)
	case restarts:
		return "a user restarts " + w.name(m.slot)
	case podEnds:
		return "a user kills the infra container"
	case request:
		return requests[m.arg].words
	case crash:
		return fmt.Sprintf("crash; slots that had acted: %b", m.arg)
	case reboot:
		return "reboot"
	default:
		return fmt.Sprintf("move %d", m.verb)
	}
}

// next returns the world one move on.
func (w *World) next(m move) *World {
	n := w.clone()
	n.make(m)
	return n
}

// make makes a move that is possible.
func (w *World) make(m move) {
	w.trail = &trail{m, w.trail}
	class := lifecycle.Class(m.arg)
	switch m.verb {
	case works:
		w.outcome(m.slot)
	case acts:
		w.left.Splits--
		w.act(w.flightOf(m.slot))
	case canceled:
		w.answer(m.slot, lifecycle.Failure{Class: lifecycle.Canceled}, lifecycle.Result{})
	case actsGivenUp:
		w.act(w.flightOf(m.slot))
		w.answer(m.slot, lifecycle.Failure{Class: lifecycle.Canceled}, lifecycle.Result{})
	case fails:
		w.left.Faults--
		w.answer(m.slot, lifecycle.Failure{Class: class, Message: "fault"}, lifecycle.Result{})
	case actsFails:
		w.left.Faults--
		w.act(w.flightOf(m.slot))
		w.answer(m.slot, lifecycle.Failure{Class: class, Message: "fault"}, lifecycle.Result{})
	case unhealthy:
		w.left.Faults--
		w.answer(m.slot, lifecycle.Failure{}, lifecycle.Result{Probe: lifecycle.ProbeResult{ExitCode: 1}})
	case exits:
		w.left.Exits--
		w.end(m.slot, m.arg)
	case vanishes:
		w.left.Vanishes--
		t := &w.truth[m.slot]
		*t = truth{vanished: true, runs: t.runs, healthy: t.healthy}
	case hint:
		w.hint(m.slot)
	case doubled:
		w.left.Lates--
		ev := w.late[m.arg]
		w.late = slices.Concat(w.late[:m.arg], w.late[m.arg+1:])
		w.step(*ev)
	case queued:
		w.left.Queues--
		w.share = lifecycle.ShareAsked
		w.answer(m.slot, lifecycle.Failure{}, lifecycle.Result{Queue: "room"})
	case queueMoves:
		w.step(lifecycle.QueueMoved{})
		if w.flightOf(sandbox) == nil {
			w.broken(QueueIsHeard, "it has moved")
		}
	case timer:
		if wake := w.wake(); wake.After(w.now) {
			w.now = wake
		}
		w.step(lifecycle.TimerFired{})
	case clockBack:
		w.left.Clocks--
		w.now = w.now.Add(-time.Hour)
		w.stepped = w.now
	case ages:
		w.now = w.aged(m.slot)
	case pauses:
		w.left.Meddles--
		w.truth[m.slot].paused = true
	case resumes:
		w.truth[m.slot].paused = false
	case restarts:
		w.left.Meddles--
		w.end(m.slot, 143)
		w.begin(m.slot)
	case podEnds:
		w.left.Meddles--
		w.pod, w.podKilled = lifecycle.SandboxStopped, true
	case request:
		w.left.Requests--
		w.request(m.arg)
	case crash:
		w.left.Crashes--
		w.crash(m.arg)
	case reboot:
		w.left.Reboots--
		w.reboot()
	default:
		panic(fmt.Sprintf("sim: no move %d", m.verb))
	}
}

// hint delivers a hint; one that announces an end must be looked into.
func (w *World) hint(i int) {
	due := w.hintDue(i)
	if !due {
		w.left.Alarms--
	}
	w.step(lifecycle.Hinted{Index: i})
	if i == sandbox {
		if due && w.state.Goal == lifecycle.Up && !w.state.Sandbox.Stale {
			w.broken(HintsAreHeard, "that of the infra container is not")
		}
		return
	}
	if c := &w.state.Containers[i]; due && !c.Stale && !c.Ended {
		w.broken(HintsAreHeard, "that of %s is not", w.name(i))
	}
}

// request delivers what a user asks; it must be heard unless nothing is left.
func (w *World) request(k int) {
	r := requests[k]
	w.step(r.event)
	s := &w.state
	if s.Sandbox.Phase != lifecycle.SandboxRemoved && (s.Goal < r.goal || r.force && !s.Force) {
		w.broken(UsersAreHeard, "%s, and the goal is %s (forced: %v)", r.words, s.Goal, s.Force)
	}
}

// reboot is a crash of the whole machine.
func (w *World) reboot() {
	w.die(0)
	w.powerLoss()
	w.step(lifecycle.Restarted{})
}

// powerLoss ends all that runs; Podman still knows it afterwards.
func (w *World) powerLoss() {
	for i := range w.truth {
		if w.truth[i].presence == lifecycle.Running {
			w.end(i, 255)
		}
	}
	if w.pod == lifecycle.SandboxReady {
		w.pod = lifecycle.SandboxStopped
	}
	w.podKilled = false // a start of a member alone does not mend it: it is prepared again
}

// moves appends all moves that are possible.
func (w *World) moves(out []move) []move {
	for k := range w.flights {
		out = w.flightMoves(out, &w.flights[k])
	}
	for i := range w.truth {
		out = w.containerMoves(out, i)
	}
	out = w.infraMoves(out)
	if w.left.Lates > 0 {
		for k := range w.late {
			out = append(out, move{verb: doubled, arg: k})
		}
	}
	if !w.wake().IsZero() {
		out = append(out, move{verb: timer})
	}
	if w.state.Queued() && w.flightOf(sandbox) == nil {
		out = append(out, move{verb: queueMoves})
	}
	if w.left.Clocks > 0 {
		out = append(out, move{verb: clockBack})
	}
	if w.left.Requests > 0 {
		for k := range requests {
			out = append(out, move{verb: request, arg: k})
		}
	}
	if w.left.Crashes > 0 {
		out = w.crashMoves(out)
	}
	if w.left.Reboots > 0 {
		out = append(out, move{verb: reboot})
	}
	return out
}

func (w *World) flightMoves(out []move, f *flight) []move {
	add := func(v verb, arg int) { out = append(out, move{v, f.kind, f.slot, arg}) }
	add(works, 0)
	if f.canceled {
		add(canceled, 0)
	}
	if f.result != nil {
		return out
	}
	if f.canceled {
		add(actsGivenUp, 0)
	}
	if f.kind == lifecycle.Admit && !f.begun && w.share != lifecycle.ShareHeld && w.left.Queues > 0 {
		add(queued, 0)
	}
	if w.left.Splits > 0 {
		add(acts, 0)
	}
	if w.left.Faults == 0 {
		return out
	}
	add(fails, int(lifecycle.Temporary))
	add(fails, int(lifecycle.Permanent))
	add(actsFails, int(lifecycle.Timeout))
	switch f.kind {
	case lifecycle.Create:
		add(fails, int(lifecycle.NoImage))
	case lifecycle.Probe:
		add(unhealthy, 0)
	case lifecycle.Remove:
		add(actsFails, int(lifecycle.Permanent))
	}
	return out
}

func (w *World) infraMoves(out []move) []move {
	if w.pod == lifecycle.SandboxReady && w.sharedNetwork() && w.left.Meddles > 0 {
		out = append(out, move{verb: podEnds})
	}
	if w.hintDue(sandbox) || w.state.WatchesInfra() && w.left.Alarms > 0 {
		out = append(out, move{verb: hint, slot: sandbox})
	}
	return out
}

func (w *World) containerMoves(out []move, i int) []move {
	t := &w.truth[i]
	running := t.presence == lifecycle.Running && !t.paused
	if at := w.aged(i); running && at.After(w.now) && w.state.Task.Containers[i].Restart != nil && w.left.Exits > 0 {
		out = append(out, move{verb: ages, slot: i})
	}
	if running && w.left.Meddles > 0 {
		out = append(out, move{verb: pauses, slot: i}, move{verb: restarts, slot: i})
	}
	if t.paused {
		out = append(out, move{verb: resumes, slot: i})
	}
	if running && w.left.Exits > 0 {
		out = append(out, move{verb: exits, slot: i, arg: 0}, move{verb: exits, slot: i, arg: 1})
	}
	if w.truth[i].presence != lifecycle.Absent && w.left.Vanishes > 0 {
		out = append(out, move{verb: vanishes, slot: i})
	}
	if w.hintDue(i) || w.left.Alarms > 0 {
		out = append(out, move{verb: hint, slot: i})
	}
	return out
}

// aged is when the present run of a container has lasted for the attempt period of
// its restart policy; zero without one.
func (w *World) aged(i int) time.Time {
	p := w.state.Task.Containers[i].Restart
	if p == nil {
		return time.Time{}
	}
	return epoch.Add(w.truth[i].started + p.AttemptPeriod)
}

// crashMoves takes in every set of operations that have acted unnoticed, up to
// two of them.
func (w *World) crashMoves(out []move) []move {
	for set := range 1 << len(w.flights) {
		if bits.OnesCount(uint(set)) > 2 {
			continue
		}
		slots := 0
		for k := range w.flights {
			if set>>k&1 == 1 {
				slots |= 1 << (w.flights[k].slot + 1)
			}
		}
		out = append(out, move{verb: crash, arg: slots})
	}
	return out
}

// wake is when the driver's timer fires, in the past if it is due; zero for never.
func (w *World) wake() time.Time { return w.state.Wake(w.stepped) }

// hintDue: the driver watches what the state says runs, and tells when it does not.
func (w *World) hintDue(i int) bool {
	if i == sandbox {
		run := w.state.Sandbox.Run
		return w.state.WatchesInfra() && (w.pod != lifecycle.SandboxReady || !run.IsZero() && !run.Equal(epoch.Add(w.podStarted)))
	}
	c := &w.state.Containers[i]
	return c.Presence == lifecycle.Running && !c.Ended && !c.Stale && w.truth[i].presence != lifecycle.Running
}
