package top

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/cli/timeline"
	"github.com/podtask/podtask/pkg/api"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.Local)

func id(digit string) string { return strings.Repeat(digit, 32) }

func code(n api.ExitCode) *api.ExitCode { return &n }

// fleet is four tasks: one healthy, one short of memory, one queued and one that failed.
func fleet() []Task {
	owner := api.Owner{PID: 7, Alive: true}
	return []Task{
		{
			Task: api.Task{
				ID: id("a"), Name: "web", Family: "web", Status: "RUNNING", Health: "HEALTHY", Owner: owner, CPU: 0.5, CreatedAt: noon.Add(-3 * time.Minute),
				Why:        []api.Reason{{Code: "running", Text: "all 2 containers are up"}},
				Containers: []api.Container{{Name: "app", Status: "RUNNING", Essential: true, Health: &api.Health{Status: "HEALTHY"}}, {Name: "db", Status: "RUNNING", Essential: true}},
			},
			Use:          &Use{CPUPercent: 12.4, Memory: 64 << 20, MemoryLimit: 512 << 20},
			ContainerUse: map[string]Use{"app": {CPUPercent: 10, Memory: 40 << 20, MemoryLimit: 256 << 20}, "db": {CPUPercent: 2.4, Memory: 24 << 20}},
		},
		{
			Task: api.Task{
				ID: id("b"), Name: "a-worker-with-a-rather-long-name", Family: "worker", Status: "RUNNING", Health: "UNHEALTHY", Owner: owner, CreatedAt: noon.Add(-49 * time.Hour),
				Why:        []api.Reason{{Code: "unhealthy", Text: "its health check fails"}},
				Containers: []api.Container{{Name: "worker", Status: "RUNNING", Essential: true}},
			},
			Use: &Use{CPUPercent: 180, Memory: 500 << 20, MemoryLimit: 512 << 20},
		},
		{Task: api.Task{
			ID: id("c"), Family: "batch", Status: "NONE", Health: "UNKNOWN", Queue: "memory", Owner: owner, CreatedAt: noon.Add(-5 * time.Second),
			Why:        []api.Reason{{Code: "queued", Text: "it waits for 2 GiB (1 of 8 GiB free), used by web and worker"}},
			Containers: []api.Container{{Name: "job", Status: "NONE", Essential: true}},
		}},
		{Task: api.Task{
			ID: id("d"), Name: "migrate", Family: "migrate", Status: "STOPPED", Health: "UNKNOWN", Settled: true, ExitCode: code(3), CreatedAt: noon.Add(-time.Hour),
			Why:        []api.Reason{{Code: "ended", Text: "migrate exited with code 3"}},
			Containers: []api.Container{{Name: "migrate", Status: "STOPPED", ExitCode: code(3), Essential: true}},
		}},
	}
}

// starting is a task whose app waits for a database.
func starting() Detail {
	at := func(s int) time.Time { return noon.Add(time.Duration(s-20) * time.Second) }
	t := api.Task{
		ID: id("a"), Name: "web", Family: "web", Status: "CREATED", Health: "UNKNOWN",
		Containers: []api.Container{
			{Name: "app", Status: "CREATED", WaitingFor: []api.Dependency{{ContainerName: "db", Condition: "HEALTHY"}}},
			{Name: "db", Status: "RUNNING", Health: &api.Health{Status: "UNKNOWN"}, RestartCount: 2},
			{Name: "init", Status: "STOPPED", ExitCode: code(1)},
		},
		History: []api.Transition{
			{At: at(4), Container: "db", Status: "PULLED"},
			{At: at(5), Container: "~infra", Status: "RESOURCES_PROVISIONED"},
			{At: at(9), Container: "init", Status: "STOPPED", ExitCode: code(1), Reason: "the migration\x1b[31m failed"},
		},
	}
	lane := func(name string, c ...timeline.Change) timeline.Lane {
		return timeline.LaneOf(name, "resolve", "STOPPED", at(0), noon, c)
	}
	return Detail{
		Task: t, Why: "web (aaaaaaaaaaaa) is starting: app waits for db to be healthy; db is up, but its health check has not passed yet; the last one failed with exit code 1: refused (12s so far). podtask checks again in 3s.",
		Chart: timeline.Chart{Title: "web", From: at(0), To: noon, Lanes: []timeline.Lane{
			lane("(task)", timeline.Change{State: "wait", At: at(6)}),
			lane("app", timeline.Change{State: "create", At: at(4)}, timeline.Change{State: "wait", At: at(6)}),
			lane("db", timeline.Change{State: "create", At: at(4)}, timeline.Change{State: "run", At: at(8)}),
		}},
	}
}

