package metadata

import (
	"testing"

	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/logdriver"
)

// The driver is shown where it sends, and no token is.
func TestTheLogDriverIsShownWhereItSends(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]string{taskdef.LogsAuto: "splunk", taskdef.LogsLocal: "", "": ""} {
		s := lifecycle.State{
			Task: taskdef.Task{Containers: []taskdef.Container{{Name: "app", Log: &taskdef.LogConfiguration{
				Driver: logdriver.Splunk, Options: map[string]string{"splunk-url": "https://h", "splunk-token": "hunter2"},
			}}}},
			Containers: make([]lifecycle.Container, 1), Options: lifecycle.Options{Logs: mode},
		}
		got := ContainerOf(s, 0, Names{Container: func(int) (string, map[string]string) { return "", nil }}, nil)
		if got.LogDriver != want || got.LogOptions["splunk-token"] != "" || (got.LogOptions["splunk-url"] != "") != (want != "") {
			t.Errorf("%q: %s %v", mode, got.LogDriver, got.LogOptions)
		}
	}
}
