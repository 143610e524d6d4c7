package watch_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/notice"
	"github.com/podtask/podtask/internal/notice/settings"
	"github.com/podtask/podtask/internal/notice/watch"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/service"
)

// bed is a host with an event log and a server that gets notices.
type bed struct {
	t      *testing.T
	dir    string
	events *record.Events
	store  *watch.Store

	mu   sync.Mutex // guards the fields below
	got  []notice.Message
	down bool
	news chan struct{}
}

func newBed(t *testing.T) *bed {
	t.Helper()
	dir := t.TempDir()
	log, err := state.OpenLog(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	b := &bed{t: t, dir: dir, events: &record.Events{Log: slog.New(slog.DiscardHandler), Store: log}, news: make(chan struct{}, 1000)}
	if b.store, err = watch.Open(dir, state.OS{}); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bed) watcher() *watch.Watcher {
	facts := watch.Facts{
		StackOf:    func(string, string) string { return "" },
		Task:       func(string) (lifecycle.State, bool) { return lifecycle.State{}, false },
		ScheduleOf: func(name, task string) bool { return name == "nightly" && task == "run" },
	}
	return &watch.Watcher{
		Log: b.events.Log, Store: b.store, Events: b.events, About: facts.About, Now: time.Now, Spread: func() float64 { return 0 },
		Rules:   []settings.Rule{{Rule: notice.Rule{Name: "all", On: []notice.Condition{notice.Failed, notice.RolledBack, notice.ScheduleFailed, notice.ScheduleMissed, notice.Unhealthy}}}},
		Failure: func(err error) notice.Failure { return notice.Failure{Text: err.Error()} },
		Send: func(_ context.Context, _ settings.Rule, m notice.Message) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			if b.down {
				return errors.New("no network")
			}
			b.got = append(b.got, m)
			b.news <- struct{}{}
			return nil
		},
	}
}

// fail appends the end of a task.
func (b *bed) fail(ids ...string) {
	b.t.Helper()
	code := 1
	var lines []json.RawMessage
	for _, id := range ids {
		s := lifecycle.State{ID: id, Name: id}
		lines = append(lines, record.EncodeEvent(s, lifecycle.Transition{Seq: 1, At: time.Now(), Status: "STOPPED", ExitCode: &code, Reason: "EssentialContainerExited: x"}))
	}
	if err := b.events.Append(b.t.Context(), lines...); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) titles() (all []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.got {
		all = append(all, m.Title())
	}
	return all
}

func (b *bed) drain(w *watch.Watcher) error {
	b.t.Helper()
	return w.Drain(b.t.Context())
}

