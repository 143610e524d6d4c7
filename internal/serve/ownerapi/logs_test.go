package ownerapi

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/config"
	"github.com/podtask/podtask/internal/engine/act/logdelivery"
	"github.com/podtask/podtask/internal/logs/logfiles"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/logdriver"
)

// What stands still for a minute is a reason, after those that the task itself has.
func TestOutputThatStandsStillIsAReason(t *testing.T) {
	t.Parallel()
	dir, now := logfiles.In(t.TempDir()), time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	d := &logdelivery.Deliverer{Files: dir, Senders: &logdelivery.Servers{Settings: config.Delivery{}}}
	s := lifecycle.State{ID: strings.Repeat("ab", 16), Options: lifecycle.Options{Logs: taskdef.LogsAuto}, Containers: make([]lifecycle.Container, 1), Task: taskdef.Task{Containers: []taskdef.Container{{
		Name: "app", Log: &taskdef.LogConfiguration{Driver: logdriver.GELF, Options: map[string]string{"gelf-address": "udp://host:1"}},
	}}}}
	files := dir.Of(s.ID, 0)
	if err := files.Place(); err != nil {
		t.Fatal(err)
	}
	for since, stalls := range map[time.Duration]bool{30 * time.Second: false, 2 * time.Minute: true} {
		if err := files.Save(logfiles.Route{Error: "no route to host", Since: now.Add(-since), LostLines: 3}); err != nil {
			t.Fatal(err)
		}
		if got := WithLogs(api.FromState(s), d, s, now); len(got.Logs) != 1 || got.Logs[0].LostLines != 3 || got.Logs[0].Destination != "GELF server at udp://host:1" {
			t.Errorf("the routes are %+v", got.Logs)
		} else if why := got.Why[len(got.Why)-1]; why.Code == api.WhyLogsStalled {
			t.Errorf("%s: nothing waits, but %+v", since, why)
		}
		if err := os.WriteFile(files.Path(), []byte("2026-01-02T12:00:00.000000000+00:00 stdout F hello\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		got := WithLogs(api.FromState(s), d, s, now).Why
		if last := got[len(got)-1]; len(got) < 1 || got[0].Code == api.WhyLogsStalled || (last.Code == api.WhyLogsStalled) != stalls || stalls && !strings.Contains(last.Text, "of the output of app wait to be sent to GELF server at udp://host:1: no route to host") {
			t.Errorf("%s: the reasons are %+v", since, got)
		}
		if err := dir.Remove(s.ID); err != nil {
			t.Fatal(err)
		}
		if err := files.Place(); err != nil {
			t.Fatal(err)
		}
	}
}
