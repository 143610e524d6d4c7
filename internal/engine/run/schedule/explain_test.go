package schedule

import (
	"strings"
	"testing"
	"time"
)

func TestExplain(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 26, 3, 0, 0, 0, time.UTC)
	next, three := at.Add(24*time.Hour), 3
	with := func(change func(*State), runs ...Run) State {
		s := State{Name: "nightly", Source: "daily", Overlap: Forbid, Runs: runs}
		if change != nil {
			change(&s)
		}
		return s
	}
	ended := Run{Due: at, Status: Ended, ExitCode: &three, Reason: "essential container app exited"}
	running := Run{Due: at, Status: Running, Task: strings.Repeat("ab", 16), Begun: at}
	for _, c := range []struct {
		name  string
		s     State
		next  time.Time
		timer bool
		codes string
		text  string // a part of the first reason
	}{
		{"new", with(nil), next, true, WhyWaiting, "it waits for its next run (daily)"},
		{"after a failure", with(nil, ended), next, true, WhyWaiting + " " + WhyLast, "it waits"},
		{"runs", with(nil, running), next, true, WhyRunning + " " + WhyWaiting, "the run of 2026-11-26 03:00:00 UTC is still running (task abababababab); other runs are skipped until it ends"},
		{"runs and is replaced", with(func(s *State) { s.Overlap = Replace }, running), next, true, WhyRunning + " " + WhyWaiting, "the next run stops it"},
		{"paused", with(func(s *State) { s.Paused = true }, ended), time.Time{}, true, WhyPaused + " " + WhyLast, "resume it with `podtask schedule resume nightly`"},
		{"no timer", with(nil), next, false, WhyNoTimer, "its systemd timer is missing"},
		{"never again", with(nil), time.Time{}, true, WhyNever, "no time is left in daily"},
		{"is tried again", with(nil, Run{Due: at, Status: Starting, Reason: "the host drains"}), next, true, WhyStarting + " " + WhyWaiting, "could not create the task of the run of 2026-11-26 03:00:00 UTC and keeps trying: the host drains"},
		{"missed", with(nil, Run{Due: at, Status: Missed, Reason: "the host was not there"}), next, true, WhyWaiting + " " + WhyLast, "it waits"},
	} {
		got := Explain(c.s, c.next, c.timer)
		var codes []string
		for _, r := range got {
			codes = append(codes, r.Code)
		}
		if strings.Join(codes, " ") != c.codes || !strings.Contains(got[0].Text, c.text) {
			t.Errorf("%s: %+v, want %s: %s", c.name, got, c.codes, c.text)
		}
		if waits := got[0].Code == WhyWaiting; waits && (!got[0].Until.Equal(c.next) || got[0].Then != "it runs") {
			t.Errorf("%s: %+v", c.name, got[0])
		}
	}
	if got := Explain(with(nil, ended), next, true)[1].Text; got != "the last run (2026-11-26 03:00:00 UTC) ended with exit code 3: essential container app exited" {
		t.Errorf("%s", got)
	}
}
