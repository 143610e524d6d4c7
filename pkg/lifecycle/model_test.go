package lifecycle

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/pkg/taskdef"
)

// The model check walks every interleaving of a small world: effects that work,
// fail before or after they acted, answers that come late or twice, containers
// that exit, users who stop, force, remove or delete things behind our back, and
// crashes at any point with any subset of what was in flight done. Budgets make
// it finite. See properties below for what must hold.

// truth is what is really so of a container, whatever the state believes.
type truth struct {
	presence Presence
	code     int
	runs     int  // how often it was started
	healthy  bool // its check has passed since
	vanished bool // a user removed it after it had been created
}

// flight is an effect that was asked for and has not answered.
type flight struct {
	id       OpID
	kind     Kind
	index    int // -1: sandbox
	canceled bool
	done     bool   // acted, answer still to come
	result   Result // its answer, once done
}

type budget struct{ faults, crashes, exits, lates, splits, requests, vanishes int }

type world struct {
	s       State
	now     time.Time
	truth   []truth
	pod     SandboxPhase
	flights []flight
	late    *OpFinished
	left    budget
	trail   *trail
}

// trail remembers how a world was reached, for messages.
type trail struct {
	move  string
	kind  Kind
	index int
	prev  *trail
}

func (t *trail) String() string {
	if t.kind != Idle {
		return fmt.Sprintf("%s(%d) %s", t.kind, t.index, t.move)
	}
	return fmt.Sprintf("%s %d", t.move, t.index)
}

func (w world) String() string {
	var moves []string
	for t := w.trail; t != nil; t = t.prev {
		moves = append(moves, t.String())
	}
	slices.Reverse(moves)
	return strings.Join(moves, "\n  ")
}

func (w world) clone(move string, kind Kind, index int) world {
	w.truth = slices.Clone(w.truth)
	w.flights = slices.Clone(w.flights)
	w.trail = &trail{move, kind, index, w.trail}
	return w
}

// violation is the panic value of a broken property.
type violation struct {
	property string
	w        world
}

func (w world) broken(format string, a ...any) { panic(violation{fmt.Sprintf(format, a...), w}) }

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newWorld(t taskdef.Task, o Options, b budget) world {
	w := world{s: New(strings.Repeat("0", 32), "", t, o, epoch), now: epoch, truth: make([]truth, len(t.Containers)), left: b}
	w.trail = &trail{move: "submit"}
	w.step(Restarted{})
	return w
}

// step delivers an event and takes in the effects, checking all that can be
// checked about one step.
func (w *world) step(ev Event) {
	old := w.s
	s, effects := Step(old, w.now, ev)
	w.s = s
	if err := Check(s); err != nil {
		w.broken("invariant: %v", err)
	}
	w.checkHistory(old)
	w.checkForward(old)
	for _, e := range effects {
		w.issue(e)
	}
	if s.Settled() && len(w.flights) > 0 {
		w.broken("settled with operations in flight: %v", w.flights)
	}
	// The model does not tell states apart by what was only written down.
	w.s.History = nil
	for i := range w.s.Containers {
		var kept []Failure
		for _, f := range w.s.Containers[i].Failures {
			kept = append(kept, Failure{Class: f.Class, Tolerated: f.Tolerated})
		}
		w.s.Containers[i].Failures = kept
	}
	w.s.Sandbox.Failures = nil
}

