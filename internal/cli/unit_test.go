package cli

import (
	"testing"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/unitfile/taskunit"
)

// What a unit with every key makes of it is a command line that run takes, up to
// the file that is not there.
func TestRunTakesTheFlagsOfUnits(t *testing.T) {
	t.Parallel()
	const text = `[Task]
Definition=/nowhere/web.json
TaskName=web
GlobalArgs=--log-level=info
PodtaskArgs=--strict
Notify=running
AutoUpdate=registry
Environment=A=1
EnvironmentFile=/dev/null
Secret=db,type=env,target=DB
PublishPort=127.0.0.1:8080:80
Network=bridge
Pull=newer
Limits=best-effort
MemoryMax=512M
CPUQuota=50%
TasksMax=256
StopTimeout=30
`
	services, problems := taskunit.Generate([]taskunit.Source{{Name: "web.task", File: taskunit.Read("/u/web.task", text)}}, taskunit.Options{Program: "podtask"})
	if len(problems) > 0 || len(services) != 1 {
		t.Fatal(problems)
	}
	var argv []string
	for _, a := range taskunit.Read("", services[0].Text).Assignments() {
		if a.Key == "ExecStart" {
			argv = taskunit.Words(a.Value)
		}
	}
	w := newWorld(t)
	if _, stderr, code := w.podtask(argv[1:]...); code != command.ExitOwnFailure || stderr != "Error: read the task definition: open /nowhere/web.json: no such file or directory\n" {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}
