package taskunit_test

import (
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/unitfile/taskunit"
)

func generateOne(name, rest string) ([]taskunit.Service, []taskunit.Problem) {
	return taskunit.Generate([]taskunit.Source{{Name: name, File: taskunit.Read("/u/"+name, "[Task]\nDefinition=/x.json\n"+rest)}}, taskunit.Options{Program: "podtask", Generator: "a test"})
}

func TestTimer(t *testing.T) {
	t.Parallel()
	made, problems := generateOne("web.task", "OnCalendar=Mon..Fri 03:00\nOnCalendar=Sun 05:00\nPersistent=true\n")
	if len(problems) > 0 || len(made) != 2 || made[1].Name != "web-task.timer" || !taskunit.Generated(made[1].Text) {
		t.Fatalf("%v %+v", problems, made)
	}
	for _, want := range []string{"OnCalendar=Mon..Fri 03:00\n", "OnCalendar=Sun 05:00\n", "Persistent=true\n", "SourcePath=/u/web.task\n"} {
		if !strings.Contains(made[1].Text, want) {
			t.Errorf("no %q in\n%s", want, made[1].Text)
		}
	}
	if l := made[1].Links; len(l) != 1 || l[0] != (taskunit.Link{Path: "timers.target.wants/web-task.timer", Target: "../web-task.timer"}) {
		t.Errorf("%+v", l)
	}
	for rest, want := range map[string]string{"Persistent=true\n": "missing", "OnCalendar=daily\nPersistent=maybe\n": "true or false"} {
		if made, problems := generateOne("web.task", rest); len(made) > 0 || len(problems) != 1 || !strings.Contains(problems[0].Message, want) {
			t.Errorf("%q: %+v, %v", rest, made, problems)
		}
	}
	if _, problems := generateOne("web@.task", "OnCalendar=daily\n"); len(problems) != 1 || !strings.Contains(problems[0].Message, "template") {
		t.Errorf("a template: %v", problems)
	}
}