func (w *world) issue(e Effect) {
	f := flight{index: -1}
	switch e := e.(type) {
	case PrepareSandbox:
		f.id, f.kind = e.ID, Prepare
	case HaltSandbox:
		f.id, f.kind = e.ID, Halt
	case RemoveSandbox:
		f.id, f.kind = e.ID, Remove
	case ResolveImage:
		f.id, f.kind, f.index = e.ID, Resolve, e.Index
	case PullImage:
		f.id, f.kind, f.index = e.ID, Pull, e.Index
	case CreateContainer:
		f.id, f.kind, f.index = e.ID, Create, e.Index
		if w.pod != SandboxReady {
			w.broken("create without a sandbox")
		}
	case StartContainer:
		f.id, f.kind, f.index = e.ID, Start, e.Index
		w.checkStart(e.Index)
	case StopContainer:
		f.id, f.kind, f.index = e.ID, Stop, e.Index
		w.checkStop(e.Index)
	case InspectContainer:
		f.id, f.kind, f.index = e.ID, Inspect, e.Index
	case ProbeContainer:
		f.id, f.kind, f.index = e.ID, Probe, e.Index
	case CancelOp:
		for k := range w.flights {
			if w.flights[k].id == e.ID {
				w.flights[k].canceled = true
				return
			}
		}
		w.broken("cancel of %d which is not in flight", e.ID)
	default:
		w.broken("unknown effect %T", e)
	}
	for _, g := range w.flights {
		if g.index == f.index {
			w.broken("%s of %d while a %s is in flight", f.kind, f.index, g.kind)
		}
	}
	if f.kind >= Pull && f.kind != Inspect && !w.s.allResolved() && w.s.Goal == Up {
		w.broken("%s before every digest is known", f.kind)
	}
	w.flights = append(w.flights, f)
}

func (w *world) checkStart(i int) {
	for _, d := range w.s.Task.Containers[i].DependsOn {
		t := w.truth[d.Container]
		met := map[taskdef.Condition]bool{
			taskdef.Start:    t.runs > 0,
			taskdef.Complete: t.runs > 0 && t.presence == Exited,
			taskdef.Success:  t.runs > 0 && t.presence == Exited && t.code == 0,
			taskdef.Healthy:  t.healthy,
		}[d.Condition]
		if !met && !t.vanished {
			w.broken("start of %d before its dependency %v", i, d)
		}
	}
}

func (w *world) checkStop(i int) {
	if w.s.Force {
		return
	}
	for _, d := range w.s.Task.Dependants(i) {
		if w.truth[d].presence == Running {
			w.broken("stop of %d before its dependant %d", i, d)
		}
	}
}

// checkForward: what has ended stays ended with the same exit code, the goal
// never rises, a settled task stays settled.
func (w *world) checkForward(old State) {
	for i, c := range old.Containers {
		now := w.s.Containers[i]
		if c.Ended && (!now.Ended || now.HasExit != c.HasExit || now.ExitCode != c.ExitCode) {
			w.broken("container %d did not stay ended", i)
		}
		if now.Ended && now.HasExit && !now.StartedAt.IsZero() && w.truth[i].presence == Exited && now.ExitCode != w.truth[i].code {
			w.broken("exit code %d recorded for %d", now.ExitCode, w.truth[i].code)
		}
		if now.Ended && !now.HasExit && w.truth[i].presence == Exited {
			w.broken("the exit code of %d is lost", i)
		}
	}
	if old.Goal > w.s.Goal && w.s.Goal == Up {
		w.broken("the goal went back to UP")
	}
	if old.Status() == StatusStopped && w.s.Status() != StatusStopped {
		w.broken("the task did not stay STOPPED")
	}
	if w.s.Status() == StatusStopped {
		for i, t := range w.truth {
			if t.presence == Running {
				w.broken("STOPPED while container %d runs", i)
			}
		}
		if w.pod == SandboxReady {
			w.broken("STOPPED while the sandbox holds its ports")
		}
	}
	if w.s.Sandbox.Phase == SandboxRemoved {
		for i, t := range w.truth {
			if t.presence != Absent {
				w.broken("removed, but container %d is left", i)
			}
		}
		if w.pod != SandboxAbsent {
			w.broken("removed, but the pod is left")
		}
	}
}

// checkHistory: statuses of one thing are only ever reported forwards.
func (w *world) checkHistory(old State) {
	for _, t := range w.s.History {
		if t.Status == "RUNNING" && t.Container == "" && w.s.Goal != Up {
			w.broken("RUNNING reported on the way down")
		}
	}
	if w.s.Reported < old.Reported || w.s.Sandbox.Reported < old.Sandbox.Reported {
		w.broken("a status was reported backwards")
	}
	for i := range old.Containers {
		if w.s.Containers[i].Reported < old.Containers[i].Reported {
			w.broken("a status of %d was reported backwards", i)
		}
	}
}

