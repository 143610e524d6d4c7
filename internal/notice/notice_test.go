package notice_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/notice"
	"pgregory.net/rapid"
)

var start = time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC)

var all = []notice.Rule{{Name: "all", On: []notice.Condition{
	notice.Failed, notice.Unhealthy, notice.RolledBack, notice.CrashLoop, notice.ScheduleMissed, notice.ScheduleFailed, notice.Certificate, notice.Disk, notice.PodmanAway,
}}}

// world feeds a state with events and delivers what is due.
type world struct {
	rules []notice.Rule
	state notice.State
	now   time.Time
	seq   uint64
	got   []notice.Message
	down  bool // nothing can be delivered
}

func newWorld(rules []notice.Rule) *world { return &world{rules: rules, now: start} }

func (w *world) event(a notice.About, status, reason string, code ...int) {
	w.seq++
	e := notice.Event{Seq: w.seq, At: w.now, About: a, Status: status, Reason: reason}
	if len(code) > 0 {
		e.ExitCode = &code[0]
	}
	w.state = notice.Step(w.rules, w.state, w.now, []notice.Event{e})
	w.deliver()
}

func (w *world) deliver() {
	for _, m := range notice.Due(w.state, w.now) {
		if w.down {
			w.state = notice.NotDelivered(w.state, m.ID, w.now, notice.Failure{Text: "no network"}, 0)
			continue
		}
		w.got = append(w.got, m)
		w.state = notice.Delivered(w.state, m.ID, w.now)
	}
	if !w.down && len(notice.Due(w.state, w.now)) > 0 {
		w.deliver()
	}
}

// pass lets time pass, and does what becomes due meanwhile.
func (w *world) pass(d time.Duration) {
	end := w.now.Add(d)
	for {
		next := notice.Next(w.state)
		if next.IsZero() || next.After(end) {
			break
		}
		if next.After(w.now) {
			w.now = next
		}
		before := w.state
		w.state = notice.Step(w.rules, w.state, w.now, nil)
		w.deliver()
		if again := notice.Next(w.state); !again.IsZero() && !again.After(w.now) && fmt.Sprint(before) == fmt.Sprint(w.state) {
			panic(fmt.Sprintf("at %v it asks to be called again at once, and does nothing", w.now))
		}
	}
	w.now = end
	w.state = notice.Step(w.rules, w.state, w.now, nil)
	w.deliver()
}

func (w *world) titles() (all []string) {
	for _, m := range w.got {
		all = append(all, m.Title())
	}
	return all
}

func (w *world) want(t *testing.T, titles ...string) {
	t.Helper()
	if got := w.titles(); !slices.Equal(got, titles) {
		t.Errorf("told: %q\nwant: %q", got, titles)
	}
}

func task(name, id string) notice.About {
	return notice.About{Kind: notice.Task, Name: name, Task: id, Family: "app"}
}

func TestAFailureIsToldOnceAndWhenItIsWell(t *testing.T) {
	t.Parallel()
	w := newWorld(all)
	for i := range 3 { // a unit that systemd starts again
		id := fmt.Sprint(i)
		w.event(task("web", id), "RUNNING", "")
		w.pass(10 * time.Second)
		w.event(task("web", id), "STOPPED", "EssentialContainerExited: container app exited", 1)
		w.pass(10 * time.Second)
	}
	w.want(t, "task web has failed")
	w.event(task("web", "3"), "RUNNING", "")
	w.pass(30 * time.Second)
	w.want(t, "task web has failed")
	w.pass(time.Minute)
	w.want(t, "task web has failed", "task web runs again")
	w.event(task("web", "3"), "STOPPED", "EssentialContainerExited: container app exited", 1)
	w.want(t, "task web has failed", "task web runs again", "task web has failed")
}

func TestWhatAUserStopsIsNoFailure(t *testing.T) {
	t.Parallel()
	w := newWorld(all)
	w.event(task("web", "1"), "STOPPED", "UserInitiated: stopped by podtask stop", 143)
	w.event(task("job", "2"), "STOPPED", "EssentialContainerExited: container app exited", 0)
	w.pass(time.Hour)
	w.want(t)
}

