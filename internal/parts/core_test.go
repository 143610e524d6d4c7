//go:build podtask_core

package parts

import "testing"

// TestTheCoreHasNoPart: a build with the tag podtask_core links no part and knows what it lacks.
func TestTheCoreHasNoPart(t *testing.T) {
	t.Parallel()
	b := Build()
	if len(b.Parts) > 0 || len(b.Absent) != len(table) {
		t.Errorf("%d parts are linked, %d of %d are absent", len(b.Parts), len(b.Absent), len(table))
	}
	if b.MissingCommand("test") == "" || b.MissingCommand("run") != "" || b.MissingSetting("aws-listen") == "" || b.MissingSetting("log-level") != "" {
		t.Error("the build does not say what it lacks, or says so of the core")
	}
}