// perform lets a flight act on the world and returns its answer.
func (w *world) perform(f flight) Result {
	if f.index < 0 {
		switch f.kind {
		case Prepare:
			w.pod = SandboxReady
		case Halt:
			w.pod = SandboxStopped
		case Remove:
			w.pod = SandboxAbsent
			for i := range w.truth {
				if w.truth[i].presence == Running && !w.s.Containers[i].Ended {
					w.broken("remove while container %d runs", i)
				}
				w.truth[i] = truth{}
			}
		}
		return Result{PodID: "pod"}
	}
	t := &w.truth[f.index]
	switch f.kind {
	case Resolve:
		return Result{Digest: "sha256:d"}
	case Pull:
		return Result{ImageID: "image", Source: "registry"}
	case Create:
		if t.presence == Absent {
			t.presence, t.runs = Created, 0
		}
	case Start:
		if t.presence == Exited {
			w.broken("container %d is started a second time", f.index)
		}
		if t.presence == Created {
			t.presence = Running
			t.runs++
		}
	case Stop:
		if t.presence == Running {
			t.presence, t.code = Exited, 143
		}
	case Probe:
		t.healthy = t.healthy || t.presence == Running
		return Result{Probe: ProbeResult{Healthy: t.presence == Running}}
	}
	return Result{Seen: w.seen(f.index)}
}

func (w *world) seen(i int) Observed {
	t := w.truth[i]
	o := Observed{Presence: t.presence, ID: "c", ExitCode: t.code}
	if t.presence == Absent {
		o.ID = ""
	}
	if t.presence >= Running {
		o.StartedAt = epoch
	}
	if t.presence == Exited {
		o.FinishedAt = epoch
	}
	return o
}

// answer removes flight k and delivers its answer.
func (w *world) answer(k int, fail Failure, r Result) {
	f := w.flights[k]
	w.flights = slices.Delete(w.flights, k, k+1)
	ev := OpFinished{ID: f.id, Failure: fail, Result: r}
	if w.left.lates > 0 {
		w.late = &ev
	}
	w.step(ev)
}

// outcome answers with what the flight found out, or with a failure where the
// truth does not permit success.
func (w *world) outcome(k int) {
	f := w.flights[k]
	r := f.result
	if !f.done {
		r = w.perform(f)
	}
	switch {
	case f.kind == Start && r.Seen.Presence == Absent:
		w.answer(k, Failure{Class: Permanent, Message: "no such container"}, Result{})
	case f.kind == Probe && w.truth[f.index].presence != Running:
		w.answer(k, Failure{Class: Permanent, Message: "not running"}, Result{})
	default:
		w.answer(k, Failure{}, r)
	}
}

