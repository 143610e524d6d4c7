package scaling

import (
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/scaling"
)

func TestWhyANumberOfCopiesDoesNotChange(t *testing.T) {
	t.Parallel()
	s := scaling.State{Service: "web", Config: scaling.Config{Min: 1, Max: 4}}
	if got := reasons(s, 1, nil); got != nil {
		t.Errorf("nothing is held: %+v", got)
	}
	since := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	s.Held = scaling.Held{Reason: scaling.AtMax, Policy: "cpu", Since: since}
	if got := reasons(s, 1, nil); len(got) != 1 || got[0].Code != api.WhyScalingHeld || !got[0].Since.Equal(since) || !strings.Contains(got[0].Text, "cpu asks for more copies than the maximum 4") {
		t.Errorf("%+v", got)
	}
	s.Held, s.Config.Suspended.Out = scaling.Held{}, true
	if got := reasons(s, 1, nil); len(got) != 1 || !strings.Contains(got[0].Text, "suspended") {
		t.Errorf("%+v", got)
	}
}

// A host that does not count memory cannot scale by it, which is said.
func TestATargetThatIsNotMeasuredIsTold(t *testing.T) {
	t.Parallel()
	one, value := 1, 3.0
	r := row{Running: &one, Targets: []target{{Name: "cpu", Value: &value}, {Name: "memory"}}}
	own := scaling.State{Config: scaling.Config{Policies: []scaling.Policy{{Name: "jobs", Metric: "app:9090/metrics jobs"}}}}
	if got := reasons(own, 1, scaling.Rows{"jobs": {Problem: "app:9090/metrics has no jobs"}}); len(got) != 1 || !strings.Contains(got[0].Text, "jobs (app:9090/metrics has no jobs) is not measured") {
		t.Errorf("why says %+v", got)
	}
	if got := r.note(); got != "memory is not measured, so it changes nothing" {
		t.Errorf("it says %s", got)
	}
	none := 0
	if r.Running = &none; r.note() != "-" {
		t.Errorf("without copies it says %s", r.note())
	}
}
