package observe_test

import (
	"context"
	"testing"

	"github.com/podtask/podtask/internal/engine/act/observe"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// freezing is a Podman that notes which containers are paused.
type freezing struct {
	paused map[string]bool
}

func (f freezing) PauseContainer(_ context.Context, name string) error {
	f.paused[name] = true
	return nil
}

func (f freezing) UnpauseContainer(_ context.Context, name string) error {
	delete(f.paused, name)
	return nil
}

// A container that is being inspected at that moment is paused like the others.
func TestPauseLeavesNoContainerOut(t *testing.T) {
	t.Parallel()
	podman := freezing{map[string]bool{}}
	pauser := observe.Pauser{Podman: func(context.Context) (observe.Freezer, error) { return podman, nil }}
	st := running()
	st.Containers[0].Stale, st.Containers[1].Presence = true, lifecycle.Exited
	for _, pause := range []bool{true, false} {
		hints, err := pauser.Pause(t.Context(), st, pause)
		if err != nil || len(hints) != 1 || (len(podman.paused) == 1) != pause {
			t.Errorf("pause %v: paused %v, hints %v, %v", pause, podman.paused, hints, err)
		}
	}
}