// moves returns every world one move on.
func (w world) moves() []world {
	var out []world
	kind := Idle
	try := func(move string, index int, change func(n *world)) {
		n := w.clone(move, kind, index)
		change(&n)
		out = append(out, n)
	}
	for k, f := range w.flights {
		kind = f.kind
		try("works", f.index, func(n *world) { n.outcome(k) })
		if !f.done && w.left.splits > 0 {
			try("acts, answer pending", f.index, func(n *world) {
				n.left.splits--
				n.flights[k].result, n.flights[k].done = n.perform(f), true
			})
		}
		if f.canceled {
			try("is cancelled", f.index, func(n *world) { n.answer(k, Failure{Class: Canceled}, Result{}) })
			if !f.done {
				try("acts and is cancelled", f.index, func(n *world) { n.perform(f); n.answer(k, Failure{Class: Canceled}, Result{}) })
			}
		}
		if w.left.faults > 0 && !f.done {
			for _, class := range []Class{Temporary, Permanent} {
				try("fails before: "+class.String(), f.index, func(n *world) {
					n.left.faults--
					n.answer(k, Failure{Class: class, Message: "fault"}, Result{})
				})
			}
			try("acts but fails", f.index, func(n *world) {
				n.left.faults--
				n.perform(f)
				n.answer(k, Failure{Class: Timeout, Message: "fault"}, Result{})
			})
			if f.kind == Create {
				try("finds no image", f.index, func(n *world) {
					n.left.faults--
					n.answer(k, Failure{Class: NoImage, Message: "fault"}, Result{})
				})
			}
			if f.kind == Probe {
				try("is unhealthy", f.index, func(n *world) {
					n.left.faults--
					n.answer(k, Failure{}, Result{Probe: ProbeResult{ExitCode: 1}})
				})
			}
		}
	}
	kind = Idle
	for i, t := range w.truth {
		if t.presence == Running && w.left.exits > 0 {
			for code := range 2 {
				try([]string{"exits 0:", "exits 1:"}[code], i, func(n *world) {
					n.left.exits--
					n.truth[i].presence, n.truth[i].code = Exited, code
				})
			}
		}
		if t.presence != Absent && w.left.vanishes > 0 {
			try("a user removes", i, func(n *world) {
				n.left.vanishes--
				n.truth[i] = truth{vanished: true, runs: t.runs, healthy: t.healthy}
			})
		}
		if w.hintDue(i) {
			try("hint", i, func(n *world) { n.step(Hinted{Index: i}) })
		}
	}
	if w.late != nil && w.left.lates > 0 {
		try("a doubled answer", 0, func(n *world) { n.left.lates--; ev := *n.late; n.late = nil; n.step(ev) })
	}
	if wake := w.s.Wake(w.now); !wake.IsZero() {
		try("timer", 0, func(n *world) { n.now = wake; n.step(TimerFired{}) })
	}
	if w.left.requests > 0 {
		for k, ev := range []Event{StopRequested{By: "user"}, StopRequested{By: "user", Force: true}, RemoveRequested{By: "user"}} {
			try("request (0 stop, 1 kill, 2 remove)", k, func(n *world) { n.left.requests--; n.step(ev) })
		}
	}
	if w.left.crashes > 0 {
		for subset := range 1 << len(w.flights) {
			if bits.OnesCount(uint(subset)) > 2 {
				continue
			}
			try("crash, bits of what was done:", subset, func(n *world) {
				n.left.crashes--
				for k, f := range n.flights {
					if subset&(1<<k) != 0 && !f.done {
						n.perform(f)
					}
				}
				n.flights, n.late = nil, nil
				n.step(Restarted{})
			})
		}
	}
	return out
}

// hintDue: the driver watches what the state says runs, and tells when it does not.
func (w world) hintDue(i int) bool {
	return slices.Contains(w.s.Watches(), i) && w.truth[i].presence != Running
}

// key tells worlds apart by what matters for the future. Times matter by their
// order only: unset, past, or which of the future ones comes first.
func (w world) key() string {
	k := keyer{b: make([]byte, 0, 160), now: w.now}
	s := w.s
	l := w.left
	k.ints(l.faults, l.crashes, l.exits, l.lates, l.splits, l.requests, l.vanishes)
	k.ints(int(s.Goal), int(s.Sandbox.Phase), int(s.Reported), int(w.pod), s.Sandbox.Retry.Attempts)
	k.bools(s.Force, s.Sandbox.Dirty, s.Sandbox.Stale)
	k.op(s.Sandbox.Op)
	k.time(s.Sandbox.Retry.NotUntil)
	for i, c := range s.Containers {
		t := w.truth[i]
		k.bools(c.Resolved, c.Pulled, c.Stale, c.Ended, c.HasExit, c.StartedAt.IsZero(), t.healthy, t.vanished)
		k.ints(int(c.Presence), c.ExitCode, int(c.Health.Status), min(c.Health.Streak, 3), int(c.Doubt.Kind), int(c.Doubt.Failure.Class), c.Retry.Attempts)
		k.ints(int(t.presence), t.code, t.runs)
		k.bools(c.lostImage())
		k.op(c.Op)
		k.time(c.Retry.NotUntil)
		k.time(c.Health.Next)
		k.time(s.startDeadline(i))
		if check := s.Task.Containers[i].HealthCheck; check != nil && !c.Health.Since.IsZero() && !c.Ended {
			k.time(c.Health.Since.Add(max(check.Interval, check.StartPeriod)))
		}
	}
	// Flights are told apart by their slot, of which each has at most one.
	for slot := -1; slot < len(s.Containers); slot++ {
		for _, f := range w.flights {
			if f.index == slot {
				k.ints(100+slot, int(f.kind), int(f.result.Seen.Presence), f.result.Seen.ExitCode)
				k.bools(f.canceled, f.done)
			}
		}
	}
	if w.late != nil {
		k.ints(99, int(w.late.Failure.Class), int(w.late.Result.Seen.Presence), w.late.Result.Seen.ExitCode)
	}
	return k.finish()
}