func TestEventsAreTold(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	if err := b.drain(b.watcher()); err != nil {
		t.Fatal(err)
	}
	b.fail("web")
	ctx := t.Context()
	for _, err := range []error{
		b.events.Report(ctx, record.Deployment, "shop", "shop/1", lifecycle.Transition{At: time.Now(), Status: "ROLLBACK_IN_PROGRESS", Reason: service.Asked}),
		b.events.Report(ctx, record.Deployment, "shop", "shop/2", lifecycle.Transition{At: time.Now(), Status: "ROLLBACK_IN_PROGRESS", Reason: "tasks failed"}),
		b.events.Report(ctx, record.UnitUpdate, "db", "", lifecycle.Transition{At: time.Now(), Status: "ROLLBACK_SUCCESSFUL"}),
		b.events.Report(ctx, record.ScheduledRun, "nightly", "", lifecycle.Transition{At: time.Now(), Status: record.RunMissed}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := b.drain(b.watcher()); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := fmt.Sprint(b.titles()), "[task web has failed service shop was rolled back task db was rolled back schedule nightly has missed a run]"; got != want {
		t.Errorf("told %s", got)
	}
	if !b.events.Reported(ctx, record.Deployment, "shop", "shop/2", "ROLLBACK_IN_PROGRESS") || b.events.Reported(ctx, record.Deployment, "shop", "shop/3", "ROLLBACK_IN_PROGRESS") {
		t.Error("the log does not know what it has")
	}
	// `podtask events` shows tasks only.
	if err := b.events.Read(ctx, 0, false, func(e record.Event) error {
		if e.Task == "" {
			t.Errorf("an event of no task: %+v", e)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestOutputOfHealthChecksIsNotTold(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	if err := b.drain(b.watcher()); err != nil {
		t.Fatal(err)
	}
	s := lifecycle.State{ID: "1", Name: "web"}
	if err := b.events.Append(t.Context(), record.EncodeEvent(s, lifecycle.Transition{
		Seq: 1, At: time.Now(), Container: "app", Status: "UNHEALTHY", Reason: "3 health checks in a row failed; the last one failed with exit code 1: password is hunter2",
	})); err != nil {
		t.Fatal(err)
	}
	if err := b.drain(b.watcher()); err != nil {
		t.Fatal(err)
	}
	if len(b.got) != 1 || b.got[0].Reason != "3 health checks in a row failed; the last one failed with exit code 1" {
		t.Errorf("told %+v", b.got)
	}
}

// TestKills: wherever the process is killed, the next one tells, with the same ID.
func TestKills(t *testing.T) {
	t.Parallel()
	for place, times := range map[string]int{"saved": 1, "sent": 2} {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			if err := b.drain(b.watcher()); err != nil {
				t.Fatal(err)
			}
			b.fail("web")
			func() {
				defer func() { _ = recover() }()
				w := b.watcher()
				w.Kill = func(at string) {
					if at == place {
						panic("killed")
					}
				}
				_ = b.drain(w)
			}()
			for range 3 {
				if err := b.drain(b.watcher()); err != nil {
					t.Fatal(err)
				}
			}
			if len(b.got) != times {
				t.Fatalf("told %q", b.titles())
			}
			for _, m := range b.got {
				if m.ID != b.got[0].ID {
					t.Errorf("another ID: %s and %s", m.ID, b.got[0].ID)
				}
			}
		})
	}
}

func TestAHostWithoutAgentTellsWhatHasJustHappened(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	old := lifecycle.State{ID: "old", Name: "old"}
	code := 1
	if err := b.events.Append(t.Context(), record.EncodeEvent(old, lifecycle.Transition{Seq: 1, At: time.Now().Add(-time.Hour), Status: "STOPPED", ExitCode: &code})); err != nil {
		t.Fatal(err)
	}
	b.fail("new")
	if err := b.drain(b.watcher()); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(b.titles()); got != "[task new has failed]" {
		t.Errorf("told %s", got)
	}
}

func TestDrainFailsWhileANoticeWaits(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.down = true
	b.fail("web")
	if err := b.drain(b.watcher()); err == nil {
		t.Error("no error, and a notice waits")
	}
}

func TestOneProcessTells(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.watcher().Run(ctx) }()
	waitFor(t, b, func(notice.State) bool { return true })
	b.fail("web")
	<-b.news
	if err := b.drain(b.watcher()); err != nil {
		t.Fatal(err)
	}
	var many []string
	for i := range 500 {
		many = append(many, fmt.Sprintf("storm%d", i))
	}
	b.fail(many...)
	for range 4 { // five in a minute, with the first
		<-b.news
	}
	waitFor(t, b, func(s notice.State) bool { return s.Rules["all"].Held == 496 })
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if len(b.got) != 5 {
		t.Errorf("told %d of 501", len(b.got))
	}
}

// waitFor waits until the record is as wanted.
func waitFor(t *testing.T, b *bed, want func(notice.State) bool) {
	t.Helper()
	for {
		s, found, err := b.store.Get()
		if err != nil {
			t.Fatal(err)
		}
		if found && want(s) {
			return
		}
		select {
		case <-time.After(time.Millisecond):
		case <-t.Context().Done():
			t.Fatal("the record does not become that")
		}
	}
}

func TestAbout(t *testing.T) {
	t.Parallel()
	f := watch.Facts{
		Task: func(id string) (lifecycle.State, bool) { return lifecycle.State{ID: id}, id == "run" }, ScheduleOf: func(name, task string) bool { return name == "nightly" && task == "run" },
		Tags:    func(lifecycle.State) map[string]string { return map[string]string{"team": "ops"} },
		StackOf: func(service, task string) string { return map[string]string{"shop-web": "shop"}[service] },
	}
	if a := f.About(record.Event{Task: "run", Name: "nightly-20260301T030000Z", Family: "job"}); a.Schedule != "nightly" || a.Tags["team"] != "ops" {
		t.Errorf("about %+v", a)
	}
	for _, e := range []record.Event{{Task: "copy", Name: "shop-web-1", Service: "shop-web"}, {Kind: record.Deployment, Name: "shop-web"}} {
		if a := f.About(e); a.Stack != "shop" {
			t.Errorf("about %+v", a)
		}
	}
	if a := f.About(record.Event{Task: "other", Name: "nightly-20260301T030000Z"}); a.Schedule != "" || a.Tags != nil {
		t.Errorf("about %+v", a)
	}
}
