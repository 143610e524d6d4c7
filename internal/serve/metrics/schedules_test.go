package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/engine/run/schedule"
	"github.com/podtask/podtask/internal/serve/metrics/schedulemetrics"
	"github.com/podtask/podtask/pkg/fault"
	"github.com/podtask/podtask/pkg/lifecycle"
)

func TestRunsOfSchedulesAreCounted(t *testing.T) {
	t.Parallel()
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	zero, three := 0, 3
	m := New("1", func() []lifecycle.State { return nil }, func() int { return 0 })
	m.Add(schedulemetrics.New(func() []schedule.State {
		return []schedule.State{{Name: "nightly", Runs: []schedule.Run{
			{Due: at(100), Status: schedule.Ended, ExitCode: &zero, Ended: at(110)},
			{Due: at(200), Status: schedule.Ended, ExitCode: &three, Ended: at(210)},
			{Due: at(300), Status: schedule.Failed}, {Due: at(400), Status: schedule.Missed}, {Due: at(500), Status: schedule.Running},
		}}, {Name: "new", Paused: true}}
	}))
	got := scrape(t, m)
	for _, want := range []string{
		`podtask_schedule_runs{outcome="success",schedule="nightly"} 1`, `podtask_schedule_runs{outcome="failure",schedule="nightly"} 2`,
		`podtask_schedule_runs{outcome="missed",schedule="nightly"} 1`, `podtask_schedule_runs{outcome="running",schedule="nightly"} 1`, `podtask_schedule_runs{outcome="skipped",schedule="nightly"} 0`,
		`podtask_schedule_last_due_timestamp_seconds{schedule="nightly"} 500`, `podtask_schedule_last_success_timestamp_seconds{schedule="nightly"} 110`,
		`podtask_schedule_paused{schedule="nightly"} 0`, `podtask_schedule_paused{schedule="new"} 1`, `podtask_schedule_runs{outcome="success",schedule="new"} 0`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is missing", want)
		}
	}
	if strings.Contains(got, `last_due_timestamp_seconds{schedule="new"}`) {
		t.Error("a schedule without runs has a latest one")
	}
}

func TestFaultsAreCounted(t *testing.T) {
	t.Parallel()
	m := New("1", func() []lifecycle.State {
		return []lifecycle.State{{Faults: []fault.Fault{{Kind: fault.Latency, Since: time.Unix(1, 0)}, {Kind: fault.BlackholePort}}}} // one is not there yet
	}, func() int { return 0 })
	got := scrape(t, m)
	for _, want := range []string{`podtask_faults{kind="latency"} 1`, `podtask_faults{kind="blackhole-port"} 0`, `podtask_faults{kind="packet-loss"} 0`} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is missing", want)
		}
	}
}
