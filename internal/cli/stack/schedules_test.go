package stack

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/engine/decide/stack"
	"github.com/podtask/podtask/internal/engine/run/schedule"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/taskdef"
)

// Everything that is wrong with the schedules of a stack file is told at once, each with its line.
func TestBadSchedulesOfAStackFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "stack.yaml")
	text := []byte(`members:
  both: {image: localhost/x, job: true, at: "Mon 03:00"}
  when: {image: localhost/x, timezone: Europe/Berlin, overlap: allow}
  copies: {image: localhost/x, at: "Mon 03:00", count: 2, listen: "8080=x:80", env: {A: b}}
  good: {image: localhost/x, at: ["Mon 03:00", "0 4 * * *"], after: {copies: healthy}}
`)
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	k := call{options: options{getenv: os.Getenv, serviceSettings: func([]string) (*int, api.ServiceSettings, error) { return nil, api.ServiceSettings{}, nil }}}
	var err error
	if k.c, err = command.ParseWords("stack plan", readingVerbs()[1].Flags, nil); err != nil {
		t.Fatal(err)
	}
	err = k.readStackFile(&wanted{Name: "shop"}, sourceFile{path: file, kind: ofStack, text: text})
	want := []string{
		":2: both: it is a job, which runs once in a change, and has times: leave job or the times out",
		":3: when: timezone=Europe/Berlin is for schedules: write at: 'Mon..Fri 03:00' besides",
		":3: when: overlap=allow is for schedules: write at: 'Mon..Fri 03:00' besides",
		":4: copies: count=2 is for services, and this is a schedule: leave it out",
		":4: copies: listen=8080=x:80 is for services, and this is a schedule: leave it out",
		":5: good waits for copies to be healthy, and that is a schedule, whose tasks run later: wait until it is started",
	}
	if err == nil {
		t.Fatal("it is read")
	}
	if got := strings.Split(strings.ReplaceAll(err.Error(), file, ""), "\n"); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("it says\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Times that never come are told before anything changes, but not of a schedule that has them already.
func TestTimesThatNeverCome(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("there is no systemd-analyze here")
	}
	store, err := schedule.Open(t.TempDir(), state.OS{})
	if err != nil {
		t.Fatal(err)
	}
	k := call{options: options{getenv: os.Getenv, schedules: store}}
	m := &member{Member: stack.Member{Name: "report", Object: "shop-report", Kind: stack.Schedule}, Times: schedule.Times{
		At: []string{"Mon 99:00", "at(2020-01-01T00:00:00)", "Mon 03:00", "61 * * * *"}, Overlap: "sometimes",
	}}
	all := placed("stack.yaml:7", "report", k.checkTimes(t.Context(), m))
	for i, want := range []string{`overlap is forbid, replace or allow, not "sometimes"`, "Mon 99:00", "is never due again", "61"} {
		if len(all) != 4 || !strings.HasPrefix(all[i].Error(), "stack.yaml:7: report: ") || !strings.Contains(all[i].Error(), want) {
			t.Errorf("%q is not in %v", want, errors.Join(all...))
		}
	}
	m.Times = schedule.Times{At: []string{"at(2020-01-01T00:00:00)"}}
	if err := k.checkTimes(t.Context(), m); err == nil {
		t.Error("a time that has passed is good")
	}
	if err := store.Put(schedule.State{
		ID: strings.Repeat("a", 32), Name: "shop-report", Overlap: schedule.Forbid, Calendar: []string{"2020-01-01 00:00:00 UTC"},
		Task: taskdef.Task{Family: "report", Containers: []taskdef.Container{{Name: "a", Image: "localhost/x", Essential: true}}},
	}); err != nil {
		t.Fatal(err)
	}
	if err := k.checkTimes(t.Context(), m); err != nil {
		t.Errorf("a time that has passed since: %v", err)
	}
}