func TestTasksWithoutANameAreToldEach(t *testing.T) {
	t.Parallel()
	w := newWorld(all)
	for i := range 2 {
		w.event(task("", fmt.Sprint(i)), "STOPPED", "EssentialContainerExited: x", 1)
	}
	w.pass(time.Hour)
	w.want(t, "task app has failed", "task app has failed")
	if len(w.state.Open) > 0 {
		t.Errorf("the state remembers %v", w.state.Open)
	}
}

func TestAFailureHoursLaterIsToldAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(all)
	for range 2 {
		w.event(task("backup", "1"), "STOPPED", "EssentialContainerExited: x", 1)
		w.pass(24 * time.Hour)
	}
	w.want(t, "task backup has failed", "task backup has failed")
}

func TestHealthOfCopies(t *testing.T) {
	t.Parallel()
	w := newWorld(all)
	one := notice.About{Kind: notice.Task, Name: "web-1", Task: "1", Service: "web", Container: "app"}
	two := one
	two.Name, two.Task = "web-2", "2"
	w.event(one, "UNHEALTHY", "3 health checks in a row failed")
	w.event(two, "HEALTHY", "")
	w.pass(time.Hour)
	w.want(t, "container app of service web is unhealthy")
	gone := one
	gone.Container = ""
	w.event(gone, "STOPPED", "UserInitiated: replaced", 0)
	w.event(two, "HEALTHY", "")
	w.pass(time.Hour)
	w.want(t, "container app of service web is unhealthy", "container app of service web is healthy again")
}

func TestCrashLoop(t *testing.T) {
	t.Parallel()
	w := newWorld([]notice.Rule{{Name: "loops", On: []notice.Condition{notice.CrashLoop}}})
	a := task("web", "1")
	a.Container = "app"
	for range 4 {
		w.event(a, "RESTARTING", "restart", 1)
		w.pass(20 * time.Second)
	}
	w.pass(20 * time.Minute)
	w.want(t)
	for range 20 {
		w.event(a, "RESTARTING", "restart", 1)
		w.pass(20 * time.Second)
	}
	w.want(t, "container app of task web fails again and again")
	w.pass(time.Hour)
	w.want(t, "container app of task web fails again and again", "container app of task web has not failed for 10 minutes")
}

func TestDeploymentsAndSchedules(t *testing.T) {
	t.Parallel()
	w := newWorld(all)
	service := notice.About{Kind: notice.Service, Name: "web", Service: "web", Family: "web/2"}
	for _, status := range []string{"IN_PROGRESS", "ROLLBACK_IN_PROGRESS", "ROLLBACK_SUCCESSFUL", "ROLLBACK_SUCCESSFUL", "IN_PROGRESS", "SUCCESSFUL"} {
		w.event(service, status, "unhealthy")
		w.pass(time.Second)
	}
	nightly := notice.About{Kind: notice.Schedule, Name: "nightly", Schedule: "nightly"}
	w.event(nightly, "MISSED", "the host was off")
	run := notice.About{Kind: notice.Task, Name: "nightly-20260301T030000Z", Task: "7", Schedule: "nightly"}
	w.event(run, "STOPPED", "EssentialContainerExited: x", 0)
	w.pass(2 * time.Minute)
	w.event(run, "STOPPED", "EssentialContainerExited: x", 3)
	w.want(t, "service web was rolled back", "service web has been updated", "schedule nightly has missed a run", "schedule nightly runs again",
		"schedule nightly has failed", "schedule nightly has failed")
}

func TestConditionsThatAreLookedAt(t *testing.T) {
	t.Parallel()
	w := newWorld(all)
	look := func(bad map[string]string) {
		w.state = notice.Observe(w.rules, w.state, w.now, []notice.Look{{Condition: notice.Disk, Bad: bad}})
		w.deliver()
		w.pass(25 * time.Second)
	}
	full := map[string]string{"the disk of images": "1 MiB of /x are free"}
	for range 10 {
		look(full)
	}
	look(nil)
	look(full)
	look(nil)
	look(nil)
	look(nil)
	w.want(t, "the disk of images is almost full", "the disk of images has space again")
}

