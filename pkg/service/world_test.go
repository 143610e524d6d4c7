package service

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/pkg/taskdef"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

const serviceID = "0123456789abcdef0123456789abcdef"

// spec is a revision; its tasks never get well when it is bad.
func spec(revision int, ports ...uint16) Spec {
	t := taskdef.Task{Family: "web", Revision: revision, Network: taskdef.NetworkBridge, Containers: []taskdef.Container{{Name: "app", Image: "web"}}}
	t.Containers[0].Ports = []taskdef.Port{{ContainerPort: 8000, Protocol: "tcp"}}
	for _, p := range ports {
		t.Containers[0].Ports = append(t.Containers[0].Ports, taskdef.Port{ContainerPort: p, HostPort: p, Protocol: "tcp"})
	}
	return Spec{TaskDefinition: fmt.Sprintf("web:%d", revision), Task: t}
}

var careful = Config{Breaker: Breaker{Enable: true, Rollback: true}}

// world is a host on which the effects of a service are done, in whatever order, and on
// which its process may die at any moment.
type world struct {
	state State
	// saved is the record of the service, nil before the first.
	saved []byte
	now   time.Time
	tasks map[string]*copyOf // by id, while they have a record
	asked []Effect
	// bad are the task definitions whose copies fail, and how.
	bad map[string]Observation
	// refuses: no task can be made.
	refuses string
	// drained are the tasks whose connections have ended, by id.
	drained map[string]bool
	// answers are those of the hooks, by name, in their order; the last one is repeated. A hook without
	// succeeds.
	answers map[string][]HookAnswered
	// called are the calls of hooks that were made, as "NAME STAGE STEP", with " back" on the way back.
	called []string
	// requests are what they were about.
	requests []HookRequest
	// passes: each pause is continued at once.
	passes bool
	// raised are the alarms that are.
	raised []string
	// use is the use of the addresses; another process than that of the service may know it.
	use Used
	// proven are the deployments of which all copies were healthy, the last one at the end.
	proven []string
}

// brief is the end of a task that runs first, for less than a moment.
var brief = Observation{Stopped: true, Reason: "it ran briefly"}

// copyOf is a task as it really is.
type copyOf struct {
	definition string
	Observation
	stopping bool
}

func newWorld(count int, c Config, first Spec) *world {
	w := &world{now: noon, tasks: map[string]*copyOf{}, bad: map[string]Observation{}, drained: map[string]bool{}}
	w.state = New(serviceID, "web", first, count, c, noon)
	w.save()
	w.tell(TimerFired{})
	return w
}

func (w *world) save() {
	data, err := json.Marshal(w.state)
	if err != nil {
		panic(err)
	}
	w.saved = data
}

// broken panics: the tests' failure.
func broken(format string, args ...any) { panic(fmt.Sprintf("broken: "+format, args...)) }

// tell lets the service take in something, and checks what it makes of that.
func (w *world) tell(in Input) {
	before := w.state
	next, effects := Step(before, w.now, in)
	if err := Check(next); err != nil {
		broken("%T: %v", in, err)
	}
	w.state = next
	w.save()
	checkAttempts(w, before, in)
	checkBreaker(w, before)
	checkThreshold(w, before)
	checkStages(w, before, in)
	checkStops(w, before, effects)
	checkDrains(w, effects)
	checkRest(w, before)
	w.asked = append(w.asked, effects...)
	if a := next.staged(); a != nil && !a.rolls() {
		return // see checkStages
	}
	_, most := next.Limits()
	if _, scaled := in.(Updated); !scaled && len(next.Tasks) > len(before.Tasks) && next.Count("").Present > most {
		broken("%d copies, at most %d are allowed", next.Count("").Present, most)
	}
}

// checkBreaker checks that a deployment which the circuit breaker ends has lasted for a while, and is
// listed as one that failed.
func checkBreaker(w *world, before State) {
	if w.state.Rollbacks == before.Rollbacks {
		return
	}
	was := before.Primary()
	if strings.HasPrefix(w.state.History[len(w.state.History)-1].Reason, "circuit breaker") && w.now.Before(was.UpdatedAt.Add(leastRollout)) {
		broken("deployment %s was given up at once", was.ID)
	}
	if d, listed := w.state.Deployment(was.ID); !listed || d.Rollout != Failed || d.Reason == "" {
		broken("deployment %s failed, and is listed as %+v", was.ID, d)
	}
}

// checkThreshold checks that a task which follows a failed one cannot take the failures of its deployment past the
// threshold of the circuit breaker.
func checkThreshold(w *world, before State) {
	p := w.state.Primary()
	if !w.state.guarded() || p.FailedTasks == 0 || len(w.state.Tasks) <= len(before.Tasks) || before.Primary().ID != p.ID {
		return
	}
	failures, made := p.FailedTasks, false
	for _, t := range w.state.Tasks {
		if t.Deployment == p.ID && (t.Phase == Wanted || t.Phase == Live) && !t.Failed && t.HealthySince.IsZero() {
			failures++
			made = made || before.task(t.ID) == nil
		}
	}
	if made && failures > w.state.Threshold() {
		broken("deployment %s may have %d failures, and its threshold is %d", p.ID, failures, w.state.Threshold())
	}
}

// checkStops checks that no stop leaves too few healthy tasks.
func checkStops(w *world, before State, effects []Effect) {
	if w.state.Status != Active {
		return
	}
	spared := 0
	for _, e := range effects {
		if stop, ok := e.(StopTask); ok {
			if old := before.task(stop.ID); old != nil && old.Healthy() && w.state.task(stop.ID).Phase == Stopping {
				spared++
			}
		}
	}
	least, _ := w.state.Limits()
	if a := w.state.staged(); a != nil && !a.rolls() {
		least = 0 // see checkStages
	}
	if fit := w.state.Count("").Healthy; spared > 0 && fit < least {
		broken("%d well copies were stopped, so that %d are left, of at least %d", spared, fit, least)
	}
}

