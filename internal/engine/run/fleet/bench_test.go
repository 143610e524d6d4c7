package fleet_test

import (
	"context"
	"encoding/json"
	"runtime"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/engine"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/internal/testing/enginehost"
	"github.com/podtask/podtask/pkg/lifecycle"
	"golang.org/x/sys/unix"
)

// fleetSize is the number of tasks in the benchmark.
const fleetSize = 1000

// own owns the tasks of the host with a new engine and returns when holds is true for all of them.
func own(b *testing.B, host *enginehost.Host, holds func(lifecycle.State) bool) (end func()) {
	b.Helper()
	e := host.Open()
	ctx, cancel := context.WithCancel(b.Context())
	fleet := engine.NewFleet(ctx, e)
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
			b.Error(err)
		}
	}
}

// launch starts a task without an owner, and returns its state.
func launch(b *testing.B, host *enginehost.Host, e *enginehost.Engine) lifecycle.State {
	b.Helper()
	s, asked := lifecycle.Step(host.CreateServer(e), time.Now(), lifecycle.Restarted{})
	for len(asked) > 0 {
		answer := e.Runtime.Apply(b.Context(), s, asked[0])
		if answer.Failure.Class != lifecycle.OK {
			b.Fatal(answer.Failure)
		}
		var more []lifecycle.Effect
		s, more = lifecycle.Step(s, time.Now(), answer)
		asked = append(asked[1:], more...)
	}
	return s
}

// launchAll starts tasks without an owner, with their records and events.
func launchAll(b *testing.B, host *enginehost.Host, n int) {
	b.Helper()
	store, err := state.Open(host.StateDir(), state.OS{})
	if err != nil {
		b.Fatal(err)
	}
	log, err := state.OpenLog(host.StateDir(), 0)
	if err != nil {
		b.Fatal(err)
	}
	encode := func(v any) json.RawMessage {
		data, err := json.Marshal(v)
		if err != nil {
			b.Fatal(err)
		}
		return data
	}
	e := host.Open()
	var events []json.RawMessage
	for range n {
		s := launch(b, host, e)
		if err := store.Put(s.ID, encode(s.Durable())); err != nil {
			b.Fatal(err)
		}
		for _, t := range s.History {
			events = append(events, encode(record.Event{TaskSeq: t.Seq, Task: s.ID, Family: s.Task.Family, Transition: t}))
		}
	}
	if _, err := log.Append(b.Context(), events...); err != nil {
		b.Fatal(err)
	}
}

// confirmed reports whether the task runs and its owner has inspected it.
func confirmed(s lifecycle.State) bool {
	c := s.Containers[0]
	return s.NextOp > 1 && c.Presence == lifecycle.Running && !c.Stale && !c.Op.Busy()
}

// BenchmarkRecovery measures how long a new process takes to load 1,000 recorded tasks and to
// inspect their running containers. Podman is a fake in memory, so this is podtask's part.
// cpu-ms/op is the processor time, including the end of the earlier owners; KiB/task is the heap
// and stack of an idle task.
func BenchmarkRecovery(b *testing.B) {
	host := enginehost.New(b)
	launchAll(b, host, fleetSize)
	var before, after runtime.MemStats
	began := cpuTime(b)
	for b.Loop() {
		runtime.GC()
		runtime.ReadMemStats(&before)
		end := own(b, host, confirmed)
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

// cpuTime returns the processor time of this process, which does not depend on other processes.
func cpuTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
