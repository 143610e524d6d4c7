package schedule

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/unitfile/unitdir"
	"github.com/podtask/podtask/pkg/taskdef"
)

func TestUnits(t *testing.T) {
	t.Parallel()
	timer := timerText(State{Name: "nightly", Calendar: []string{"Mon..Fri 03:00 Europe/Berlin", "Sun 05:00"}})
	for _, want := range []string{"OnCalendar=Mon..Fri 03:00 Europe/Berlin\nOnCalendar=Sun 05:00\n", "Unit=podtask-schedule-nightly.service\n"} {
		if !strings.Contains(timer, want) {
			t.Errorf("no %q in\n%s", want, timer)
		}
	}
	service, err := serviceText("nightly", []string{"/opt/a b/podtask", "--x=50%$HOME\"", "schedule"}, []string{`PODTASK_X=a\b $c %d`})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`ExecStart="/opt/a b/podtask" "--x=50%%$$HOME\"" "schedule"` + "\n", `Environment="PODTASK_X=a\\b $c %%d"` + "\n"} {
		if !strings.Contains(service, want) {
			t.Errorf("no %q in\n%s", want, service)
		}
	}
	if _, err := serviceText("nightly", []string{"/podtask", "a\nExecStartPre=evil"}, nil); err == nil {
		t.Error("an argument makes a line of its own")
	}
}

func TestUnitEnvironmentHasNoPasswords(t *testing.T) {
	t.Parallel()
	got := strings.Join(unitdir.Environment([]string{"https_proxy=http://u:p@x", "PATH=/bin", "AWS_SECRET_ACCESS_KEY=s", "PODTASK_PULL=never", "XDG_STATE_HOME=/s"}), " ")
	if got != "PATH=/bin PODTASK_PULL=never XDG_STATE_HOME=/s" {
		t.Error(got)
	}
}

func TestNamesAndTimesStayInTheirLines(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "../x", "a/b", "a b", "a\nb", "a%n", "-x", strings.Repeat("a", 101)} {
		if CheckName(name) == nil {
			t.Errorf("%q is taken for a name", name)
		}
	}
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	c := SystemdCalendar{Path: "/usr/bin:/bin"}
	for _, at := range []string{"daily\n[Service]", "daily\nOnActiveSec=1", "daily\r", "%h", "daily; hourly"} {
		if c.Check(t.Context(), at) == nil {
			t.Errorf("%q is taken for a time", at)
		}
	}
}

func TestSecretsOfTheShellAreRefused(t *testing.T) {
	t.Parallel()
	task := taskdef.Task{Containers: []taskdef.Container{{Name: "app", Secrets: []taskdef.Secret{
		{Name: "A", SecretValue: taskdef.SecretValue{Source: "env:A"}}, {Name: "B", SecretValue: taskdef.SecretValue{Source: "podman:b"}}, {Name: "C", SecretValue: taskdef.SecretValue{Source: "env:file"}},
	}}}}
	err := CheckSources(task, map[string][]byte{"file": nil})
	if err == nil || !strings.Contains(err.Error(), "the secret A") || strings.Contains(err.Error(), "secret C") {
		t.Error(err)
	}
}