type keyer struct {
	b     []byte
	now   time.Time
	times []time.Time
}

func (k *keyer) ints(v ...int) {
	for _, n := range v {
		k.b = append(k.b, byte(n))
	}
}

func (k *keyer) bools(v ...bool) {
	n := 0
	for _, b := range v {
		n <<= 1
		if b {
			n |= 1
		}
	}
	k.ints(n)
}

func (k *keyer) op(o Op) {
	k.ints(int(o.Kind))
	k.bools(o.Canceled, o.Gentle, o.Overran)
	k.time(o.Overdue)
}

func (k *keyer) time(t time.Time) { k.times = append(k.times, t) }

func (k *keyer) finish() string {
	future := slices.Clone(k.times)
	slices.SortFunc(future, time.Time.Compare)
	future = slices.Compact(future)
	for _, t := range k.times {
		switch {
		case t.IsZero():
			k.ints(0)
		case !t.After(k.now):
			k.ints(1)
		default:
			rank, _ := slices.BinarySearchFunc(future, t, time.Time.Compare)
			k.ints(2 + len(future) - rank)
		}
	}
	return string(k.b)
}

// finish runs the world on without any further fault until nothing is left to
// do, and checks that the task has come to its goal.
func (w world) finish(good map[string]bool) {
	var passed []string
	for range 400 {
		key := w.key()
		if good[key] {
			break
		}
		passed = append(passed, key)
		n := w.clone("finish", Idle, 0)
		if !n.advance() {
			w.checkFinal()
			break
		}
		w = n
		if len(passed) == 400 {
			w.broken("does not come to rest")
		}
	}
	for _, key := range passed {
		good[key] = true
	}
}

// advance makes the one move a faultless world would make.
func (w *world) advance() bool {
	for k := range w.flights {
		w.trail.kind, w.trail.index = w.flights[k].kind, w.flights[k].index
		w.outcome(k)
		return true
	}
	for i := range w.truth {
		if w.hintDue(i) {
			w.trail.move, w.trail.index = "finish: hint", i
			w.step(Hinted{Index: i})
			return true
		}
	}
	for i, t := range w.truth {
		if t.presence == Running && !w.s.Task.Containers[i].Essential && w.s.Goal == Up && awaited(w.s, i) {
			w.trail.move, w.trail.index = "finish: exits 0:", i
			w.truth[i].presence, w.truth[i].code = Exited, 0
			return true
		}
	}
	if w.s.Settled() || w.steady() {
		return false
	}
	if wake := w.s.Wake(w.now); !wake.IsZero() {
		w.trail.move = "finish: timer"
		w.now = wake
		w.step(TimerFired{})
		return true
	}
	return false
}

func awaited(s State, i int) bool {
	for _, k := range s.Task.Dependants(i) {
		for _, d := range s.Task.Containers[k].DependsOn {
			if d.Container == i && (d.Condition == taskdef.Success || d.Condition == taskdef.Complete) && !s.Containers[k].Ended {
				return true
			}
		}
	}
	return false
}

// steady: everything that should run is running and nothing waits.
func (w *world) steady() bool {
	if w.s.Goal != Up {
		return false
	}
	for i, c := range w.s.Containers {
		if !c.Ended && (c.Presence != Running || c.Stale || w.truth[i].presence != Running) {
			return false
		}
	}
	return true
}

