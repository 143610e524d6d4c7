package schedule

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return t
}

// host is a host with a false clock. A schedule is due every hour.
type host struct {
	s     State
	begun map[string]int // how often a task began, by ID
	ended map[string]bool
}

func newHost(change func(*State)) *host {
	start := at("2026-11-26T00:30:00Z")
	s := State{ID: record.NewID(), Name: "hourly", Calendar: []string{"hourly"}, Overlap: Allow, Created: start, Decided: start}
	if change != nil {
		change(&s)
	}
	return &host{s: s, begun: map[string]int{}, ended: map[string]bool{}}
}

func hourly(after, until time.Time) (d Due) {
	for t := after.Truncate(time.Hour).Add(time.Hour); !t.After(until); t = t.Add(time.Hour) {
		d.Latest, d.Count = t, d.Count+1
	}
	return d
}

// errKilled ends a step at which the process is killed.
var errKilled = errors.New("killed")

// wake does what `podtask schedule run --due` does, until it is killed at a step: 0 is never.
func (h *host) wake(now time.Time, kill int) (err error) {
	step := func() bool { kill--; return kill == 0 }
	for {
		for i, r := range h.s.Runs {
			if r.Status != Starting {
				continue
			}
			if h.begun[r.Task] == 0 {
				if late, changed := GiveUp(h.s, i, now); changed {
					h.s = late
					continue
				}
			}
			if step() {
				return errKilled
			}
			if h.begun[r.Task] == 0 { // a task of that ID exists once
				h.begun[r.Task]++
			}
			if step() {
				return errKilled
			}
			h.s.Runs = slices.Clone(h.s.Runs)
			h.s.Runs[i].Status = Running
		}
		active := false
		for _, r := range h.s.Runs {
			active = active || h.begun[r.Task] > 0 && !h.ended[r.Task]
		}
		next, changed := Decide(h.s, now, hourly(h.s.Decided, now), active)
		if !changed {
			return nil
		}
		if step() {
			return errKilled
		}
		h.s = next
	}
}

