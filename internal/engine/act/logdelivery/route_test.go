package logdelivery

import (
	"errors"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/testing/hostile"
)

// What a log server says is kept as one short line: the state of a route, events and the log have it.
func TestWhatALogServerSaysIsShort(t *testing.T) {
	t.Parallel()
	got := brief(errors.New("refused: " + hostile.Text + strings.Repeat("é", 1<<20)))
	if len(got) > maxError || hostile.Steers(got) != 0 || strings.Contains(got, "\n") || !strings.HasPrefix(got, "refused: x") {
		t.Errorf("%q", got)
	}
}
