package console

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/podtask/podtask/pkg/api"
)

func boardOf(out *strings.Builder, mode string) (*Board, *PullView) {
	v := NewPullView(mode, out, func(string) string { return "" })
	return NewBoard(v, out, false, time.Unix(100, 0)), v
}

func TestBoardHasALineForEachContainer(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	b, v := boardOf(&out, "bar")
	now := time.Unix(200, 0)
	three, zero := api.ExitCode(3), api.ExitCode(0)
	v.pulls["docker.io/library/web:latest"] = &pull{layers: map[string][2]int64{"a": {23e6, 50e6}}}
	b.task = api.Task{ID: strings.Repeat("a", 32), Name: "shop", Status: "CREATED", Owner: api.Owner{Alive: true}, Containers: []api.Container{
		{Name: "web", Image: "web", Status: "NONE"},
		{Name: "api", Image: "api", Status: "PULLED", WaitingFor: []api.Dependency{{ContainerName: "db", Condition: "HEALTHY"}}},
		{Name: "db", Status: "RUNNING", Health: &api.Health{Status: "UNKNOWN"}, Ports: []api.Port{{HostPort: 5432, ContainerPort: 5432}}},
		{Name: "ok", Status: "RUNNING", Health: &api.Health{Status: "HEALTHY"}},
		{Name: "sick", Status: "RUNNING", Health: &api.Health{Status: "UNHEALTHY", ExitCode: 1, Output: "no\x1b[31m db"}},
		{Name: "migrate", Status: "STOPPED", ExitCode: &zero, StartedAt: now.Add(-2 * time.Second), FinishedAt: now},
		{Name: "broken", Status: "STOPPED", ExitCode: &three},
		{Name: "missing", Status: "STOPPED", Reason: "no such image", Errors: []api.Error{{Message: "x"}}},
		{Name: "never", Status: "STOPPED"},
		{Name: "again", Status: "RUNNING", RestartAt: now.Add(3 * time.Second), ExitCode: &three},
		{Name: "try", Status: "NONE", Retry: &api.Retry{Attempts: 2, Error: "503"}},
		{Name: "next", Status: "NONE"},
	}}
	want := strings.Split(`shop  restarting
  web      pulling 46 % of 50 MB
  api      waits for db (healthy)
  db       running  0.0.0.0:5432->5432, health is being che…
  ok       healthy
  sick     unhealthy: exit code 1 no [31m db
  migrate  done in 2s
  broken   exited (3)
  missing  failed: no such image
  never    not started
  again    exited (3), restarts in 3s
  try      attempt 2 failed: 503
  next     looking up its image`, "\n")
	var got []string
	for _, line := range b.lines(now) {
		got = append(got, line.draw(false, 60))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// What comes after the start is a list of transitions, and the lines of the start stay.
func TestBoardEndsWhenAllContainersHaveBegun(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	b, v := boardOf(&out, "bar")
	task := api.Task{ID: strings.Repeat("a", 32), Name: "shop", Status: "CREATED", Owner: api.Owner{Alive: true}, Containers: []api.Container{{Name: "web", Status: "CREATED"}},
		History: []api.Transition{{Seq: 1, Container: "web", Status: "CREATED"}}}
	b.Show(task)
	if _, done, err := b.write([]byte("a line of output\n")); !done || err != nil {
		t.Errorf("a line above the board: %t, %v", done, err)
	}
	task.Status, task.Containers[0].Status = "RUNNING", "RUNNING"
	task.History = append(task.History, api.Transition{Seq: 2, Container: "web", Status: "RUNNING"})
	b.Show(task)
	if v.board != nil || b.list == nil {
		t.Fatal("the board is still drawn")
	}
	task.History = append(task.History, api.Transition{Seq: 3, Container: "web", Status: "STOPPED"})
	b.Show(task)
	b.End()
	text := out.String()
	if !strings.Contains(text, "web  running") || !strings.Contains(text, "a line of output\n") {
		t.Errorf("drawn: %q", text)
	}
	if after := text[strings.LastIndex(text, "web  running"):]; !strings.Contains(after, "stopped") || strings.Contains(after, "CREATED") {
		t.Errorf("after the board: %q", after)
	}
}

func TestBoardIsAListElsewhere(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	b, _ := boardOf(&out, "plain")
	b.Show(api.Task{ID: "a", Containers: []api.Container{{Name: "web", Status: "CREATED"}}, History: []api.Transition{{Seq: 1, At: time.Unix(101, 0), Container: "web", Status: "CREATED"}}})
	b.End()
	if got := out.String(); got != "    1.0s  web     CREATED\n" {
		t.Errorf("%q", got)
	}
}
