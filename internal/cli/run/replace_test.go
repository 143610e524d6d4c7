package run

import (
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// The stop of the task that is replaced may take as long as its containers may take: the line says how long.
func TestReplaceSaysHowLongTheStopMayTake(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	st := lifecycle.State{ID: strings.Repeat("5a", 16)}
	st.Task.Containers = []taskdef.Container{{Name: "app", StopTimeout: 40 * time.Second}}
	taskRun{runOptions{errOut: &out}, request{name: "web"}}.launch(taskdef.Task{}).Replacing(st)
	if got, want := out.String(), "replacing task 5a5a5a5a5a5a (web), which stops within 40s\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