func TestAStormMakesFewMessages(t *testing.T) {
	t.Parallel()
	w := newWorld(all[:1])
	for i := range 500 {
		w.event(task(fmt.Sprintf("t%d", i), fmt.Sprint(i)), "STOPPED", "EssentialContainerExited: x", 1)
		w.pass(time.Minute / 500)
	}
	w.pass(time.Hour)
	told := 0
	for _, m := range w.got {
		told += m.Count
	}
	if len(w.got) > 8 || told != 500 {
		t.Errorf("500 failures in a minute make %d messages for %d", len(w.got), told)
	}
	w.event(task("late", "late"), "STOPPED", "EssentialContainerExited: x", 1)
	w.pass(15 * time.Minute)
	if last := w.got[len(w.got)-1]; last.Count != 1 || last.About.Name != "late" {
		t.Errorf("after the storm the message is %q", last.Title())
	}
}

func TestAnOutageOfTheNetwork(t *testing.T) {
	t.Parallel()
	w := newWorld(all)
	w.down = true
	for i := range 300 {
		w.event(task(fmt.Sprintf("t%d", i), fmt.Sprint(i)), "STOPPED", "EssentialContainerExited: x", 1)
		w.pass(time.Minute)
	}
	if n := len(w.state.Outbox); n > 20 {
		t.Errorf("%d messages wait", n)
	}
	w.down = false
	w.pass(time.Hour)
	told := 0
	for _, m := range w.got {
		told += m.Count
	}
	if told != 300 || len(w.got) > 22 {
		t.Errorf("after the outage %d messages tell of %d failures", len(w.got), told)
	}
}

// TestAClockThatIsSet: a clock that is set back by a day, or forward by years as on a host whose clock has no battery, keeps no message back
// and has none given up.
func TestAClockThatIsSet(t *testing.T) {
	t.Parallel()
	for _, jump := range []time.Duration{-24 * time.Hour, 24 * time.Hour, 20 * 365 * 24 * time.Hour, -20 * 365 * 24 * time.Hour} {
		w := newWorld(all)
		w.down = true
		w.event(task("web", "1"), "STOPPED", "EssentialContainerExited: x", 1)
		w.pass(time.Hour)
		w.now = w.now.Add(jump)
		w.pass(time.Minute)
		w.down = false
		w.pass(30 * time.Minute)
		w.want(t, "task web has failed")
		if jump.Abs() > 24*time.Hour {
			continue // what is older than a month is forgotten
		}
		w.event(task("web", "2"), "RUNNING", "")
		w.now = w.now.Add(jump)
		w.pass(2 * time.Minute)
		w.pass(2 * time.Minute)
		w.want(t, "task web has failed", "task web runs again")
	}
}

func TestRefusedMessagesAreGivenUp(t *testing.T) {
	t.Parallel()
	w := newWorld(all)
	w.down = true
	w.event(task("web", "1"), "STOPPED", "EssentialContainerExited: x", 1)
	for range 20 {
		w.now = w.now.Add(time.Hour)
		for _, m := range notice.Due(w.state, w.now) {
			w.state = notice.NotDelivered(w.state, m.ID, w.now, notice.Failure{Text: "404", Refused: true}, 1)
		}
	}
	if len(w.state.Outbox) > 0 || len(w.state.Log) != 1 || !strings.Contains(w.state.Log[0].Error, "after 5 attempts: 404") {
		t.Errorf("outbox %v, log %+v", w.state.Outbox, w.state.Log)
	}
}

func TestRulesThatAreGone(t *testing.T) {
	t.Parallel()
	w := newWorld(all)
	w.down = true
	for i := range 30 {
		w.event(task(fmt.Sprintf("t%d", i), fmt.Sprint(i)), "STOPPED", "EssentialContainerExited: x", 1)
	}
	w.rules = nil
	w.pass(time.Hour)
	if len(w.state.Outbox) > 0 || len(w.state.Rules) > 0 {
		t.Errorf("the state keeps %d messages of a rule that is gone", len(w.state.Outbox))
	}
}

