package engine_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/engine"

	"github.com/podtask/podtask/internal/engine/conn"
	"github.com/podtask/podtask/internal/engine/limits"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/testing/enginetest"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// stoppable returns a host whose Podman is in memory, and the id of a task there
// that ends at once.
func stoppable(t *testing.T, o lifecycle.Options) (*engine.Engine, *enginetest.Fake, string) {
	t.Helper()
	podman := enginetest.New(enginetest.Wall{})
	const image = "localhost/testbox:1"
	podman.Load(image, enginetest.Image{})
	dir := t.TempDir()
	h, err := engine.Open(engine.Config{
		StateDir: filepath.Join(dir, "state"), RuntimeDir: filepath.Join(dir, "run"), Getenv: func(string) string { return "" },
		Dial: func(context.Context) (conn.Podman, error) { return podman, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	src, err := json.Marshal(map[string]any{"family": "web", "containerDefinitions": []any{
		map[string]any{"name": "app", "image": image, "command": []string{"exit", "3"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	task, _, err := taskdef.Parse("web.json", src)
	if err != nil {
		t.Fatal(err)
	}
	o.Pull, o.Limits = lifecycle.PullNever, limits.Off
	s, err := h.Creator.Create(t.Context(), task, "", o)
	if err != nil {
		t.Fatal(err)
	}
	return h, podman, s.ID
}

func carry(t *testing.T, h *engine.Engine, id string, events ...lifecycle.Event) lifecycle.State {
	t.Helper()
	o, err := h.Owners.Own(id)
	if err != nil {
		t.Fatal(err)
	}
	for _, ev := range events {
		o.Send(ev)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := o.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if err := o.Close(); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return o.State()
}

// Podman may fail to remove for reasons of every kind, a busy mount say, that it
// does not tell apart.
func TestRemovalIsNotGivenUpForAReasonNobodyKnows(t *testing.T) {
	t.Parallel()
	h, podman, id := stoppable(t, lifecycle.Options{})
	if s := carry(t, h, id); s.ExitCode() != 3 {
		t.Fatalf("exit code %d", s.ExitCode())
	}
	other := enginetest.Fault{Moment: enginetest.Before, Class: libpod.Other}
	podman.Fail(enginetest.Script("remove pod", other, other))
	if s := carry(t, h, id, lifecycle.RemoveRequested{By: "test"}); s.Goal != lifecycle.Gone {
		t.Errorf("removal was given up: %+v", s.Sandbox.Failures)
	}
	if left := podman.Left(""); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

func TestRemovalThatCannotBeIsAskedForOnce(t *testing.T) {
	t.Parallel()
	h, podman, id := stoppable(t, lifecycle.Options{Remove: true})
	asked := 0
	podman.Fail(func(c enginetest.Call) enginetest.Fault {
		if c.Op != "remove pod" {
			return enginetest.Fault{}
		}
		asked++
		return enginetest.Fault{Moment: enginetest.Before, Class: libpod.Conflict}
	})
	s := carry(t, h, id)
	if asked != 1 || s.Goal != lifecycle.Down || len(s.Sandbox.Failures) != 1 {
		t.Errorf("asked %d times; goal %s, failures %+v", asked, s.Goal, s.Sandbox.Failures)
	}
	podman.Fail(nil)
	carry(t, h, id)
	if left := podman.Left(""); len(left) > 0 {
		t.Errorf("the next owner leaves %q", left)
	}
}

// Podman may be about to make the pod that an owner has asked for who died before the
// answer. The removal takes its name, and leaves nothing.
func TestRemovalTakesTheNameOfAPodInTheMaking(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	h, st := s.process(), newState(s)
	st.Sandbox.Dirty = true
	calls := func(op string) (n int) {
		for _, c := range s.podman.Calls() {
			if c.Op == op {
				n++
			}
		}
		return n
	}
	for n, podID := range []string{"", "known"} {
		st.Sandbox.PodID = podID
		if got := h.Runtime.Apply(t.Context(), st, lifecycle.RemoveSandbox{ID: 1}); got.Failure.Class != lifecycle.OK {
			t.Errorf("pod %q: %+v", podID, got.Failure)
		}
		if left := s.podman.Left(""); calls("create pod") != 1 || calls("remove pod") != n+1 || len(left) > 0 {
			t.Errorf("pod %q: made %d, removed %d, left %v", podID, calls("create pod"), calls("remove pod"), left)
		}
	}
}
