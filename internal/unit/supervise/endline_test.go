package supervise

import (
	"strings"
	"testing"

	"github.com/podtask/podtask/pkg/lifecycle"
)

// The journal may drop the warning as well as the lines, so the last status of the unit says it.
func TestTheLastStatusSaysWhichLinesAreMissing(t *testing.T) {
	t.Parallel()
	st := lifecycle.State{}
	if got := endLine(st, ""); strings.Contains(got, ";") {
		t.Error(got)
	}
	if got := endLine(st, "lines of big are missing in the journal"); !strings.HasSuffix(got, "; lines of big are missing in the journal") {
		t.Error(got)
	}
}
