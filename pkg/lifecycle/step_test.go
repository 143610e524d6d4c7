package lifecycle

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podtask/podtask/pkg/taskdef"
)

// A tape is a task and what happens to it, in bytes: any bytes make a possible
// story, so that chance and a fuzzer can write it.
type tape struct{ rest []byte }

func (b *tape) next(n int) int {
	if len(b.rest) == 0 {
		return 0
	}
	v := int(b.rest[0]) % n
	b.rest = b.rest[1:]
	return v
}

func (b *tape) task() (taskdef.Task, Options) {
	t := taskdef.Task{Family: "tape", Network: taskdef.NetworkBridge}
	n := 1 + b.next(4)
	for i := range n {
		c := container(string(rune('a' + i)))
		flags := b.next(32)
		c.Essential = i == n-1 || flags&1 == 0
		if flags&2 != 0 {
			checked(&c)
		}
		if flags&4 != 0 {
			c.StartTimeout = 7 * time.Second
		}
		if flags&8 != 0 {
			pinned(&c)
		}
		if i > 0 && flags&16 != 0 {
			on := b.next(i)
			possible := []taskdef.Condition{taskdef.Start}
			if !t.Containers[on].Essential {
				possible = append(possible, taskdef.Complete, taskdef.Success)
			}
			if t.Containers[on].HealthCheck != nil {
				possible = append(possible, taskdef.Healthy)
			}
			after(on, possible[b.next(len(possible))])(&c)
		}
		t.Containers = append(t.Containers, c)
	}
	return t, Options{Pull: PullBehavior(b.next(int(numPullBehavior)))}
}

// event is what happens next. It may be an answer to anything, in flight or not.
func (b *tape) event(s State, at time.Time) Event {
	switch b.next(16) {
	case 0:
		return Restarted{}
	case 1:
		return StopRequested{By: "user", Force: b.next(2) == 0, Spare: b.next(2) == 0}
	case 2:
		return RemoveRequested{By: "user", Force: b.next(2) == 0}
	case 3, 4:
		return Hinted{Index: b.next(len(s.Containers)+2) - 1}
	case 5:
		return TimerFired{}
	case 6:
		return RestartRequested{Container: b.next(len(s.Containers)+2) - 1}
	case 7:
		if b.next(2) == 0 {
			return ProtectionRequested{Until: at.Add(time.Duration(b.next(100)-50) * time.Hour)}
		}
		if b.next(2) == 0 {
			r := ResourcesOf(s.Task)
			r.Memory = int64(b.next(256)) << 20 // 1 to 5 MiB are too little
			r.Restart = []int{b.next(len(s.Containers))}
			return ResourcesRequested{Resources: r}
		}
		return LimitsRequested{Quota: Quota{Memory: int64(b.next(256))}}
	}
	i := b.next(len(s.Containers)+2) - 1
	ev := OpFinished{ID: OpID(b.next(8))} // late, or of nothing
	switch {
	case i < 0:
		ev.ID = s.Sandbox.Op.ID
	case i < len(s.Containers):
		ev.ID = s.Containers[i].Op.ID
	}
	ev.Failure = Failure{Class: Class(max(0, b.next(12)-6)), Message: "fault"}
	ev.Result = Result{
		Digest: "sha256:d", ImageID: "image", PodID: "pod",
		Probe: ProbeResult{Healthy: b.next(2) == 0, ExitCode: 1},
		Seen:  Observed{Presence: Presence(b.next(int(numPresence))), ID: "id", StartedAt: at, ExitCode: b.next(3)},
	}
	if ev.Result.Seen.Presence == Exited {
		ev.Result.Seen.FinishedAt = at
		ev.Result.Seen.Memory.Kills = uint64(b.next(3))
	}
	if ev.Failure.Class != OK {
		ev.Result = Result{}
	}
	return ev
}

