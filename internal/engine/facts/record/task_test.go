package record

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

func podState(id, name string, p taskdef.PodRef, age time.Duration, status lifecycle.Goal) lifecycle.State {
	t := taskdef.Task{Family: "f", Network: taskdef.NetworkNone, Containers: []taskdef.Container{{Name: "c", Image: "i"}}}
	if p.Name != "" {
		t.Extensions.Pod = json.RawMessage(`{}`)
		t.Containers[0].Labels = map[string]string{taskdef.LabelPodNamespace: p.Namespace, taskdef.LabelPodName: p.Name, taskdef.LabelPodUID: p.UID}
	}
	s := lifecycle.New(strings.Repeat(id, 32), name, t, lifecycle.Options{}, time.Unix(1_800_000_000, 0).Add(-age))
	s.Goal = status
	if status != lifecycle.Up {
		s.Sandbox.Phase = lifecycle.SandboxStopped
		s.Containers[0].Ended = true
	}
	return s
}

func TestPodsAreFound(t *testing.T) {
	t.Parallel()
	pod := func(space, name, uid string) taskdef.PodRef {
		return taskdef.PodRef{Namespace: space, Name: name, UID: uid}
	}
	all := []lifecycle.State{
		podState("a", "mine", pod("default", "web", "u-1"), 0, lifecycle.Up),
		podState("b", "", pod("other", "web", "u-2"), time.Hour, lifecycle.Up),
		podState("c", "", pod("default", "once", "u-3"), time.Hour, lifecycle.Down),
		podState("d", "", pod("default", "once", "u-4"), time.Minute, lifecycle.Down),
		podState("e", "web-2", taskdef.PodRef{}, 0, lifecycle.Up),
		podState("f", "", pod("default", "mine", "u-5"), 0, lifecycle.Up),
	}
	slices.SortFunc(all, func(a, b lifecycle.State) int { return a.CreatedAt.Compare(b.CreatedAt) })
	for ref, want := range map[string]string{
		"default/web": "a", "other/web": "b", "u-2": "b", "once": "d", "default/once": "d", "u-3": "c", "web-2": "e", "mine": "a", "default/mine": "f", "ee": "e",
	} {
		s, err := choose(all, ref)
		if err != nil || s.ID[:1] != want {
			t.Errorf("%s: %v, %v; want %s", ref, s.ID, err, want)
		}
	}
	var ambiguous *AmbiguousError
	if _, err := choose(all, "web"); !errors.As(err, &ambiguous) || !strings.Contains(err.Error(), "default/web (task aaaaaaaaaaaa)") || !strings.Contains(err.Error(), "other/web (task bbbbbbbbbbbb)") {
		t.Errorf("%v", err)
	}
	for _, ref := range []string{"", "/", "default/", "/web", "nothing/web", "u-9"} {
		if s, err := choose(all, ref); err == nil {
			t.Errorf("%q finds %s", ref, s.ID)
		}
	}
}

// A task without a name is shown with its family, so that is what people type.
func TestTasksWithoutANameAreFoundByTheirFamily(t *testing.T) {
	t.Parallel()
	of := func(id, name, family string, age time.Duration, status lifecycle.Goal) lifecycle.State {
		s := podState(id, name, taskdef.PodRef{}, age, status)
		s.Task.Family = family
		return s
	}
	pod := podState("9", "", taskdef.PodRef{Namespace: "default", Name: "p", UID: "u"}, 0, lifecycle.Up)
	pod.Task.Family = "pods"
	all := []lifecycle.State{
		of("1", "", "web", 5*time.Hour, lifecycle.Down),
		of("2", "", "web", 4*time.Hour, lifecycle.Up),
		of("3", "", "web", 3*time.Hour, lifecycle.Down),
		of("4", "", "old", 3*time.Hour, lifecycle.Down),
		of("5", "", "old", 2*time.Hour, lifecycle.Down),
		of("6", "", "two", 2*time.Hour, lifecycle.Up),
		of("7", "", "two", 1*time.Hour, lifecycle.Up),
		of("8", "named", "family", 1*time.Hour, lifecycle.Up),
		of("a", "web-1", "old", 0, lifecycle.Up),
		pod,
	}
	for ref, want := range map[string]string{"web": "2", "old": "5"} {
		if s, err := oneOfFamily(all, ref); err != nil || s.ID[:1] != want {
			t.Errorf("%s: %v, %v; want %s", ref, s.ID, err, want)
		}
	}
	var ambiguous *AmbiguousError
	if _, err := oneOfFamily(all, "two"); !errors.As(err, &ambiguous) || !strings.Contains(err.Error(), "666666666666, 777777777777") {
		t.Errorf("%v", err)
	}
	var gone *NotFoundError
	for _, ref := range []string{"family", "pods", ""} {
		if s, err := oneOfFamily(all, ref); !errors.As(err, &gone) {
			t.Errorf("%q finds %s, %v", ref, s.ID, err)
		}
	}
	// A command that changes something must not take the task of a family for that of a name.
	for ref, ids := range map[string][]string{"web": {"1", "2", "3"}, "two": {"6", "7"}, "family": nil, "pods": nil, "": nil} {
		_, err := choose(all, ref)
		if !errors.As(err, &gone) || len(gone.Family) != len(ids) {
			t.Errorf("%q: %v", ref, err)
			continue
		}
		for _, id := range ids {
			if !strings.Contains(err.Error(), strings.Repeat(id, 12)) {
				t.Errorf("%q: %v, want %s", ref, err, id)
			}
		}
	}
}

// A service stands for its copies that have not stopped, the newest last; once all have, for the latest one.
func TestCopiesOfAService(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store, err := state.OpenIn(dir, state.OS{})
	if err != nil {
		t.Fatal(err)
	}
	locks, err := state.OpenLocks(dir, state.Holder{})
	if err != nil {
		t.Fatal(err)
	}
	tasks := &Tasks{Store: store, Locks: locks}
	put := func(id, service string, age time.Duration, goal lifecycle.Goal) {
		s := podState(id, "", taskdef.PodRef{}, age, goal)
		s.Options.Service = service
		s.Task.Containers[0].Essential, s.Task.Containers[0].StopTimeout = true, time.Second
		if goal == lifecycle.Down {
			s.Stop = lifecycle.StopReason{Code: lifecycle.StopUserInitiated, At: s.CreatedAt}
		}
		data, err := json.Marshal(s)
		if err == nil {
			err = tasks.Store.Put(s.ID, data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	ids := func(service string) (all string) {
		for _, s := range tasks.Copies(service) {
			all += s.ID[:1]
		}
		return all
	}
	put("a", "shop", 3*time.Hour, lifecycle.Down)
	put("b", "shop", time.Hour, lifecycle.Up)
	put("c", "shop", 2*time.Hour, lifecycle.Up)
	put("d", "blog", time.Hour, lifecycle.Up)
	put("e", "old", 2*time.Hour, lifecycle.Down)
	put("f", "old", time.Hour, lifecycle.Down)
	if _, errs := tasks.States(); len(errs) > 0 {
		t.Fatal(errs)
	}
	for service, want := range map[string]string{"shop": "cb", "blog": "d", "old": "f", "none": "", "": ""} {
		if got := ids(service); got != want {
			t.Errorf("%q has the copies %q, want %q", service, got, want)
		}
	}
}
