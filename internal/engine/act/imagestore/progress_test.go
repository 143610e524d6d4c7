package imagestore

import (
	"testing"

	"github.com/podtask/podtask/internal/host/libpod"
)

func TestStandingOfAPull(t *testing.T) {
	t.Parallel()
	var hub ProgressHub
	const image = "docker.io/library/web:1"
	check := func(want Standing, there bool) {
		t.Helper()
		if got, ok := hub.Standing(image); got != want || ok != there {
			t.Errorf("%+v, %t, want %+v, %t", got, ok, want, there)
		}
	}
	check(Standing{}, false)
	r := progressReporter{hub: &hub, image: image}
	r.step(Waiting, libpod.Progress{})
	check(Standing{Phase: Waiting}, true)
	for _, step := range []libpod.Progress{
		{Line: "Copying blob a"}, {Layer: "a", Current: 1, Total: 10}, {Layer: "b", Total: 30}, {Layer: "c", Total: 99, Done: true, Existed: true}, {Layer: "a", Current: 4, Total: 10}, {Layer: "b", Done: true},
	} {
		r.step(Pulling, step)
	}
	check(Standing{Pulling, 34, 40}, true)
	r.end(nil)
	check(Standing{}, false)
	r.step(Pulling, libpod.Progress{})
	check(Standing{Phase: Pulling}, true) // nothing is left of the pull before
}