// host is a Source and Actions that remember what was asked for.
type host struct {
	stopped, restarted, shells []string
	continued, rolledBack      []string
	lines                      []Line
	err                        error
}

func (h *host) Tasks(context.Context) ([]Task, error)           { return fleet(), h.err }
func (h *host) Services(context.Context) ([]api.Service, error) { return shifting(), h.err }
func (h *host) Beside(context.Context) (console.Beside, error)  { return console.Beside{}, h.err }
func (h *host) Explain(context.Context, string) (Detail, error) { return starting(), h.err }
func (h *host) Continue(_ context.Context, name string) error {
	h.continued = append(h.continued, name)
	return h.err
}

func (h *host) Rollback(_ context.Context, name string) error {
	h.rolledBack = append(h.rolledBack, name)
	return h.err
}

func (h *host) Stop(_ context.Context, id string) error {
	h.stopped = append(h.stopped, id)
	return h.err
}
func (h *host) Restart(_ context.Context, id string) error {
	h.restarted = append(h.restarted, id)
	return h.err
}
func (h *host) Shell(_ context.Context, id, c string) (*exec.Cmd, error) {
	h.shells = append(h.shells, c)
	return exec.Command("true"), nil
}

func (h *host) Follow(ctx context.Context, _ string, fn func(Line) error) error {
	for _, l := range h.lines {
		if err := fn(l); err != nil {
			return err
		}
	}
	return nil
}

// screen is a model with the fleet.
type screen struct {
	*Model
	*host
	t *testing.T
}

func newScreen(t *testing.T, colors console.Colors) screen {
	t.Helper()
	h := &host{}
	s := screen{New(t.Context(), h, h, Options{Colors: colors, Pace: time.Hour, Now: func() time.Time { return noon }}), h, t}
	s.Update(sampleMsg{at: noon, tasks: fleet(), services: shifting()})
	return s
}

// press presses keys, and returns the command of the last.
func (s screen) press(keys ...string) (cmd tea.Cmd) {
	named := map[string]rune{"enter": tea.KeyEnter, "esc": tea.KeyEscape, "up": tea.KeyUp, "down": tea.KeyDown, "tab": tea.KeyTab, "backspace": tea.KeyBackspace, "pgup": tea.KeyPgUp, "pgdown": tea.KeyPgDown, "end": tea.KeyEnd}
	for _, k := range keys {
		msg := tea.KeyPressMsg{Code: named[k]}
		if named[k] == 0 {
			msg = tea.KeyPressMsg{Code: []rune(k)[0], Text: k}
		}
		_, cmd = s.Update(msg)
	}
	return cmd
}

// golden compares the screen with a file; UPDATE_GOLDEN=1 writes it. Every screen has as many
// lines as there are rows, none wider.
func (s screen) golden(name string) {
	s.t.Helper()
	got := s.text()
	lines := strings.Split(got, "\n")
	if len(lines) != s.height {
		s.t.Errorf("%s: %d lines, want %d", name, len(lines), s.height)
	}
	for _, l := range lines {
		if letters(l) > s.width && !s.options.Colors {
			s.t.Errorf("%s: a line of %d letters: %q", name, letters(l), l)
		}
	}
	file := filepath.Join("testdata", name+".txt")
	got = strings.ReplaceAll(got, "\x1b", "^") + "\n"
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			s.t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		s.t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		s.t.Errorf("%s (UPDATE_GOLDEN=1 writes it): %s", name, diff)
	}
}

func TestListOnAScreenOf80x24(t *testing.T) {
	t.Parallel()
	s := newScreen(t, false)
	s.golden("list")
	s.press("a", "end")
	s.golden("list-all")
	newScreen(t, true).golden("list-color")
	s.Update(tea.WindowSizeMsg{Width: 44, Height: 8})
	s.golden("list-small")
	s.Update(sampleMsg{at: noon})
	s.golden("list-empty")
}

func TestPageOnAScreenOf80x24(t *testing.T) {
	t.Parallel()
	s := newScreen(t, false)
	s.press("enter")
	s.Update(detailMsg{id: id("a"), detail: starting()})
	s.golden("page")
	s.press("3")
	s.golden("events")
	s.press("1", "down", "down", "down", "x")
	s.golden("page-no-shell")
	s.Update(tea.WindowSizeMsg{Width: 60, Height: 14})
	s.press("pgdown")
	s.golden("page-small")
}