func (w *world) checkFinal() {
	switch {
	case w.s.Goal == Up && !w.steady():
		w.broken("the goal is UP but it comes to rest before everything runs")
	case w.s.Goal != Up && !w.s.Settled():
		w.broken("the goal is %s but it comes to rest unsettled", w.s.Goal)
	}
	for i, t := range w.truth {
		if t.presence == Running && (w.s.Goal != Up || w.s.Containers[i].Presence != Running) {
			w.broken("container %d runs unnoticed", i)
		}
	}
}

func explore(t *testing.T, start world) (states, moves int) {
	defer func() {
		if v, ok := recover().(violation); ok {
			t.Fatalf("%s\nafter\n  %s\nstate %+v", v.property, v.w, v.w.s)
		}
	}()
	seen := map[string]bool{start.key(): true}
	good := map[string]bool{}
	for queue := []world{start}; len(queue) > 0; {
		w := queue[0]
		queue = queue[1:]
		w.finish(good)
		if len(seen) > 400_000 {
			t.Fatalf("more than %d states: the budget of this case is too large", len(seen))
		}
		for _, n := range w.moves() {
			moves++
			if k := n.key(); !seen[k] {
				seen[k] = true
				queue = append(queue, n)
			}
		}
	}
	return len(seen), moves
}

func container(name string, essential bool, deps ...taskdef.Dependency) taskdef.Container {
	return taskdef.Container{Name: name, Image: "example.com/" + name + ":1", Essential: essential, StopTimeout: time.Second, DependsOn: deps}
}

func checked(c taskdef.Container) taskdef.Container {
	c.HealthCheck = &taskdef.HealthCheck{Command: []string{"CMD", "true"}, Interval: 5 * time.Second, Timeout: 2 * time.Second, Retries: 2}
	return c
}

func timed(c taskdef.Container) taskdef.Container { c.StartTimeout = 7 * time.Second; return c }

func on(i int, c taskdef.Condition) taskdef.Dependency {
	return taskdef.Dependency{Container: i, Condition: c}
}

func task(cs ...taskdef.Container) taskdef.Task {
	return taskdef.Task{Family: "model", Network: taskdef.NetworkBridge, Containers: cs}
}

func TestModel(t *testing.T) {
	one := budget{faults: 2, crashes: 1, exits: 1, lates: 1, splits: 1, requests: 1}
	two := budget{faults: 1, crashes: 1, exits: 1, lates: 1, requests: 1}
	for _, c := range []struct {
		name string
		task taskdef.Task
		pull PullBehavior
		budget
	}{
		{"one", task(container("a", true)), PullDefault, one},
		{"one, strict pull", task(container("a", true)), PullAlways, budget{faults: 2, exits: 1, splits: 1, requests: 1}},
		{"one, crashes and vanishing", task(container("a", true)), PullDefault, budget{faults: 1, crashes: 2, exits: 1, requests: 1, vanishes: 1}},
		{"one with a health check", task(checked(container("a", true))), PullDefault, budget{faults: 2, crashes: 1, exits: 1, splits: 1, requests: 1}},
		{"START", task(container("a", true), container("b", true, on(0, taskdef.Start))), PullDefault, two},
		{"COMPLETE", task(container("a", false), container("b", true, on(0, taskdef.Complete))), PullDefault, two},
		{"SUCCESS", task(container("a", false), container("b", true, on(0, taskdef.Success))), PullAlways, two},
		{"SUCCESS with startTimeout", task(timed(container("a", false)), container("b", true, on(0, taskdef.Success))), PullDefault, budget{faults: 1, exits: 1, splits: 1, requests: 1}},
		{"HEALTHY", task(checked(timed(container("a", true))), container("b", true, on(0, taskdef.Healthy))), PullDefault, budget{faults: 1, crashes: 1, exits: 1}},
		{"two that vanish", task(container("a", true), container("b", false)), PullDefault, budget{crashes: 1, exits: 1, vanishes: 1, requests: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if err := c.task.Check(); err != nil {
				t.Fatal(err)
			}
			states, moves := explore(t, newWorld(c.task, Options{Pull: c.pull}, c.budget))
			t.Logf("%d states, %d moves", states, moves)
		})
	}
}