// playTape plays a tape to its end. After each step the state is checked, and
// look is called if set.
func playTape(t *testing.T, bytes []byte, look func(before State, at time.Time, ev Event, after State, effects []Effect)) State {
	t.Helper()
	b := &tape{bytes}
	task, o := b.task()
	at := epoch
	s := New(strings.Repeat("0", 32), "", task, o, at)
	if err := Check(s); err != nil {
		t.Fatal(err)
	}
	var ev Event = Restarted{}
	for {
		after, effects := Step(s, at, ev)
		if err := Check(after); err != nil {
			t.Fatalf("%#v: %v\nbefore %+v", ev, err, s)
		}
		if look != nil {
			look(s, at, ev, after, effects)
		}
		s = after
		if len(b.rest) == 0 {
			return s
		}
		if wake := s.Wake(at); b.next(2) == 0 && !wake.IsZero() {
			at = wake
		}
		ev = b.event(s, at)
	}
}

// checkPure: a step leaves its input alone and, made again, does the same again;
// effects are values, each with an operation of its own.
func checkPure(t *testing.T, tape []byte) {
	t.Helper()
	var was []byte
	ids := make(map[OpID]bool)
	playTape(t, tape, func(before State, at time.Time, ev Event, after State, effects []Effect) {
		t.Helper()
		now, err := json.Marshal(before)
		if err != nil {
			t.Fatal(err)
		}
		if was != nil && string(now) != string(was) {
			t.Fatalf("a step has changed its input:\n%s\nis\n%s", was, now)
		}
		again, asked := Step(before, at, ev)
		if !reflect.DeepEqual(after, again) || !reflect.DeepEqual(effects, asked) {
			t.Fatalf("the same step gave\n%+v %v\nthen\n%+v %v", after, effects, again, asked)
		}
		if _, life := ev.(Restarted); life {
			clear(ids) // nothing can answer an older one
		}
		for _, e := range effects {
			if _, cancel := e.(CancelOp); cancel {
				continue
			}
			id := OpID(reflect.ValueOf(e).FieldByName("ID").Uint())
			if id == 0 || ids[id] {
				t.Fatalf("%#v has a number that is not new", e)
			}
			ids[id] = true
		}
		if was, err = json.Marshal(after); err != nil {
			t.Fatal(err)
		}
	})
}

func TestStepIsPure(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 2))
		tape := make([]byte, 300)
		for i := range tape {
			tape[i] = byte(r.Uint32())
		}
		checkPure(t, tape)
	}
}

// Two steps from one state must not see each other's changes.
func TestStatesOfOneOriginAreIndependent(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("a"), container("b"))
	d.upTo(Stop)
	text := func(s State) string {
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	origin := text(d.s)
	end := func(s State, code int) State {
		s, _ = Step(s, d.at, Restarted{})
		for i := range s.Containers {
			s, _ = Step(s, d.at, OpFinished{ID: s.Containers[i].Op.ID, Result: Result{Seen: Observed{Presence: Exited, ID: "id", StartedAt: d.at, ExitCode: code, OOMKilled: true}}})
		}
		return s
	}
	left := end(d.s, 1)
	was := text(left)
	end(d.s, 2)
	if text(left) != was || text(d.s) != origin {
		t.Error("they are not")
	}
}

func FuzzStep(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("a short story"))
	f.Add([]byte{3, 19, 18, 7, 21, 0, 1, 8, 1, 8, 2, 8, 3, 8, 4, 8, 5, 0, 1, 1, 9, 1, 9, 2})
	f.Fuzz(func(t *testing.T, tape []byte) {
		checkPure(t, tape[:min(len(tape), 1000)])
	})
}

func TestUnknownAnswersChangeNothing(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("a"))
	d.upTo(Pull)
	pull := d.op(0).ID
	d.answer(Pull, 0, Failure{}, Result{ImageID: "image"})
	before := d.s
	for _, id := range []OpID{0, pull, 999} {
		d.do(OpFinished{ID: id, Failure: Failure{Class: Permanent}, Result: Result{Seen: Observed{Presence: Exited}}})
		if !reflect.DeepEqual(before, d.s) || len(d.asked) > 0 {
			t.Errorf("an answer to operation %d was heard: asked %v", id, d.asked)
		}
	}
}

// threeInAChain is a task of three containers, each of which waits for the one before.
func threeInAChain() State {
	task := taskdef.Task{Family: "bench", Network: taskdef.NetworkBridge, Containers: []taskdef.Container{
		container("a", optional), container("b", after(0, taskdef.Start)), container("c", after(1, taskdef.Start)),
	}}
	return New(strings.Repeat("0", 32), "", task, Options{}, epoch)
}

