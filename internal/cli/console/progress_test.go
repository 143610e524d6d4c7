package console

import (
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// A removal that fails again and again says each reason once.
func TestProgressShowsWhyARemovalFails(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	p := NewProgress(&out, false, time.Now(), 0)
	for _, text := range []string{
		"removing it failed once, error: the storage is read-only",
		"removing it failed 2 times, last error: the storage is read-only",
		"removing it failed 3 times, last error: no answer",
	} {
		p.Show(api.Task{Why: []api.Reason{{Code: lifecycle.WhyRetry, Text: text}}})
	}
	p.Show(api.Task{Why: []api.Reason{{Code: lifecycle.WhyRetry, Container: "app", Text: "stopping app failed once, error: hung"}}})
	if got := out.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "failed once, error: the storage is read-only\n") || !strings.Contains(got, "no answer\n") {
		t.Errorf("it shows:\n%s", got)
	}
}

func TestLinesOfSeveralTasksHaveTheirNames(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	p := NewProgress(&out, false, time.Unix(100, 0), 0).Of("web")
	p.Show(api.Task{Containers: []api.Container{{Name: "app"}}, History: []api.Transition{{Seq: 1, At: time.Unix(101, 0), Container: "app", Status: "STOPPED"}}})
	if got := out.String(); got != "    1.0s  web app     STOPPED\n" {
		t.Errorf("%q", got)
	}
}