func TestFilterNarrowsTheListWhileItIsTyped(t *testing.T) {
	t.Parallel()
	s := newScreen(t, false)
	s.press("/", "w", "o", "x", "backspace", "r")
	s.golden("filter")
	if s.list.selected != id("b") {
		t.Errorf("selected %s", s.list.selected)
	}
	s.press("enter", "q")
	s.press("esc")
	if len(s.list.visible()) != 3 {
		t.Error("esc does not clear the filter")
	}
	s.press("/", "n", "o", "n", "e", "x")
	s.golden("filter-none")
	// Two escapes at once come as Alt and Escape.
	s.Update(tea.KeyPressMsg{Code: tea.KeyEscape, Mod: tea.ModAlt})
	if s.list.filter.typing || s.list.filter.text != "" {
		t.Error("Alt and Escape change the filter")
	}
	if cmd := s.press("/", "z", "enter", "enter", "s"); cmd != nil || s.question != nil {
		t.Error("something can be done to no task")
	}
}

func TestAnActionAsksFirst(t *testing.T) {
	t.Parallel()
	s := newScreen(t, false)
	if s.press("s", "n") != nil || len(s.stopped) > 0 {
		t.Fatal("stopped without a yes")
	}
	s.press("s")
	s.golden("question")
	cmd := s.press("y")
	if s.notice.text != "stop web ..." {
		t.Errorf("%+v", s.notice)
	}
	s.Update(cmd())
	if diff := cmp.Diff([]string{id("a")}, s.stopped); diff != "" || s.notice.text != "stop web: done" {
		t.Error(diff, s.notice)
	}
	s.err = errors.New("the copies of a service\nare restarted by it")
	s.press("down")
	s.Update(s.press("r", "y")())
	if s.restarted[0] != id("b") || !strings.Contains(s.text(), "error: the copies of a service are restarted by it") {
		t.Errorf("%v %s", s.restarted, s.text())
	}
}

func TestShellRunsInTheContainerThatIsSelected(t *testing.T) {
	t.Parallel()
	s := newScreen(t, false)
	s.press("x")
	s.press("enter")
	s.Update(detailMsg{id: id("a"), detail: starting()})
	s.press("x") // app does not run yet
	s.press("down", "x")
	if diff := cmp.Diff([]string{"app", "db"}, s.shells); diff != "" {
		t.Error(diff)
	}
	s.press("esc", "down", "down", "x")
	if len(s.shells) != 2 || !s.notice.bad {
		t.Errorf("a shell in a queued task: %v", s.shells)
	}
}

func TestLogsFollowUntilTheUserScrollsUp(t *testing.T) {
	t.Parallel()
	s := newScreen(t, false)
	for _, text := range []string{"listening", "GET / \x1b[2J200"} {
		s.lines = append(s.lines, Line{"app", text})
	}
	s.press("enter")
	s.Update(detailMsg{id: id("a"), detail: starting()})
	s.press("l")
	s.golden("logs-empty")
	more := make(chan Line, 100)
	s.page.logs.cancel()
	s.page.logs.more = more
	for _, l := range s.lines {
		more <- l
	}
	_, again := s.Update(next(more)())
	s.golden("logs")
	if again == nil {
		t.Fatal("nothing reads further lines")
	}
	for range 60 {
		more <- Line{"db", "checkpoint"}
	}
	more <- Line{"db", strings.Repeat("wide ", 40)}
	s.Update(again())
	s.press("pgup")
	before := s.text()
	more <- Line{"db", "later"}
	close(more)
	s.Update(next(more)())
	if s.text() != before {
		t.Error("the view moves although it is held")
	}
	if _, cmd := s.Update(next(more)()); cmd != nil {
		t.Error("an ended stream is read on")
	}
	s.press("f")
	if text := s.text(); !strings.Contains(text, "| later") || !strings.Contains(text, "(the logs end here)") {
		t.Error(text)
	}
}

func TestLeavingATaskEndsItsLogs(t *testing.T) {
	t.Parallel()
	s := newScreen(t, false)
	s.press("l")
	stream, follow := s.commands.follow(id("a"))
	s.page.logs = stream
	s.lines = make([]Line, 1000)
	ended := make(chan tea.Msg)
	go func() { ended <- follow() }()
	s.press("esc")
	if msg := <-ended; msg != nil {
		t.Errorf("leaving is an error: %v", msg)
	}
	if _, cmd := s.Update(logMsg{more: stream.more}); cmd != nil || s.page != nil {
		t.Error("lines of a task that was left are read on")
	}
}

