package engine_test

import (
	"context"
	"encoding/json"
	"runtime"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/engine"

	"github.com/podtask/podtask/internal/engine/record"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/lifecycle"
	"golang.org/x/sys/unix"
)

// fleetSize is how many tasks an agent is measured with.
const fleetSize = 1000

// own lets a new process own the tasks of the bed and returns when holds is true of
// all of them.
func (b *bed) own(holds func(lifecycle.State) bool) (end func()) {
	b.t.Helper()
	h := b.host()
	ctx, cancel := context.WithCancel(b.t.Context())
	fleet := engine.NewFleet(ctx, h)
	done := make(chan error, 1)
	go func() { done <- fleet.Run() }()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for there := 0; there < fleetSize; <-tick.C {
		there = 0
		for _, o := range fleet.Owners() {
			if holds(o.State()) {
				there++
			}
		}
	}
	return func() {
		cancel()
		if err := <-done; err != nil {
			b.t.Error(err)
		}
	}
}

// launch brings a task up as its owner would, without one, and returns its state.
func (b *bed) launch(h *engine.Engine) lifecycle.State {
	b.t.Helper()
	s, asked := lifecycle.Step(b.create(h), time.Now(), lifecycle.Restarted{})
	for len(asked) > 0 {
		answer := h.Runtime.Apply(b.t.Context(), s, asked[0])
		if answer.Failure.Class != lifecycle.OK {
			b.t.Fatal(answer.Failure)
		}
		var more []lifecycle.Effect
		s, more = lifecycle.Step(s, time.Now(), answer)
		asked = append(asked[1:], more...)
	}
	return s
}

// launchAll leaves running tasks without an owner, recorded and with their events in
// the log.
func (b *bed) launchAll(n int) {
	b.t.Helper()
	store, err := state.Open(b.dir, state.OS{})
	if err != nil {
		b.t.Fatal(err)
	}
	log, err := state.OpenLog(b.dir, 0)
	if err != nil {
		b.t.Fatal(err)
	}
	encode := func(v any) json.RawMessage {
		data, err := json.Marshal(v)
		if err != nil {
			b.t.Fatal(err)
		}
		return data
	}
	h := b.host()
	var events []json.RawMessage
	for range n {
		s := b.launch(h)
		if err := store.Put(s.ID, encode(s.Durable())); err != nil {
			b.t.Fatal(err)
		}
		for _, t := range s.History {
			events = append(events, encode(record.Event{TaskSeq: t.Seq, Task: s.ID, Family: s.Task.Family, Transition: t}))
		}
	}
	if _, err := log.Append(b.t.Context(), events...); err != nil {
		b.t.Fatal(err)
	}
}

// looked: the task runs, and its owner has seen that with its own eyes.
func looked(s lifecycle.State) bool {
	c := s.Containers[0]
	return s.NextOp > 1 && c.Presence == lifecycle.Running && !c.Stale && !c.Op.Busy()
}

// BenchmarkRecovery is how long a new process takes to load 1,000 recorded tasks and to
// inspect their containers, which run. Podman is in memory, so that this is our part.
// cpu-ms/op is the processor time of it, with that of the end of the owners before;
// KiB/task is what an idle task then takes of the heap and of stacks.
func BenchmarkRecovery(b *testing.B) {
	bed := newBed(b)
	bed.launchAll(fleetSize)
	var before, after runtime.MemStats
	began := cpuTime(b)
	for b.Loop() {
		runtime.GC()
		runtime.ReadMemStats(&before)
		end := bed.own(looked)
		b.StopTimer()
		runtime.GC()
		runtime.ReadMemStats(&after)
		end()
		b.StartTimer()
	}
	b.ReportMetric(float64((cpuTime(b)-began).Milliseconds())/float64(b.N), "cpu-ms/op")
	used := int64(after.HeapAlloc+after.StackInuse) - int64(before.HeapAlloc+before.StackInuse)
	b.ReportMetric(float64(used)/fleetSize/1024, "KiB/task")
}

// cpuTime is what this process has used so far: other than the time on the clock it
// does not depend on what else the machine does.
func cpuTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
