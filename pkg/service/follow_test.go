package service

import (
	"slices"
	"testing"
	"time"

	"github.com/podtask/podtask/pkg/taskdef"
)

// followed is a spec whose image has a digest and follows a tag.
func followed(revision int, digest string) Spec {
	return spec(revision).Pin(map[string]string{"app": digest, "gone": "sha256:x"})
}

func TestAPinnedSpecKnowsItsTags(t *testing.T) {
	t.Parallel()
	plain := spec(1)
	s := plain.Pin(map[string]string{"app": "sha256:a"})
	if got := s.ImageOf("app"); got != "web@sha256:a" || s.Follows["app"] != "web" || plain.ImageOf("app") != "web" || s.ImageOf("other") != "" {
		t.Errorf("%s follows %v, and before it was %s", got, s.Follows, plain.ImageOf("app"))
	}
	if got := s.Tagged(); got.Containers[0].Image != "web" || s.ImageOf("app") != "web@sha256:a" {
		t.Errorf("tagged it is %s, and after that %s", got.Containers[0].Image, s.ImageOf("app"))
	}
}

func TestNumberedCopiesArePinnedAlike(t *testing.T) {
	t.Parallel()
	plain := spec(1)
	plain.Numbered = &Numbered{Tasks: []taskdef.Task{plain.Task, plain.Task}}
	s := plain.Pin(map[string]string{"app": "sha256:a"})
	again := plain.PinAs(s)
	for _, got := range []Spec{s, again} {
		for _, task := range append(got.Numbered.Tasks, got.Task) {
			if task.Containers[0].Image != "web@sha256:a" {
				t.Errorf("a copy has %s", task.Containers[0].Image)
			}
		}
	}
	if plain.Numbered.Tasks[0].Containers[0].Image != "web" || plain.PinAs(plain).Follows != nil {
		t.Error("a spec that follows nothing is changed")
	}
}

// An image is rejected if its deployment failed or a user went back from it, until it is deployed successfully.
func TestRejectedImages(t *testing.T) {
	t.Parallel()
	w := newWorld(2, careful, followed(1, "sha256:a"))
	rejects := func(want ...string) {
		t.Helper()
		var got []string
		for _, digest := range []string{"sha256:a", "sha256:b", "sha256:c", "sha256:d"} {
			if w.state.Rejected("app", "web@"+digest) {
				got = append(got, digest[len("sha256:"):])
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v are rejected, want %v: %s", got, want, tale(w))
		}
	}
	waitForRest(w, t, time.Minute)
	rejects()
	w.bad["web:2"] = Observation{Stopped: true, Reason: "exit 1"}
	w.tell(update(followed(2, "sha256:b")))
	waitForRest(w, t, time.Hour)
	rejects("b")
	delete(w.bad, "web:2")
	w.tell(update(followed(2, "sha256:b")))
	waitForRest(w, t, time.Minute)
	rejects()
	w.tell(RollbackRequested{}) // a user goes back from what was successful
	waitForRest(w, t, time.Minute)
	rejects("b")
	w.tell(update(followed(3, "sha256:c")))
	w.tell(update(followed(4, "sha256:d"))) // c had no time to fail
	waitForRest(w, t, time.Minute)
	rejects("b")
	w.tell(update(followed(3, "sha256:c")))
	w.tell(AbortRequested{})
	waitForRest(w, t, time.Hour)
	rejects("b", "c")
}