// checkDrains checks that no task is told to stop, or drained, that may get connections, and
// with listeners none that has not finished those it had.
func checkDrains(w *world, effects []Effect) {
	for _, e := range effects {
		id := ""
		switch e := e.(type) {
		case DrainTask:
			id = e.ID
		case StopTask:
			id = e.ID
			if len(w.state.Config.Listeners) > 0 && !w.drained[id] {
				broken("task %d is stopped before it has finished its connections", w.state.task(id).Number)
			}
		}
		if slices.Contains(w.state.Rotation(), id) {
			broken("task %d is to stop and may get connections", w.state.task(id).Number)
		}
	}
}

// do does the i-th of the effects that were asked for.
func (w *world) do(i int) {
	e := w.asked[i]
	w.asked = slices.Delete(w.asked, i, i+1)
	switch e := e.(type) {
	case StartTask:
		if w.refuses != "" && w.tasks[e.ID] == nil {
			w.tell(Done{ID: e.ID, Refused: w.refuses})
			return
		}
		w.make(e.ID)
		w.tell(Done{ID: e.ID})
		w.look(e.ID) // it may be there for long
	case DrainTask:
		w.drained[e.ID] = true
		w.tell(Done{ID: e.ID})
	case StopTask:
		t := w.tasks[e.ID]
		if t == nil {
			w.tell(Vanished{ID: e.ID})
			return
		}
		if protected := w.now.Before(t.Protected); protected && !e.Spare && w.state.Status == Active && !w.state.task(e.ID).Failed {
			broken("task %d is protected and is stopped", w.state.task(e.ID).Number)
		} else if !protected || !e.Spare {
			t.stopping, t.Protected = true, time.Time{}
		}
		w.tell(Done{ID: e.ID})
	case CallHook:
		w.callHook(e)
	case CheckAlarms:
		w.tell(AlarmsChecked{Attempt: e.Attempt, Raised: w.raised})
	case RemoveTask:
		if t := w.tasks[e.ID]; t != nil && !t.Stopped {
			broken("task %s is to be removed and has not stopped", e.ID)
		}
		delete(w.tasks, e.ID)
		w.tell(Done{ID: e.ID})
	}
}

func (w *world) make(id string) {
	if w.tasks[id] != nil {
		return
	}
	t := w.state.task(id)
	d, ok := w.state.Deployment(t.Deployment)
	if !ok {
		broken("task %d is to be made of a deployment that is not there", t.Number)
	}
	w.tasks[id] = &copyOf{definition: d.TaskDefinition}
}

// crash kills the process. Of what was asked for, some was done all the same.
func (w *world) crash(done func(Effect) bool) {
	for _, e := range w.asked {
		if start, ok := e.(StartTask); ok && w.refuses == "" && done(e) {
			w.make(start.ID)
		}
	}
	w.asked = nil
	var s State
	if err := json.Unmarshal(w.saved, &s); err != nil {
		broken("the record: %v", err)
	}
	w.state = s
	w.tell(TimerFired{})
	w.tell(w.use)
	w.lookAtAll()
}

// lookAtAll reports every task to the service, as at its start.
func (w *world) lookAtAll() {
	for _, t := range slices.Clone(w.state.Tasks) {
		if t.Phase == Live || t.Phase == Stopping {
			w.look(t.ID)
		}
	}
}

func (w *world) look(id string) {
	if t := w.tasks[id]; t != nil {
		w.tell(Seen{ID: id, Observation: t.Observation})
	} else {
		w.tell(Vanished{ID: id})
	}
}

// advance lets a task continue by itself.
func (w *world) advance(id string) {
	t := w.tasks[id]
	bad, isBad := w.bad[t.definition]
	switch {
	case t.Stopped:
		return
	case t.stopping:
		t.Observation = Observation{Stopped: true, ByUser: true, Reason: "stopped by the service"}
	case isBad && !bad.Running && (bad != brief || t.Running):
		t.Observation = bad
	case !t.Running:
		t.Observation = Observation{Running: true, Since: w.now, Health: bad.Health}
	default:
		return
	}
	if known := w.state.task(id); known != nil && known.Phase != Wanted {
		w.look(id)
	}
}

// calm does all there is to do, in order, until nothing happens any more, or for as long
// as limit of the world's time.
func calm(w *world, limit time.Duration) error {
	end := w.now.Add(limit)
	for range 20000 {
		switch {
		case len(w.asked) > 0:
			w.do(0)
			continue
		case w.advanceAny():
			continue
		case w.passes:
			if id, err := w.state.Pause("ok"); err == nil {
				w.tell(ContinueRequested{ID: id})
				continue
			}
		}
		wake := w.state.Wake(w.now)
		if wake.IsZero() || wake.After(end) {
			return nil
		}
		w.now = wake
		w.tell(TimerFired{})
	}
	return errors.New("it never comes to rest")
}

func (w *world) advanceAny() bool {
	for _, id := range slices.Sorted(maps.Keys(w.tasks)) {
		was := *w.tasks[id]
		if w.advance(id); w.tasks[id] != nil && *w.tasks[id] != was {
			return true
		}
	}
	return false
}

// running counts the tasks that have not stopped, by definition.
func (w *world) running() map[string]int {
	n := map[string]int{}
	for _, t := range w.tasks {
		if !t.Stopped {
			n[t.definition]++
		}
	}
	return n
}

// count is the number of tasks that there are that have not stopped.
func (w *world) count() (n int) {
	for _, k := range w.running() {
		n += k
	}
	return n
}
