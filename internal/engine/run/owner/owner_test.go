package owner_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/engine/act/limits"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/internal/testing/enginehost"
	"github.com/podtask/podtask/internal/testing/registrytest"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// newHost returns an engine without Podman, and a registry without images: a task with strict
// pulls ends without a call of Podman. At the end of the test all records must be valid.
func newHost(t *testing.T) (*enginehost.Host, *enginehost.Engine, *registrytest.Registry) {
	t.Helper()
	reg := registrytest.Start(t, registrytest.Options{})
	host := enginehost.New(t)
	host.Registry, host.Dial = nil, nil
	host.Setenv("CONTAINERS_REGISTRIES_CONF", host.WriteFile("registries.conf", string(reg.RegistriesConf())))
	host.Setenv("XDG_RUNTIME_DIR", host.Dir())
	host.Setenv("CONTAINER_HOST", "unix://"+host.Dir()+"/none.sock")
	e := host.Open()
	t.Cleanup(func() {
		all, errs := e.Tasks.States()
		for _, s := range all {
			errs = append(errs, lifecycle.Check(s))
		}
		if err := errors.Join(errs...); err != nil {
			t.Error(err)
		}
	})
	return host, e, reg
}

// twoContainers returns a task of two containers with the same image.
func twoContainers(host *enginehost.Host, image string) taskdef.Task {
	return host.Parse(enginehost.Fields{"family": "web", "containerDefinitions": []any{
		enginehost.Fields{"name": "a", "image": image},
		enginehost.Fields{"name": "b", "image": image, "dependsOn": []any{enginehost.Fields{"containerName": "a", "condition": "START"}}},
	}})
}

// strict are options with which a task without its image stops.
var strict = lifecycle.Options{Pull: lifecycle.PullAlways, Limits: limits.Enforce}

func TestStrictPullFailureStopsTheTaskWithoutPodman(t *testing.T) {
	t.Parallel()
	host, e, reg := newHost(t)
	s := host.Create(e, twoContainers(host, reg.Ref("none:1")), "", strict)
	s = enginehost.Finish(t, e, s.ID)
	if s.Status() != lifecycle.StatusStopped || s.Stop.Code != lifecycle.StopTaskFailedToStart || !strings.Contains(s.Stop.Reason, lifecycle.ErrCannotPullManifest) {
		t.Errorf("status %s, stop %+v", s.Status(), s.Stop)
	}
	if s.ExitCode() != 125 {
		t.Errorf("exit code %d, want 125", s.ExitCode())
	}
	want := []string{"STOPPED", "a STOPPED", "b STOPPED"}
	got := enginehost.Published(t, e, s.ID)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
}

func TestEventsArePublishedOnceWhoeverOwnsTheTask(t *testing.T) {
	t.Parallel()
	host, e, reg := newHost(t)
	s := host.Create(e, twoContainers(host, reg.Ref("none:1")), "", strict)
	s = enginehost.Finish(t, e, s.ID)
	before := enginehost.Published(t, e, s.ID)
	enginehost.Finish(t, e, s.ID)
	if after := enginehost.Published(t, e, s.ID); !slices.Equal(before, after) {
		t.Errorf("a second owner published again: %q, then %q", before, after)
	}
	// The next owner publishes what an owner that died after the save did not.
	if err := os.Remove(filepath.Join(host.StateDir(), "events.jsonl")); err != nil {
		t.Fatal(err)
	}
	enginehost.Finish(t, e, s.ID)
	if after := enginehost.Published(t, e, s.ID); !slices.Equal(before, after) {
		t.Errorf("events %q are lost, got %q", before, after)
	}
}

