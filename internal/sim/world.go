package sim

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// Budget says how often each kind of unfriendly move may be made.
type Budget struct {
	Faults   int // an operation fails, or a health check does
	Splits   int // an operation acts now and answers later
	Lates    int // an answer is delivered once more
	Exits    int // a container ends by itself
	Vanishes int // a user removes a container from Podman
	Alarms   int // the driver hints at a container that goes on
	Requests int // a user asks to stop, kill or remove
	Crashes  int // the owner dies and another one starts
	Reboots  int // the machine does
	Clocks   int // the clock is set back
	Queues   int // there is no room for the task yet
	Meddles  int // a user pauses, resumes or restarts a container, or kills the infra container
}

// World is a task's state and what is really so. The zero value is of no use;
// New makes one. It is not safe for concurrent use.
type World struct {
	state lifecycle.State
	now   time.Time
	// stepped is the time of the latest step, from which the driver's timer runs.
	stepped time.Time
	truth   []truth
	// pod is what Podman has, the sandbox's phases taken as words for it.
	pod lifecycle.SandboxPhase
	// podRuns is how often the infra container was started, podStarted when, last, since
	// epoch. podKilled: it does not run because a user killed it.
	podRuns    int
	podStarted time.Duration
	podKilled  bool
	// share is what the task really has of the host: none, asked for or held.
	share   lifecycle.Share
	flights []flight
	// late holds answers that may be delivered once more.
	late []*lifecycle.OpFinished // shared with other worlds
	left Budget

	trail *trail
	// full keeps what is only written down (history, texts), which tells worlds
	// apart that have the same future.
	full bool
	// tell, if set, is called after each step, in this world and all that come
	// of it.
	tell func(before, after lifecycle.State, ev lifecycle.Event, effects []lifecycle.Effect)
}

// truth is what is really so of a container, whatever the state believes.
type truth struct {
	presence          lifecycle.Presence
	code              int
	started, finished time.Duration // since epoch
	runs              int           // how often it was started
	healthy           bool          // its check has passed since
	vanished          bool          // a user removed it after it had been created
	paused            bool          // it runs, frozen by a user
	podRun            int           // the run of the infra container that it joined
}

// flight is an operation that was asked for and has not answered.
type flight struct {
	id       lifecycle.OpID
	kind     lifecycle.Kind
	slot     int // the container, or sandbox
	canceled bool
	gentle   bool
	begun    bool              // an Admit that is not to be refused
	result   *lifecycle.Result // its answer, if it has acted
}

// sandbox is the slot of the sandbox's operations.
const sandbox = -1

// keptAnswers is how many answers of the past a full world may deliver again.
const keptAnswers = 16

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// New returns the world in which a valid task has just been submitted.
func New(t taskdef.Task, o lifecycle.Options, b Budget) (w *World, err error) {
	defer catch(&err)
	if err := t.Check(); err != nil {
		return nil, err
	}
	w = blank(t, o, b)
	w.step(lifecycle.Restarted{})
	return w, nil
}

func blank(t taskdef.Task, o lifecycle.Options, b Budget) *World {
	return &World{
		state: lifecycle.New(strings.Repeat("0", 32), "", t, o, epoch),
		now:   epoch,
		truth: make([]truth, len(t.Containers)),
		left:  b,
		trail: &trail{move: move{verb: submit}},
	}
}

func (w *World) clone() *World {
	n := *w
	n.truth = slices.Clone(w.truth)
	n.flights = slices.Clone(w.flights)
	return &n
}

// step delivers an event, takes in the effects and checks the outcome.
func (w *World) step(ev lifecycle.Event) {
	old := w.state
	s, effects := lifecycle.Step(old, w.now, ev)
	w.state, w.stepped = s, w.now
	for _, e := range effects {
		w.ask(e)
	}
	w.checkStep(&old)
	if w.tell != nil {
		w.tell(old, w.state, ev, effects)
	}
	if !w.full {
		w.forget()
	}
}

// forget drops what has no influence on the future.
func (w *World) forget() {
	w.state.History = nil
	w.state.Sandbox.Failures = nil
	for i := range w.state.Containers {
		c := &w.state.Containers[i]
		c.Runs = nil
		if len(c.Failures) == 0 {
			continue
		}
		lost := lostImage(c)
		c.Failures = nil
		if lost {
			c.Failures = imageLost
		}
	}
}

var imageLost = []lifecycle.Failure{{Class: lifecycle.NoImage, Tolerated: true}}

func lostImage(c *lifecycle.Container) bool {
	return slices.ContainsFunc(c.Failures, func(f lifecycle.Failure) bool { return f.Class == lifecycle.NoImage })
}

