package sim

import (
	"fmt"
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
	discards                // the operation fails and discards the pod; arg is the class
	actsFails               // the operation acts and its answer is a failure; arg is the class
	isAway                  // the operation fails because Podman is away, and has not acted
	actsAway                // Podman ends when the operation has acted
	staysAway               // likewise, after an outage that lasts too long
	unhealthy               // the health check, or the hook, says no
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
func moved(w *World) []string {
	var out []string
	for t := w.trail; t != nil; t = t.prev {
		out = append(out, words(w, t.move))
	}
	slices.Reverse(out)
	return out
}

// words describe a move for people.
func words(w *World, m move) string {
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
	case discards:
		return of + "fails, and the pod is discarded"
	case actsFails:
		return of + "fails, having acted: " + class
	case unhealthy:
		return of + "says unhealthy"
	case isAway, actsAway, staysAway:
		return of + map[verb]string{isAway: "is cut off, not having acted", actsAway: "is cut off, having acted", staysAway: "is cut off, and Podman stays away"}[m.verb]
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
	if n := w.left.of(m.verb); n != nil {
		*n--
	}
	switch m.verb {
	case works, acts, canceled, actsGivenUp, fails, discards, actsFails, isAway, actsAway, staysAway, unhealthy, queued:
		makeOfFlight(w, m)
	case exits, vanishes, pauses, resumes, restarts, podEnds:
		makeOfTruth(w, m)
	case hint:
		sendHint(w, m.slot)
	case doubled:
		ev := w.late[m.arg]
		w.late = slices.Concat(w.late[:m.arg], w.late[m.arg+1:])
		w.step(*ev)
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
		w.now = w.now.Add(-time.Hour)
		w.stepped = w.now
	case ages:
		w.now = aged(w, m.slot)
	case request:
		sendRequest(w, m.arg)
	case crash:
		crashAfter(w, m.arg)
	case reboot:
		rebootHost(w)
	default:
		panic(fmt.Sprintf("sim: no move %d", m.verb))
	}
}

// of is what is left of a kind of move; nil if it may be made as often as it is
// possible. A hint that is a false alarm is counted where it is seen to be one.
func (b *Budget) of(v verb) *int {
	switch v {
	case fails, discards, actsFails, unhealthy:
		return &b.Faults
	case isAway, actsAway, staysAway:
		return &b.Outages
	case acts:
		return &b.Splits
	case doubled:
		return &b.Lates
	case exits:
		return &b.Exits
	case vanishes:
		return &b.Vanishes
	case request:
		return &b.Requests
	case crash:
		return &b.Crashes
	case reboot:
		return &b.Reboots
	case clockBack:
		return &b.Clocks
	case queued:
		return &b.Queues
	case pauses, restarts, podEnds:
		return &b.Meddles
	default:
		return nil
	}
}

// makeOfFlight makes a move of the operation in flight of a slot.
func makeOfFlight(w *World, m move) {
	givenUp := lifecycle.Failure{Class: lifecycle.Canceled}
	fault := lifecycle.Failure{Class: lifecycle.Class(m.arg), Message: "fault"}
	away := lifecycle.Failure{Class: lifecycle.Outage, Message: "Podman is away"}
	switch m.verb {
	case works:
		outcome(w, m.slot)
	case acts:
		act(w, w.flightOf(m.slot))
	case canceled:
		w.answer(m.slot, givenUp, lifecycle.Result{})
	case actsGivenUp:
		act(w, w.flightOf(m.slot))
		w.answer(m.slot, givenUp, lifecycle.Result{})
	case fails:
		w.answer(m.slot, fault, lifecycle.Result{})
	case discards:
		discard(w)
		w.answer(m.slot, fault, lifecycle.Result{})
	case actsFails:
		act(w, w.flightOf(m.slot))
		w.answer(m.slot, fault, lifecycle.Result{})
	case isAway:
		w.answer(m.slot, away, lifecycle.Result{})
	case actsAway:
		act(w, w.flightOf(m.slot))
		w.answer(m.slot, away, lifecycle.Result{})
	case staysAway:
		w.now, w.lasting = w.now.Add(lifecycle.OutageLimit), true
		w.answer(m.slot, away, lifecycle.Result{})
	case unhealthy:
		w.answer(m.slot, lifecycle.Failure{}, lifecycle.Result{Probe: lifecycle.ProbeResult{ExitCode: 1}})
	case queued:
		w.share = lifecycle.ReservationRequested
		w.answer(m.slot, lifecycle.Failure{}, lifecycle.Result{Queue: lifecycle.Queue{For: "room"}})
	}
}

// makeOfTruth makes a move of a container, or the infra container, of which the owner does
// not know yet.
func makeOfTruth(w *World, m move) {
	switch m.verb {
	case exits:
		w.end(m.slot, m.arg)
	case vanishes:
		t := &w.truth[m.slot]
		*t = truth{vanished: true, runs: t.runs, healthy: t.healthy, hooked: t.hooked, startedUp: t.startedUp}
	case pauses:
		w.truth[m.slot].paused = true
	case resumes:
		w.truth[m.slot].paused = false
	case restarts:
		w.end(m.slot, 143)
		begin(w, m.slot)
	case podEnds:
		w.pod, w.podKilled = lifecycle.SandboxStopped, true
	}
}

// sendHint delivers a hint; one that announces an end must be looked into.
func sendHint(w *World, i int) {
	due := hintDue(w, i)
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

// sendRequest delivers what a user asks; it must be heard unless nothing is left.
func sendRequest(w *World, k int) {
	r := requests[k]
	w.step(r.event)
	s := &w.state
	if s.Sandbox.Phase != lifecycle.SandboxRemoved && (s.Goal < r.goal || r.force && !s.Force) {
		w.broken(UsersAreHeard, "%s, and the goal is %s (forced: %v)", r.words, s.Goal, s.Force)
	}
}