func TestATaskThatIsGoneStaysOnTheScreen(t *testing.T) {
	t.Parallel()
	s := newScreen(t, false)
	s.press("enter")
	s.Update(detailMsg{id: id("a"), detail: starting()})
	if s.explain() == nil || s.explain() != nil {
		t.Error("an answer that is on its way is asked for again, or none is asked for")
	}
	s.Update(detailMsg{id: id("a"), err: errors.New("no such task")})
	if text := s.text(); !strings.Contains(text, "app waits for db") || !strings.Contains(text, "error: no such task") {
		t.Error(text)
	}
}

func TestSelectionStaysWithItsTask(t *testing.T) {
	t.Parallel()
	s := newScreen(t, false)
	s.press("down")
	s.Update(sampleMsg{at: noon, tasks: append([]Task{{Task: api.Task{ID: id("e")}}}, fleet()...)})
	if s.list.selected != id("b") {
		t.Error("another task is selected when one comes")
	}
	s.Update(sampleMsg{at: noon, tasks: fleet()[2:]})
	if s.list.selected != id("c") {
		t.Error("no task is selected when the selected one has gone")
	}
}

func TestOneSampleFollowsTheOther(t *testing.T) {
	t.Parallel()
	s := newScreen(t, false)
	if _, cmd := s.Update(s.sample(false)()); cmd != nil {
		t.Error("a sample out of turn starts a second clock")
	}
	if _, cmd := s.Update(s.sample(true)()); cmd == nil {
		t.Error("the clock stands still")
	}
}

func FuzzTextFitsTheScreen(f *testing.F) {
	f.Add("web", "it waits", uint8(80), uint8(24))
	f.Fuzz(func(t *testing.T, name, why string, width, height uint8) {
		h := &host{}
		m := New(t.Context(), h, h, Options{Now: func() time.Time { return noon }})
		m.Update(tea.WindowSizeMsg{Width: int(width), Height: int(height)})
		task := fleet()[0]
		task.Name = name
		task.Why[0].Text = why
		m.Update(sampleMsg{at: noon, tasks: []Task{task}})
		d := starting()
		d.Why = why
		for range 2 {
			if lines := strings.Split(m.text(), "\n"); len(lines) != m.height && !strings.Contains(name, "\n") {
				t.Errorf("%d lines on a screen of %d", len(lines), m.height)
			}
			m.Update(tea.KeyPressMsg{Code: tea.KeyEnter})
			m.Update(detailMsg{id: task.ID, detail: d})
		}
	})
}

// hosts is a source of several hosts.
type hosts struct{ Source }

func (hosts) Hosts() []HostState {
	return []HostState{{Name: "box"}, {Name: "down\x1b[2J", Why: "ssh cannot\x1b[31m connect"}}
}

// TestSeveralHosts: the list has a column of hosts, and a line for each that is down; the filter finds hosts.
func TestSeveralHosts(t *testing.T) {
	t.Parallel()
	l := list{hosts: hosts{}.Hosts()}
	l.tasks = fleet()[:2]
	l.tasks[0].Host, l.tasks[1].Host = "box", "other"
	shown := l.draw(canvas{width: 100, height: 12, now: noon}, "")
	lines := strings.Split(shown, "\n")
	if len(lines) != 12 || !strings.Contains(lines[0], "podtask top of 2 hosts: 2 tasks, 2 running") || strings.Contains(shown, "\x1b") {
		t.Errorf("%d lines: %q", len(lines), shown)
	}
	if !strings.HasPrefix(lines[1], "  down") || !strings.Contains(lines[1], ": ssh cannot") || !strings.HasPrefix(lines[3], "  HOST           NAME") || !strings.HasPrefix(lines[4], "> box            web") {
		t.Errorf("the list is\n%s", shown)
	}
	l.filter.text = "other"
	if got := l.visible(); len(got) != 1 || got[0].Host != "other" {
		t.Errorf("the filter shows %v", got)
	}
}

// TestWhatIsKnownIsShownBesideAnError: a damaged record does not hide the other schedules and stacks.
func TestWhatIsKnownIsShownBesideAnError(t *testing.T) {
	t.Parallel()
	s := newScreen(t, false)
	s.press("tab", "tab")
	s.Update(sampleMsg{at: noon, tasks: fleet(), beside: console.Beside{Schedules: []console.Schedule{{Name: "nightly"}}}, besideUnseen: errors.New("schedule record 6e69: it is damaged")})
	for _, want := range []string{"nightly", "6e69"} {
		if !strings.Contains(s.text(), want) {
			t.Errorf("no %q in\n%s", want, s.text())
		}
	}
	s.Update(sampleMsg{at: noon, tasks: fleet(), besideUnseen: errors.New("the host does not answer")})
	if !strings.Contains(s.text(), "nightly") {
		t.Errorf("what was known is gone:\n%s", s.text())
	}
}
