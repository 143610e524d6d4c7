package agent_test

import (
	"context"
	"testing"

	"github.com/podtask/podtask/internal/enginetest"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// freezing is a Podman that notes which containers are paused.
type freezing struct {
	*enginetest.Fake
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

// A container that is being looked at just then is paused like the others.
func TestPauseLeavesNoContainerOut(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	podman := freezing{s.podman, map[string]bool{}}
	h := s.hostWith(podman)
	st := s.state(app, lifecycle.PullDefault, nil)
	st.Containers[0].Presence, st.Containers[0].Stale = lifecycle.Running, true
	for _, pause := range []bool{true, false} {
		hints, err := h.Pauser.Pause(t.Context(), st, pause)
		if err != nil || len(hints) != 1 || (len(podman.paused) == 1) != pause {
			t.Errorf("pause %v: paused %v, hints %v, %v", pause, podman.paused, hints, err)
		}
	}
}