// ask takes in an effect.
func (w *World) ask(e lifecycle.Effect) {
	f := flight{slot: sandbox}
	switch e := e.(type) {
	case lifecycle.AdmitTask:
		f.id, f.kind, f.begun = e.ID, lifecycle.Admit, e.Begun
	case lifecycle.ReleaseTask:
		f.id, f.kind = e.ID, lifecycle.Release
	case lifecycle.PrepareSandbox:
		f.id, f.kind = e.ID, lifecycle.Prepare
	case lifecycle.InspectSandbox:
		f.id, f.kind = e.ID, lifecycle.Inspect
	case lifecycle.HaltSandbox:
		f.id, f.kind = e.ID, lifecycle.Halt
	case lifecycle.RemoveSandbox:
		f.id, f.kind = e.ID, lifecycle.Remove
	case lifecycle.ResolveImage:
		f.id, f.kind, f.slot = e.ID, lifecycle.Resolve, e.Index
	case lifecycle.PullImage:
		f.id, f.kind, f.slot = e.ID, lifecycle.Pull, e.Index
	case lifecycle.CreateContainer:
		f.id, f.kind, f.slot = e.ID, lifecycle.Create, e.Index
	case lifecycle.StartContainer:
		f.id, f.kind, f.slot = e.ID, lifecycle.Start, e.Index
	case lifecycle.StopContainer:
		f.id, f.kind, f.slot, f.gentle = e.ID, lifecycle.Stop, e.Index, e.Grace > 0
	case lifecycle.InspectContainer:
		f.id, f.kind, f.slot = e.ID, lifecycle.Inspect, e.Index
	case lifecycle.ProbeContainer:
		f.id, f.kind, f.slot = e.ID, lifecycle.Probe, e.Index
	case lifecycle.CancelOp:
		w.cancel(e.ID)
		return
	default:
		panic(fmt.Sprintf("sim: unknown effect %T", e))
	}
	w.checkAsked(f, e)
	w.flights = append(w.flights, f)
}

func (w *World) cancel(id lifecycle.OpID) {
	for k := range w.flights {
		if f := &w.flights[k]; f.id == id && !f.canceled {
			f.canceled = true
			return
		}
	}
	w.broken(CancelUseless, "operation %d is not in flight or was cancelled before", id)
}

// flightOf returns the flight of a slot, or nil.
func (w *World) flightOf(slot int) *flight {
	for k := range w.flights {
		if w.flights[k].slot == slot {
			return &w.flights[k]
		}
	}
	return nil
}

// act lets an operation act on the world. Its answer is still to come.
func (w *World) act(f *flight) {
	r := w.perform(f)
	f.result = &r
}

// perform does what an operation does and returns its answer.
func (w *World) perform(f *flight) lifecycle.Result {
	if f.slot == sandbox {
		w.performSandbox(f.kind)
		return lifecycle.Result{PodID: "pod", Admitted: true, Seen: w.seenInfra()}
	}
	t := &w.truth[f.slot]
	switch f.kind {
	case lifecycle.Resolve:
		return lifecycle.Result{Digest: "sha256:d"}
	case lifecycle.Pull:
		return lifecycle.Result{ImageID: "image", Source: lifecycle.SourceRegistry}
	case lifecycle.Create:
		if t.presence == lifecycle.Absent {
			t.presence, t.runs = lifecycle.Created, 0
		}
	case lifecycle.Start:
		if t.presence == lifecycle.Exited && w.state.Task.Containers[f.slot].Restart == nil {
			w.broken(StartOnce, "%s is started again", w.name(f.slot))
		}
		if t.presence == lifecycle.Created || t.presence == lifecycle.Exited {
			w.begin(f.slot)
		}
	case lifecycle.Stop:
		if t.presence == lifecycle.Running {
			w.end(f.slot, 143)
		}
	case lifecycle.Probe:
		if t.paused {
			break
		}
		t.healthy = t.healthy || t.presence == lifecycle.Running
		return lifecycle.Result{Probe: lifecycle.ProbeResult{Healthy: t.presence == lifecycle.Running}}
	}
	return lifecycle.Result{Seen: w.seen(f.slot)}
}

func (w *World) performSandbox(k lifecycle.Kind) {
	switch k {
	case lifecycle.Prepare:
		if w.pod != lifecycle.SandboxReady {
			w.startPod()
		}
	case lifecycle.Admit:
		w.share = lifecycle.ShareHeld
	case lifecycle.Release:
		w.share = lifecycle.ShareNone
	case lifecycle.Halt:
		if w.pod == lifecycle.SandboxReady {
			w.pod = lifecycle.SandboxStopped
		}
	case lifecycle.Remove:
		w.pod, w.podKilled = lifecycle.SandboxAbsent, false
		for i := range w.truth {
			if w.truth[i].presence == lifecycle.Running && !w.state.Containers[i].Abandoned {
				w.broken(RemoveLast, "%s runs", w.name(i))
			}
			w.truth[i] = truth{}
		}
	}
}

// begin starts a container. No two runs of it begin at the same time.
func (w *World) begin(i int) {
	if w.podKilled {
		w.startPod() // Podman does, before a member
	}
	t := &w.truth[i]
	t.runs++
	t.presence, t.podRun, t.paused = lifecycle.Running, w.podRuns, false
	t.started = w.now.Sub(epoch) + time.Duration(t.runs-1)
	if w.podRuns > 1 && t.started < w.podStarted { // within one moment of the model
		t.started = w.podStarted + time.Duration(t.runs)
	}
}