// chainThatRuns is the case that is stepped most: a running task.
func chainThatRuns() State {
	s := threeInAChain()
	s.Sandbox = Sandbox{Phase: SandboxReady, Dirty: true}
	for i := range s.Containers {
		s.Containers[i] = Container{Resolved: true, Pulled: true, Presence: Running, StartedAt: epoch, Reported: StatusRunning}
	}
	s.Reported = StatusRunning
	return s
}

// A container of a running task is looked at.
func BenchmarkStep(b *testing.B) {
	s := chainThatRuns()
	b.ReportAllocs()
	for b.Loop() {
		next, effects := Step(s, epoch, Hinted{Index: 1})
		if len(effects) != 1 || next.NextOp == s.NextOp {
			b.Fatal(effects)
		}
	}
}

// The whole life of a task of three containers, from its submission to STOPPED. A
// transition is a line of its history; transitions/cpu-s are those in a second of one
// processor, whatever else the machine does.
func BenchmarkLife(b *testing.B) {
	b.ReportAllocs()
	transitions := 0
	began := cpuTime(b)
	for b.Loop() {
		s, _ := live(b, threeInAChain())
		transitions += len(s.History)
	}
	b.ReportMetric(float64(transitions)/b.Elapsed().Seconds(), "transitions/s")
	b.ReportMetric(float64(transitions)/(cpuTime(b)-began).Seconds(), "transitions/cpu-s")
}

// cpuTime is what this process has used so far.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// What the most frequent step and a whole life allocate may not creep up: a step
// copies the containers and makes an effect, a life adds its history. It is no
// parallel test, because AllocsPerRun counts those of all.
func TestAllocationsOfAStep(t *testing.T) {
	s := chainThatRuns()
	if n := testing.AllocsPerRun(100, func() { Step(s, epoch, Hinted{Index: 1}) }); n > 4 {
		t.Errorf("a step that looks at a container makes %v allocations, want at most 4", n)
	}
	steps := 0
	n := testing.AllocsPerRun(100, func() { _, steps = live(t, threeInAChain()) })
	t.Logf("a life of %d steps makes %v allocations", steps, n)
	if n > 120 || steps > 18 { // 110, and some more under the race detector
		t.Error("want at most 120 in 18 steps")
	}
}

// live answers every effect with success until the task has stopped, and counts the
// steps; the last container exits as soon as it runs.
func live(tb testing.TB, s State) (end State, steps int) {
	s, asked := Step(s, epoch, Restarted{})
	for steps = 1; len(asked) > 0; steps++ {
		e := asked[0]
		var more []Effect
		s, more = Step(s, epoch, success(e, len(s.Containers)-1))
		asked = append(asked[1:], more...)
	}
	if !s.Settled() {
		tb.Fatalf("it rests as %s", s.Status())
	}
	return s, steps
}

func success(e Effect, last int) OpFinished {
	seen := func(p Presence) Result {
		return Result{Seen: Observed{Presence: p, ID: "id", StartedAt: epoch, FinishedAt: epoch}}
	}
	switch e := e.(type) {
	case AdmitTask:
		return OpFinished{ID: e.ID, Result: Result{Admitted: true}}
	case ReleaseTask:
		return OpFinished{ID: e.ID}
	case CreateSandbox:
		return OpFinished{ID: e.ID}
	case RunSandbox:
		return OpFinished{ID: e.ID}
	case StopSandbox:
		return OpFinished{ID: e.ID}
	case ResolveImage:
		return OpFinished{ID: e.ID, Result: Result{Digest: "sha256:d"}}
	case PullImage:
		return OpFinished{ID: e.ID, Result: Result{ImageID: "image"}}
	case CreateContainer:
		return OpFinished{ID: e.ID, Result: seen(Created)}
	case StartContainer:
		if e.Index == last {
			return OpFinished{ID: e.ID, Result: seen(Exited)}
		}
		return OpFinished{ID: e.ID, Result: seen(Running)}
	case StopContainer:
		return OpFinished{ID: e.ID, Result: seen(Exited)}
	}
	panic("nothing to answer")
}