// The log drops old events. A later owner must not publish them a second time, out of order.
func TestEventsThatTheLogHasDroppedAreNotPublishedAgain(t *testing.T) {
	t.Parallel()
	host, e, reg := newHost(t)
	var err error
	if e.Events.Store, err = state.OpenLog(host.StateDir(), 400); err != nil {
		t.Fatal(err)
	}
	s := host.Create(e, twoContainers(host, reg.Ref("none:1")), "", strict)
	enginehost.Finish(t, e, s.ID)
	other := record.EncodeEvent(s, lifecycle.Transition{Seq: 1, At: time.Now().UTC(), Status: "NONE"})
	other = json.RawMessage(strings.ReplaceAll(string(other), s.ID, strings.Repeat("f", 32)))
	inLog := func() (lines []string) {
		if err := e.Events.Read(t.Context(), 0, false, func(e record.Event) error {
			if e.Task == s.ID {
				lines = append(lines, e.Container+" "+e.Status)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return lines
	}
	for len(inLog()) > 0 {
		if _, err := e.Events.Store.Append(t.Context(), other); err != nil {
			t.Fatal(err)
		}
	}
	enginehost.Finish(t, e, s.ID)
	if again := inLog(); len(again) > 0 {
		t.Errorf("published a second time: %q", again)
	}
}

func TestRemovalForgetsTheTask(t *testing.T) {
	t.Parallel()
	host, e, reg := newHost(t)
	s := host.Create(e, twoContainers(host, reg.Ref("none:1")), "", strict)
	enginehost.Finish(t, e, s.ID, lifecycle.RemoveRequested{By: "test"})
	var missing *record.NotFoundError
	if _, err := e.Tasks.Find(s.ID); !errors.As(err, &missing) {
		t.Errorf("Find after removal: %v", err)
	}
	if _, err := e.Owners.Own(s.ID); !errors.As(err, &missing) {
		t.Errorf("Own after removal: %v", err)
	}
	if locks, err := os.ReadDir(filepath.Join(host.StateDir(), "locks")); err != nil || len(locks) > 1 {
		t.Errorf("locks left: %v %v", locks, err)
	}
}

func TestStoppedTaskCanStillBeRemoved(t *testing.T) {
	t.Parallel()
	host, e, reg := newHost(t)
	s := host.Create(e, twoContainers(host, reg.Ref("none:1")), "", strict)
	enginehost.Finish(t, e, s.ID)
	enginehost.Finish(t, e, s.ID, lifecycle.RemoveRequested{By: "test"})
	var missing *record.NotFoundError
	if _, err := e.Tasks.Find(s.ID); !errors.As(err, &missing) {
		t.Errorf("Find after removal: %v", err)
	}
}

func TestOnlyOneOwner(t *testing.T) {
	t.Parallel()
	host, e, reg := newHost(t)
	s := host.Create(e, twoContainers(host, reg.Ref("none:1")), "", strict)
	o, err := e.Owners.Own(s.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	if _, err := e.Owners.Own(s.ID); !errors.Is(err, state.ErrLocked) {
		t.Errorf("second owner: %v", err)
	}
	if holder, held := e.Tasks.Holder(s.ID); !held || holder.PID != os.Getpid() {
		t.Errorf("holder %+v, held %t", holder, held)
	}
}

func TestWatchSeesTheEnd(t *testing.T) {
	t.Parallel()
	host, e, reg := newHost(t)
	s := host.Create(e, twoContainers(host, reg.Ref("none:1")), "", strict)
	o, err := e.Owners.Own(s.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	last := make(chan lifecycle.State, 1)
	go func() {
		var seen lifecycle.State
		_ = o.Watch(context.WithoutCancel(t.Context()), func(s lifecycle.State) bool { seen = s; return true })
		last <- seen
	}()
	if err := o.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := <-last; !s.Settled() {
		t.Errorf("the watcher's last state is %s", s.Status())
	}
	o.Send(lifecycle.TimerFired{}) // must not block without a reader
}

func TestNames(t *testing.T) {
	t.Parallel()
	host, e, reg := newHost(t)
	task := twoContainers(host, reg.Ref("none:1"))
	first := host.Create(e, task, "web", strict)
	if _, err := enginehost.Record(t.Context(), e.Creator, task, "web", lifecycle.Options{}); !errors.Is(err, record.ErrNameTaken) {
		t.Errorf("second task of a living name: %v", err)
	}
	enginehost.Finish(t, e, first.ID)
	second := host.Create(e, task, "web", strict)
	for _, ref := range []string{"web", second.ID, second.ID[:20]} {
		if s, err := e.Tasks.Find(ref); err != nil || s.ID != second.ID {
			t.Errorf("Find(%q) = %s, %v, want the living task", ref, s.ID, err)
		}
	}
	var missing *record.NotFoundError
	for _, ref := range []string{"", "nobody", "zz"} {
		if _, err := e.Tasks.Find(ref); !errors.As(err, &missing) {
			t.Errorf("Find(%q): %v", ref, err)
		}
	}
	enginehost.Finish(t, e, second.ID)
}

func TestSecretThatCannotBeKeptForgetsTheTask(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	e := host.Open()
	task := host.Task(nil, enginehost.Fields{"name": "app", "command": "exit 0", "secrets": []any{enginehost.Fields{"name": "A", "valueFrom": "env:NOWHERE"}}})
	if _, err := enginehost.Record(t.Context(), e.Creator, task, "", enginehost.Unlimited); err == nil {
		t.Fatal("no error")
	}
	if all, errs := e.Tasks.States(); len(all)+len(errs) > 0 {
		t.Errorf("there are %d tasks, %v", len(all), errs)
	}
}
