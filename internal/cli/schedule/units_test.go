package schedule

import (
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/engine/schedule"
)

func TestUnits(t *testing.T) {
	t.Parallel()
	timer := timerText(schedule.State{Name: "nightly", Calendar: []string{"Mon..Fri 03:00 Europe/Berlin", "Sun 05:00"}})
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
	got := strings.Join(unitEnvironment([]string{"https_proxy=http://u:p@x", "PATH=/bin", "AWS_SECRET_ACCESS_KEY=s", "PODTASK_PULL=never", "XDG_STATE_HOME=/s"}), " ")
	if got != "PATH=/bin PODTASK_PULL=never XDG_STATE_HOME=/s" {
		t.Error(got)
	}
}
