package effects_test

import (
	"testing"

	"github.com/podtask/podtask/internal/engine/act/limits"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/testing/enginehost"
	"github.com/podtask/podtask/internal/testing/enginetest"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// exits returns a host with a task that ends at once with code 3.
func exits(t *testing.T, o lifecycle.Options) (*enginehost.Host, *enginehost.Engine, string) {
	t.Helper()
	host := enginehost.New(t)
	e := host.Open()
	o.Pull, o.Limits = lifecycle.PullNever, limits.Off
	return host, e, host.Create(e, host.Box(0, 0, "exit", "3"), "", o).ID
}

// Podman may fail to remove for reasons of every kind, a busy mount say, that it
// does not tell apart.
func TestRemovalIsNotGivenUpForAReasonNobodyKnows(t *testing.T) {
	t.Parallel()
	host, e, id := exits(t, lifecycle.Options{})
	if s := enginehost.Finish(t, e, id); s.ExitCode() != 3 {
		t.Fatalf("exit code %d", s.ExitCode())
	}
	other := enginetest.Fault{Moment: enginetest.Before, Class: libpod.Other}
	host.Podman.Fail(enginetest.Script("remove pod", other, other))
	if s := enginehost.Finish(t, e, id, lifecycle.RemoveRequested{By: "test"}); s.Goal != lifecycle.Gone {
		t.Errorf("removal was given up: %+v", s.Sandbox.Failures)
	}
	if left := host.Podman.Left(""); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

func TestRemovalThatCannotBeIsAskedForOnce(t *testing.T) {
	t.Parallel()
	host, e, id := exits(t, lifecycle.Options{Remove: true})
	asked := 0
	host.Podman.Fail(func(c enginetest.Call) enginetest.Fault {
		if c.Op != "remove pod" {
			return enginetest.Fault{}
		}
		asked++
		return enginetest.Fault{Moment: enginetest.Before, Class: libpod.Conflict}
	})
	s := enginehost.Finish(t, e, id)
	if asked != 1 || s.Goal != lifecycle.Down || len(s.Sandbox.Failures) != 1 {
		t.Errorf("asked %d times; goal %s, failures %+v", asked, s.Goal, s.Sandbox.Failures)
	}
	host.Podman.Fail(nil)
	enginehost.Finish(t, e, id)
	if left := host.Podman.Left(""); len(left) > 0 {
		t.Errorf("the next owner leaves %q", left)
	}
}

// Podman may be about to make the pod that an owner has asked for who died before the
// answer. The removal takes its name, and leaves nothing.
func TestRemovalTakesTheNameOfAPodInTheMaking(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	e, st := host.Open(), newState(host)
	st.Sandbox.Dirty = true
	for n, podID := range []string{"", "known"} {
		st.Sandbox.PodID = podID
		if got := e.Runtime.Apply(t.Context(), st, lifecycle.RemoveSandbox{ID: 1}); got.Failure.Class != lifecycle.OK {
			t.Errorf("pod %q: %+v", podID, got.Failure)
		}
		if left := host.Podman.Left(""); host.Calls("create pod") != 1 || host.Calls("remove pod") != n+1 || len(left) > 0 {
			t.Errorf("pod %q: made %d, removed %d, left %v", podID, host.Calls("create pod"), host.Calls("remove pod"), left)
		}
	}
}
