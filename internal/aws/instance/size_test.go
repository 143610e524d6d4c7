//go:build !race

package instance

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podtask/podtask/internal/aws/instance/wire"
)

// sizes limits the memory and processor time of an instance at rest with five hundred running tasks. The figures of a run are in
// docs/ecs-anywhere.md; these are about twice as much, so that only a change of kind fails.
const (
	manyTasks  = 500
	maxPerTask = 200 << 10 // bytes of heap and stacks, those of the stub of the agent and of the plane included
)

func heap() uint64 {
	for range 8 { // each halves the stacks that are mostly free; at rest there is a collection every two minutes
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// Five hundred tasks that run are at rest: each minute nothing is asked of ECS, written or asked of the agent, and
// telemetry is the only thing said.
func TestFiveHundredTasksAtRest(t *testing.T) {
	withLab(t, func(l *lab) {
		l.config.Cleanup = 1000 * time.Hour
		l.config.Usage = stubUsage{l.agent}
		l.join()
		before, routines := heap(), runtime.NumGoroutine()
		var list []any
		for n := 1; n <= manyTasks; n++ {
			if list = append(list, simple(n)); len(list) == 10 {
				l.payload(fmt.Sprintf("payload-%d", n), n, list...)
				list = nil
			}
		}
		for n := 1; n <= manyTasks; n++ {
			l.agent.resolve(name(n))
			l.agent.runs(name(n))
		}
		l.pass(time.Minute)
		if n := len(l.plane.Of("http", "SubmitTaskStateChange")); n != 2*manyTasks {
			t.Errorf("%d states of %d tasks were told", n, manyTasks)
		}
		from, writes, asked := len(l.plane.Events()), l.disk.count(), l.agent.count()
		const minutes = 5
		counts := make(map[string]int)
		for range minutes {
			if err := l.plane.Say("acs", "HeartbeatMessage", map[string]any{"healthy": true, "messageId": "hb"}); err != nil {
				t.Fatal(err)
			}
			l.pass(time.Minute)
		}
		for _, e := range l.plane.Events()[from:] {
			counts[e.On+" "+e.Op]++
		}
		perMinute := (manyTasks + wire.MaxTasks - 1) / wire.MaxTasks * 3
		want := map[string]int{"acs HeartbeatAckRequest": minutes, "tcs " + wire.TypeMetrics: minutes * perMinute, "tcs " + wire.TypeInstanceStatus: minutes}
		for what, n := range counts {
			if n != want[what] {
				t.Errorf("%d times %s in %d minutes at rest, want %d", n, what, minutes, want[what])
			}
		}
		if n := l.disk.count() - writes; n != 0 {
			t.Errorf("%d records are written at rest", n)
		}
		// The runtime's status is asked for after each heartbeat.
		if n := l.agent.count() - asked; n != minutes {
			t.Errorf("the agent is asked %d times in %d minutes at rest", n, minutes)
		}
		l.plane.Forget()
		synctest.Wait()
		perTask := (int64(heap()) - int64(before)) / manyTasks
		t.Logf("%d bytes and %d goroutines a task, %d frames of telemetry a minute", perTask, (runtime.NumGoroutine()-routines)/manyTasks, perMinute)
		if perTask > maxPerTask {
			t.Errorf("a task takes %d bytes, more than %d", perTask, maxPerTask)
		}
	})
}
