package schedule

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/engine/run/schedule"
	"github.com/podtask/podtask/internal/testing/schemafile"
)

// compiled returns the schema of what commands print, or of one of its definitions.
func compiled(t *testing.T, fragment string) *jsonschema.Schema {
	t.Helper()
	text, err := json.Marshal(schedule.Schema())
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource(schedule.SchemaID, doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(schedule.SchemaID + fragment)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// valid validates what encoding/json makes of a value.
func valid(t *testing.T, s *jsonschema.Schema, v any) error {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(doc)
}

func TestTheSchemaFitsWhatIsPrinted(t *testing.T) {
	t.Parallel()
	now, code, seconds := time.Date(2026, 11, 26, 3, 0, 0, 0, time.UTC), 3, 1.5
	full := console.ScheduleRun{Due: now, Manual: true, Status: string(schedule.Ended), ExitCode: &code, Seconds: &seconds, Task: strings.Repeat("ab", 16), Missed: 2, Reason: "why"}
	rows := []console.Schedule{
		{Name: "nightly", State: "active", At: "daily", Overlap: string(schedule.Forbid), Family: "job", Next: &now, Last: &full},
		{Name: "new", State: "paused", At: "hourly", Overlap: string(schedule.Allow), CatchUp: true, Family: "job"},
	}
	if err := valid(t, compiled(t, ""), rows); err != nil {
		t.Error(err)
	}
	history := compiled(t, "#/$defs/history")
	runs := []console.ScheduleRun{full}
	for _, status := range []schedule.Status{schedule.Starting, schedule.Running, schedule.Skipped, schedule.Missed, schedule.Failed} {
		runs = append(runs, console.ScheduleRun{Due: now, Status: string(status)})
	}
	if err := valid(t, history, runs); err != nil {
		t.Error(err)
	}
	for name, wrong := range map[string]any{"a status": []console.ScheduleRun{{Due: now, Status: "lost"}}, "a member": []map[string]any{{"due": now, "manual": false, "status": "ended", "exitCode": 0, "seconds": 1, "missed": 0, "colour": "red"}}} {
		if valid(t, history, wrong) == nil {
			t.Errorf("%s that there is not is valid", name)
		}
	}
}

// The schema is a file of the documentation, which editors fetch.
func TestTheDocumentationHasTheSchema(t *testing.T) {
	t.Parallel()
	schemafile.Check(t, filepath.Join("..", "..", "..", "docs"), schedule.SchemaID, schedule.Schema())
}
