package record

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

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