// TestAnyHistory: whatever happens, and wherever a process is killed, each first failure is in a message, no message
// comes twice but with its ID, and all are delivered in the end.
func TestAnyHistory(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var log []notice.Event
		saved, now := notice.State{}, start
		byID, bad := map[string]string{}, map[uint64]bool{}
		told := map[string]int{} // how many notices each message stands for
		running, calm := saved, false
		round := func(down bool) {
			running = notice.Step(all, running, now, log[running.Cursor:])
			saved = notice.State{}
			if encoded, err := json.Marshal(running); err != nil {
				t.Fatal(err)
			} else if err := json.Unmarshal(encoded, &saved); err != nil {
				t.Fatal(err)
			}
			for _, m := range notice.Due(running, now) {
				if down {
					running = notice.NotDelivered(running, m.ID, now, notice.Failure{Text: "x"}, rapid.Float64Range(0, 1).Draw(t, "spread"))
					continue
				}
				if before, again := byID[m.ID]; again && before != m.Title() {
					t.Fatalf("ID %s is of %q and of %q", m.ID, before, m.Title())
				}
				byID[m.ID], told[m.ID] = m.Title(), m.Count
				if !calm && rapid.Bool().Draw(t, "killed after it was sent") {
					running = saved
					return
				}
				running = notice.Delivered(running, m.ID, now)
			}
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 120).Draw(t, "seconds")) * time.Second)
			for range rapid.IntRange(0, 8).Draw(t, "events") {
				code, id := rapid.IntRange(0, 1).Draw(t, "code"), fmt.Sprint(len(log))
				name := rapid.SampledFrom([]string{"a", "b", "", "", ""}).Draw(t, "name")
				status := rapid.SampledFrom([]string{"STOPPED", "STOPPED", "RUNNING"}).Draw(t, "status")
				e := notice.Event{Seq: uint64(len(log) + 1), At: now, About: task(name, id), Status: status, Reason: "EssentialContainerExited: x"}
				if status == "STOPPED" {
					e.ExitCode = &code
				}
				log = append(log, e)
				if name == "" && status == "STOPPED" && code != 0 {
					bad[e.Seq] = true
				}
			}
			if rapid.IntRange(0, 5).Draw(t, "kill") == 0 {
				running = saved
			}
			round(rapid.IntRange(0, 3).Draw(t, "down") == 0)
		}
		calm = true
		for range 100 {
			now = now.Add(20 * time.Minute)
			round(false)
		}
		if len(running.Outbox) > 0 {
			t.Fatalf("%d messages are still there", len(running.Outbox))
		}
		sum := 0
		for _, n := range told {
			sum += n
		}
		if sum < len(bad) {
			t.Fatalf("%d failures of tasks without a name, and messages tell of %d", len(bad), sum)
		}
	})
}

func TestRulesMatch(t *testing.T) {
	t.Parallel()
	a := notice.About{Kind: notice.Task, Name: "web-1", Task: "1", Family: "app", Service: "web", Tags: map[string]string{"team": "ops"}}
	on := []notice.Condition{notice.Failed}
	for name, tt := range map[string]struct {
		rule notice.Rule
		want bool
	}{
		"everything":       {notice.Rule{On: on}, true},
		"other condition":  {notice.Rule{On: []notice.Condition{notice.Disk}}, false},
		"service":          {notice.Rule{On: on, Services: []string{"db", "w*"}}, true},
		"other service":    {notice.Rule{On: on, Services: []string{"db"}}, false},
		"schedule of none": {notice.Rule{On: on, Schedules: []string{"*"}}, false},
		"tag":              {notice.Rule{On: on, Tags: []string{"team=ops"}}, true},
		"tag of any value": {notice.Rule{On: on, Tags: []string{"team"}}, true},
		"other tag":        {notice.Rule{On: on, Tags: []string{"team=dev"}}, false},
		"both must match":  {notice.Rule{On: on, Services: []string{"web"}, Tasks: []string{"x"}}, false},
	} {
		if got := tt.rule.Matches(notice.Failed, a); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestTextIsSafe(t *testing.T) {
	t.Parallel()
	m := notice.Message{Condition: notice.Failed, Count: 1, About: task("web", "1"), Reason: "a\r\nBcc: x\x1b[2J\u009b\u202e\u2028" + strings.Repeat("é", 400)}
	text := m.Text("host")
	if strings.ContainsAny(text, "\r\x1b\u009b\u202e\u2028") || len(text) > 800 || !strings.HasPrefix(text, "task web has failed\na Bcc: x [2J") {
		t.Errorf("text is %q", text)
	}
}