// startPod starts the infra container, after all that has started before.
func (w *World) startPod() {
	started := w.now.Sub(epoch)
	if w.podRuns > 0 {
		started = max(started, w.podStarted+1)
	}
	for i := range w.truth {
		if t := &w.truth[i]; t.runs > 0 {
			started = max(started, t.started+1)
		}
	}
	w.pod, w.podStarted, w.podKilled = lifecycle.SandboxReady, started, false
	w.podRuns++
}

// sharedNetwork: the infra container connects the containers.
func (w *World) sharedNetwork() bool { return !w.state.Task.Bridged() }

// cutOff reports whether a container runs that has lost its network.
func (w *World) cutOff(i int) bool {
	t := &w.truth[i]
	return w.sharedNetwork() && t.presence == lifecycle.Running && (w.pod != lifecycle.SandboxReady || t.podRun != w.podRuns)
}

// seenInfra is what an inspection finds of the infra container.
func (w *World) seenInfra() lifecycle.Observed {
	if w.pod != lifecycle.SandboxReady {
		return lifecycle.Observed{}
	}
	return lifecycle.Observed{Presence: lifecycle.Running, StartedAt: epoch.Add(w.podStarted)}
}

// end lets a running container end.
func (w *World) end(i, code int) {
	t := &w.truth[i]
	t.presence, t.code, t.finished, t.paused = lifecycle.Exited, code, max(t.started, w.now.Sub(epoch)), false
}

// seen is what an inspection finds.
func (w *World) seen(i int) lifecycle.Observed {
	t := &w.truth[i]
	if t.presence == lifecycle.Absent {
		return lifecycle.Observed{}
	}
	o := lifecycle.Observed{Presence: t.presence, ID: w.name(i), ExitCode: t.code, Paused: t.paused}
	if t.presence >= lifecycle.Running {
		o.StartedAt = epoch.Add(t.started)
	}
	if t.presence == lifecycle.Exited {
		o.FinishedAt = epoch.Add(t.finished)
	}
	return o
}

// answer lands the flight of a slot and delivers its answer.
func (w *World) answer(slot int, fail lifecycle.Failure, r lifecycle.Result) {
	k := slices.IndexFunc(w.flights, func(f flight) bool { return f.slot == slot })
	ev := lifecycle.OpFinished{ID: w.flights[k].id, Failure: fail, Result: r}
	w.flights = slices.Delete(w.flights, k, k+1)
	if w.left.Lates > 0 {
		w.keep(ev)
	}
	w.step(ev)
}

// keep notes an answer that may be delivered again. Unless the world is full
// only the latest is kept.
func (w *World) keep(ev lifecycle.OpFinished) {
	kept := 1
	if w.full {
		kept = keptAnswers
	}
	w.late = append(slices.Clone(w.late), &ev)
	w.late = w.late[max(0, len(w.late)-kept):]
}

// outcome answers with what the flight of a slot found out, or with a failure
// where the truth does not permit success.
func (w *World) outcome(slot int) {
	f := w.flightOf(slot)
	if f.result == nil {
		w.act(f)
	}
	r := *f.result
	switch {
	case f.kind == lifecycle.Start && r.Seen.Presence == lifecycle.Absent:
		w.answer(slot, lifecycle.Failure{Class: lifecycle.Permanent, Message: "no such container"}, lifecycle.Result{})
	case f.kind == lifecycle.Probe && (w.truth[slot].presence != lifecycle.Running || w.truth[slot].paused):
		w.answer(slot, lifecycle.Failure{Class: lifecycle.Permanent, Message: "not running"}, lifecycle.Result{})
	default:
		w.answer(slot, lifecycle.Failure{}, r)
	}
}

// crash ends the owner and starts the next one on what was saved. done tells
// the slots whose operations have acted unnoticed, slot s by bit s+1.
func (w *World) crash(done int) {
	w.die(done)
	w.step(lifecycle.Restarted{})
}

func (w *World) die(done int) {
	for k := range w.flights {
		if f := &w.flights[k]; done>>(f.slot+1)&1 == 1 && f.result == nil {
			w.act(f)
		}
	}
	w.flights, w.late = nil, nil
	if w.full {
		w.state = w.reload()
	}
}

// reload returns the state as a record gives it back.
func (w *World) reload() lifecycle.State {
	var back lifecycle.State
	saved := w.state.Durable()
	text, err := json.Marshal(saved)
	if err == nil {
		err = json.Unmarshal(text, &back)
	}
	if err == nil {
		err = lifecycle.Check(back)
	}
	if err != nil {
		w.broken(SavedIsAll, "%v", err)
	}
	if !reflect.DeepEqual(saved, back) {
		w.broken(SavedIsAll, "was %+v\nis %+v", saved, back)
	}
	return back
}

// name is a slot's name in messages.
func (w *World) name(slot int) string {
	if slot == sandbox {
		return "the sandbox"
	}
	return w.state.Task.Containers[slot].Name
}
