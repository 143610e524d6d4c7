package ulimit

import (
	"math"
	"strings"
	"testing"

	"github.com/podtask/podtask/pkg/taskdef"
)

func TestUlimitsAreLoweredToThoseOfTheUser(t *testing.T) {
	t.Parallel()
	most, ok := Hard("nofile")
	if !ok {
		t.Skip("this user may open any number of files")
	}
	high := taskdef.Ulimit{Name: "nofile", Soft: int64(most) + 1, Hard: math.MaxInt64}
	low := taskdef.Ulimit{Name: "core", Soft: 0, Hard: 0}
	asked := taskdef.Task{Containers: []taskdef.Container{{Name: "app", Linux: taskdef.Linux{Ulimits: []taskdef.Ulimit{high, low}}}}}
	got, lowered := Clamp(asked)
	want := taskdef.Ulimit{Name: "nofile", Soft: int64(most), Hard: int64(most)}
	if l := got.Containers[0].Linux.Ulimits; l[0] != want || l[1] != low {
		t.Errorf("%+v, want %+v", l, want)
	}
	if len(lowered) != 1 || !strings.Contains(lowered[0], "container app: the hard limit nofile is lowered from") {
		t.Errorf("%q", lowered)
	}
	if asked.Containers[0].Linux.Ulimits[0] != high {
		t.Error("the task that was given has changed")
	}
	if err := Check(want); err != nil {
		t.Error(err)
	}
	if err := Check(high); err == nil || !strings.Contains(err.Error(), "--clamp-ulimits") {
		t.Errorf("%v", err)
	}
}
