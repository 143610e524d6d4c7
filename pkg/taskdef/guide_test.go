package taskdef

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/testing/guide"
)

// TestDefinitionsOfTheKindsThatTheECSGuideShows parses a definition for each kind
// of example in the ECS developer guide and holds all that is said against a file.
func TestDefinitionsOfTheKindsThatTheECSGuideShows(t *testing.T) {
	t.Parallel()
	files, err := fs.Glob(guide.Files, "*.json")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d examples: %v", len(files), err)
	}
	schema := compiled(t, Schema(true))
	var b strings.Builder
	for _, name := range files {
		src, err := guide.Files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		task, report, err := Parse(name, src)
		var invalid *InvalidError
		if errors.As(err, &invalid) {
			fmt.Fprintf(&b, "%s is refused:\n%s", name, indented(invalid.Problems))
		} else {
			fmt.Fprintf(&b, "%s runs:\n", name)
			if err := schema.Validate(instance(t, name, src)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if err := task.Check(); (err == nil) != (len(report.Needs) == 0) {
				t.Errorf("%s: Check says %v, and it needs %v", name, err, report.Needs)
			}
		}
		if len(report.Warnings) > 0 {
			b.WriteString("  warnings:\n" + indented(report.Warnings))
		}
		if len(report.Needs) > 0 {
			b.WriteString("  needs:\n" + indented(report.Needs))
		}
	}
	golden(t, "testdata/guide.want", b.String())
}

func indented(ps []Problem) string {
	var b strings.Builder
	for _, p := range ps {
		fmt.Fprintf(&b, "    %s\n", p)
	}
	return b.String()
}
