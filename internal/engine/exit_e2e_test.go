//go:build e2e

//e2e:bed systemd

package engine

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/testing/faults"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/test/testbed"
)

// TestExitsAreSeenWithoutEvents holds Podman's event stream back: with journald it tells
// of an exit about 400 ms after a wait does, and it may be switched off. Nothing waits
// for it: three containers start and end in order, one of them after a restart.
func TestExitsAreSeenWithoutEvents(t *testing.T) {
	needBed(t)
	t.Parallel()
	w := newWorld(t, faults.Start(t, bed.service.Socket()))
	w.proxy.Fault(faults.Match{Path: "/events$"}, faults.Hang(nil))
	w.create("exits",
		container{"name": "job", "command": "tally /tmp/runs 2", "essential": false, "restartPolicy": map[string]any{
			"enabled": true, "ignoredExitCodes": []int{0}, "x-podtask": map[string]any{"backOff": 1}}},
		container{"name": "second", "command": "exit 0", "essential": false, "dependsOn": after("job", "SUCCESS")},
		container{"name": "app", "command": "exit 3", "dependsOn": after("second", "COMPLETE")})
	s := w.run(w.own())
	if got := codes(s); s.Status() != lifecycle.StatusStopped || got != "job=0 second=0 app=3: 3" || s.Containers[0].Restarts != 1 {
		t.Errorf("%s: %s, %d restarts", s.Status(), got, s.Containers[0].Restarts)
	}
}

// TestRemovalOfAContainerThatCannotBeInspected lets Podman fail every inspection of a
// container that runs: a removal by force ends all the same, in bounded time, and takes
// it along with its pod.
func TestRemovalOfAContainerThatCannotBeInspected(t *testing.T) {
	needBed(t)
	t.Parallel()
	w := newWorld(t, faults.Start(t, bed.service.Socket()))
	w.create("stuck", container{"name": "app", "command": "sleep forever"})
	o := w.own()
	ctx, cancel := context.WithTimeout(t.Context(), testbed.Patience)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- o.Run(ctx) }()
	if err := o.Watch(ctx, func(s lifecycle.State) bool { return s.Status() != lifecycle.StatusRunning }); err != nil {
		t.Fatal(err)
	}
	w.proxy.Fault(faults.Match{Method: "GET", Path: "-app/json$"}, faults.Status(500, "broken", "broken"))
	o.Send(lifecycle.Hinted{Index: 0}) // whether it runs is not known, so it is inspected
	o.Send(lifecycle.RemoveRequested{By: "test", Force: true})
	if err := errors.Join(<-ended, o.Close()); err != nil {
		t.Fatal(err)
	}
	s := o.State()
	if f := s.Containers[0].Fatal(); s.Sandbox.Phase != lifecycle.SandboxRemoved || !strings.Contains(f, lifecycle.ErrCannotInspect) {
		t.Errorf("sandbox %s, %s", s.Sandbox.Phase, f)
	}
}