// runs returns what the record says of each time, such as "02 running".
func (h *host) runs() string {
	var all []string
	for _, r := range h.s.Runs {
		text := r.Due.Format("15 ") + string(r.Status)
		if r.Missed > 0 {
			text += fmt.Sprintf(" -%d", r.Missed)
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

func TestDecide(t *testing.T) {
	t.Parallel()
	catchUp := func(s *State) { s.CatchUp = true }
	for name, tt := range map[string]struct {
		change func(*State)
		clock  []string // times of 26 November at which it is woken
		want   string
	}{
		"on time":                        {nil, []string{"01:00:00", "02:00:01", "02:30:00"}, "01 running, 02 running"},
		"early":                          {nil, []string{"00:59:59"}, ""},
		"woken twice":                    {nil, []string{"01:00:00", "01:00:00", "01:00:01"}, "01 running"},
		"suspended":                      {nil, []string{"01:00:00", "04:10:00", "05:00:00"}, "01 running, 04 missed -2, 05 running"},
		"suspended, with catch-up":       {catchUp, []string{"01:00:00", "04:10:00", "04:20:00", "05:00:00"}, "01 running, 04 running -2, 05 running"},
		"catch-up within a limit":        {func(s *State) { s.CatchUp, s.Within = true, 5*time.Minute }, []string{"01:04:00", "02:06:00"}, "01 running, 02 missed"},
		"on time after a suspend":        {nil, []string{"04:00:10"}, "04 running -3"},
		"the clock is set back":          {nil, []string{"01:00:00", "02:00:00", "00:59:00", "01:00:00", "02:00:00", "03:00:00"}, "01 running, 02 running, 03 running"},
		"the clock is set back a little": {nil, []string{"01:00:00", "00:59:59", "01:00:00"}, "01 running"},
		"the clock was ahead for a day":  {nil, []string{"23:00:00", "01:00:00", "02:00:00"}, "23 running -22, 01 running, 02 running"},
		"paused":                         {func(s *State) { s.Paused = true }, []string{"01:00:00"}, ""},
		"an earlier run has not ended":   {func(s *State) { s.Overlap = Forbid }, []string{"01:00:00", "02:00:00"}, "01 running, 02 skipped"},
		"an earlier run is replaced":     {func(s *State) { s.Overlap = Replace }, []string{"01:00:00", "02:00:00"}, "01 running, 02 running"},
	} {
		h := newHost(tt.change)
		for _, c := range tt.clock {
			if err := h.wake(at("2026-11-26T"+c+"Z"), 0); err != nil {
				t.Fatal(err)
			}
		}
		if got := h.runs(); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// A process that is killed at any step, and started again, loses no run and begins none twice.
func TestAKillAtEachStep(t *testing.T) {
	t.Parallel()
	for kill := 1; ; kill++ {
		h := newHost(func(s *State) { s.CatchUp = true })
		err := h.wake(at("2026-11-26T01:00:00Z"), kill)
		if err == nil {
			if kill < 4 {
				t.Errorf("only %d steps", kill-1)
			}
			return
		}
		// The host was off meanwhile.
		for _, again := range []string{"01:20:00", "01:20:10", "02:00:00"} {
			if err := h.wake(at("2026-11-26T"+again+"Z"), 0); err != nil {
				t.Fatal(err)
			}
		}
		if got := h.runs(); got != "01 running, 02 running" || len(h.begun) != 2 {
			t.Errorf("killed at step %d: %s, begun %v", kill, got, h.begun)
		}
	}
}

func TestWithoutCatchUpAnInterruptedRunIsNotLate(t *testing.T) {
	t.Parallel()
	h := newHost(nil)
	_ = h.wake(at("2026-11-26T01:00:00Z"), 2)
	if err := h.wake(at("2026-11-26T01:30:00Z"), 0); err != nil || h.runs() != "01 missed" || len(h.begun) > 0 {
		t.Errorf("%v, %s", err, h.runs())
	}
}

func TestTaskIDFollowsFromTheTime(t *testing.T) {
	t.Parallel()
	a, b := newHost(nil).s, newHost(nil).s
	due := at("2026-11-26T01:00:00Z")
	if a.TaskID(due) != a.TaskID(due.In(time.FixedZone("x", 3600))) || a.TaskID(due) == a.TaskID(due.Add(time.Second)) || a.TaskID(due) == b.TaskID(due) || len(a.TaskID(due)) != 32 {
		t.Error("the id of a task is not that of its schedule and time")
	}
}

func TestRecordsStaySmall(t *testing.T) {
	t.Parallel()
	h := newHost(nil)
	for i := range 3 * maxRuns {
		if err := h.wake(at("2026-11-26T01:00:00Z").Add(time.Duration(i)*time.Hour), 0); err != nil {
			t.Fatal(err)
		}
		for j := range h.s.Runs {
			if j > 0 { // the first one runs without end
				h.s.Runs[j].Status = Ended
			}
		}
	}
	if n := len(h.s.Runs); n != maxRuns || h.s.Runs[0].Status != Running {
		t.Errorf("%d runs, the first is %s", n, h.s.Runs[0].Status)
	}
}

func TestFold(t *testing.T) {
	t.Parallel()
	s := newHost(nil).s
	due := at("2026-11-26T01:00:00Z")
	s.Runs = []Run{{Due: due, Status: Running, Task: "gone"}, {Due: due, Status: Running, Task: "runs"}, {Due: due, Status: Starting, Task: "none"}}
	find := func(id string) (lifecycle.State, bool) { return lifecycle.State{Task: taskdef.Task{}}, id == "runs" }
	next, changed, active := Fold(s, find)
	if !changed || !active || next.Runs[0].Status != Ended || next.Runs[0].ExitCode != nil || next.Runs[1].Status != Running || next.Runs[2].Status != Starting {
		t.Errorf("%t %t %+v", changed, active, next.Runs)
	}
	if s.Runs[0].Status != Running {
		t.Error("the record before has changed")
	}
	// A command that waited for the end of a task finds it in the history, also if the task has not given back its share yet.
	stopped := lifecycle.State{Goal: lifecycle.Down, History: []lifecycle.Transition{{At: due, Status: lifecycle.StatusStopped.String()}}}
	s.Runs = []Run{{Due: due, Status: Running, Task: "stopped"}}
	next, changed, active = Fold(s, func(string) (lifecycle.State, bool) { return stopped, true })
	if r := next.Runs[0]; !changed || active || r.Status != Ended || r.ExitCode == nil || !r.Ended.Equal(due) {
		t.Errorf("a task that has stopped: %t %t %+v", changed, active, r)
	}
}

// Berlin's clock skips 02:30 on 29 March 2026 and has it twice on 25 October; 29 February is rare.
func TestSystemdCalendar(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	c := SystemdCalendar{Path: "/usr/bin:/bin"}
	for _, tt := range []struct {
		expression, after, until, latest string
		count                            int
	}{
		{"03:00 Europe/Berlin", "2026-03-28T00:00:00Z", "2026-03-29T12:00:00Z", "2026-03-29T01:00:00Z", 2},
		{"03:00 Europe/Berlin", "2026-10-24T00:00:00Z", "2026-10-25T12:00:00Z", "2026-10-25T02:00:00Z", 2},
		{"02:30 Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-25T12:00:00Z", "", 1},
		{"*-02-29 UTC", "2026-01-01T00:00:00Z", "2028-12-31T00:00:00Z", "2028-02-29T00:00:00Z", 1},
		{"*:*:0/5 UTC", "2026-01-01T00:00:00Z", "2026-03-01T00:00:07Z", "2026-03-01T00:00:05Z", 101},
		{"hourly UTC", "2026-01-01T00:00:00Z", "2026-01-01T00:59:59Z", "", 0},
	} {
		got, err := c.Between(t.Context(), []string{tt.expression}, at(tt.after), at(tt.until))
		if err != nil || got.Count != tt.count || tt.latest != "" && !got.Latest.Equal(at(tt.latest)) {
			t.Errorf("%s: %+v, %v", tt.expression, got, err)
		}
	}
	for expression, want := range map[string]string{"25:00": "is not a calendar time", "2020-01-01": "never due", "*:*:0/0.5": "fractions", "": "is not a calendar time", "--help": "is not a calendar time"} {
		if err := c.Check(t.Context(), expression); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", expression, err, want)
		}
	}
}

func TestParseTimes(t *testing.T) {
	t.Parallel()
	const text = `  Original form: daily
Normalized form: *-*-* 00:00:00
    Next elapse: Fri 2026-11-27 00:00:00 CET
       (in UTC): Thu 2026-11-26 23:00:00 UTC
       From now: 3h left
   Iteration #2: Sat 2026-11-28 00:00:00 CET
       (in UTC): Fri 2026-11-27 23:00:00 UTC
`
	times, normalized, err := parseTimes(text)
	if err != nil || normalized != "*-*-* 00:00:00" || len(times) != 2 || !times[1].Equal(at("2026-11-27T23:00:00Z")) {
		t.Errorf("%v %q %v", times, normalized, err)
	}
	if _, _, err := parseTimes("Next elapse: Fri 2026-11-27 00:00:00 CET\n"); err == nil {
		t.Error("a time in another zone is taken for one in UTC")
	}
}
