package taskunit_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/unitfile/taskunit"
)

const reachable = "PublishPort=127.0.0.1:18080:80\n"

// The socket starts the forwarder, which needs the service of the task; without the forwarder nothing needs it.
func TestSocket(t *testing.T) {
	t.Parallel()
	made, problems := generateOne("web.task", reachable+"PublishPort=9000:90\nListenStream=8080\nListenStream=%t/web.sock\nSleepAfter=1h 30min\n")
	if len(problems) > 0 || len(made) != 3 {
		t.Fatalf("%v %+v", problems, made)
	}
	for i, want := range []struct {
		name  string
		lines []string
	}{
		{"web-task.service", []string{"StopWhenUnneeded=yes"}},
		{"web-task.socket", []string{"ListenStream=8080", "ListenStream=%t/web.sock", "Service=web-task-proxy.service", "FlushPending=yes", "SourcePath=/u/web.task"}},
		{"web-task-proxy.service", []string{
			"BindsTo=web-task.service", "After=web-task.service web-task.socket", "Requires=web-task.socket", "Type=notify",
			"ExecStart=/usr/lib/systemd/systemd-socket-proxyd --exit-idle-time=5400s 127.0.0.1:18080",
		}},
	} {
		if made[i].Name != want.name || !taskunit.Generated(made[i].Text) {
			t.Errorf("it makes %s, want %s", made[i].Name, want.name)
		}
		for _, line := range want.lines {
			if !slices.Contains(strings.Split(made[i].Text, "\n"), line) {
				t.Errorf("no %s in\n%s", line, made[i].Text)
			}
		}
	}
	if l := made[1].Links; len(l) != 1 || l[0] != (taskunit.Link{Path: "sockets.target.wants/web-task.socket", Target: "../web-task.socket"}) {
		t.Errorf("%+v", l)
	}
	if made, problems := generateOne("web.task", reachable+"ListenStream=8080\n"); len(problems) > 0 || strings.Contains(made[2].Text, "exit-idle-time") {
		t.Errorf("without SleepAfter= it sleeps: %v %+v", problems, made)
	}
}

func TestSocketThatCannotBe(t *testing.T) {
	t.Parallel()
	for rest, want := range map[string][]string{
		"SleepAfter=5m\n": {"SleepAfter=5m: a connection wakes the task"},
		reachable + "ListenStream=0\nSleepAfter=soon\n":                    {"ListenStream=0: write a port", "SleepAfter=soon: write a time"},
		reachable + "ListenStream=web.sock\nListenStream=localhost:8080\n": {"ListenStream=web.sock: write", "ListenStream=localhost:8080: write"},
		"ListenStream=8080\n":                                                 {"the first PublishPort= is where"},
		"PublishPort=9000:80\nListenStream=8080\n":                            {"PublishPort=9000:80: the first"},
		"PublishPort=80\nListenStream=8080\n":                                 {"PublishPort=80: the first"},
		"PublishPort=127.0.0.1::80\nListenStream=8080\n":                      {"PublishPort=127.0.0.1::80: the first"},
		"PublishPort=127.0.0.1:53:53/udp\nListenStream=8080\n":                {"53/udp: the first"},
		"PublishPort=192.0.2.1:8081:80\nListenStream=8080\n":                  {"past its socket"},
		reachable + "ListenStream=18080\n":                                    {"the port is that of ListenStream=18080"},
		reachable + "ListenStream=8080\nOnCalendar=daily\nNotify=no\n":        {"OnCalendar=daily", "Notify=no: connections wait"},
		reachable + "ListenStream=8080\n[Service]\nType=oneshot\n":            {"Type=oneshot: connections wait"},
		reachable + "ListenStream=8080\n[Install]\nWantedBy=default.target\n": {"would keep the task awake"},
	} {
		made, problems := generateOne("web.task", rest)
		var messages []string
		for _, p := range problems {
			messages = append(messages, p.Message)
		}
		text := strings.Join(messages, "\n")
		for _, w := range want {
			if len(made) > 0 || !strings.Contains(text, w) || len(problems) != len(want) {
				t.Errorf("%q: %d services, %q is missing in %q", rest, len(made), w, text)
			}
		}
	}
	if _, problems := generateOne("web@.task", reachable+"ListenStream=8080\n"); len(problems) != 1 || !strings.Contains(problems[0].Message, "template") {
		t.Errorf("a template: %v", problems)
	}
	taken := []taskunit.Source{
		{Name: "web.task", File: taskunit.Read("/u/web.task", "[Task]\nDefinition=/x.json\n"+reachable+"ListenStream=8080\n")},
		{Name: "other.task", File: taskunit.Read("/u/other.task", "[Task]\nDefinition=/x.json\nServiceName=web-task-proxy\n")},
	}
	if made, problems := taskunit.Generate(taken, taskunit.Options{Program: "podtask", Generator: "a test"}); len(made) != 1 || len(problems) != 1 || !strings.Contains(problems[0].Message, "/u/other.task makes web-task-proxy.service") {
		t.Errorf("%v", problems)
	}
}
