package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/imagestore"
	"github.com/podtask/podtask/pkg/libpod"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// Two tags of a repository that lead to the same image are both names that podtask
// gave: the image can be removed with them. A name of somebody else's keeps it.
func TestSeveralTagsOfOneImage(t *testing.T) {
	cleanBed(t, func(t *testing.T, h *Agent, p *shelf) {
		pullAs(t, h, p, "a", "app:1")
		pullAs(t, h, p, "a", "app:2")
		pullAs(t, h, p, "b", "other:1")
		if err := p.Tag(t.Context(), strings.Repeat("b", 64), "r.example/other:mine"); err != nil {
			t.Fatal(err)
		}
		pullAs(t, h, p, "b", "other:mine") // by its digest it is there, with that name
		if p.names() != "app:1+r.example/app:2 other:1+r.example/other:mine" {
			t.Fatalf("there is %s", p.names())
		}
		<-time.After(time.Hour)
		if got := clean(t, h, imagestore.PruneOptions{}); got != "a" {
			t.Errorf("removed %s; there is %s", got, p.names())
		}
	})
}

// What the registry was asked about and was here counts for once, but is not podtask's to
// remove before it is pulled.
func TestImageThatWasHereCountsForOnce(t *testing.T) {
	cleanBed(t, func(t *testing.T, h *Agent, p *shelf) {
		id := strings.Repeat("a", 64)
		theirs := libpod.Image{ID: id, Names: []string{"r.example/app:1"}, RepoDigests: []string{"r.example/app@sha256:" + id}}
		p.images = []libpod.Image{theirs}
		bring := func() {
			t.Helper()
			s := lifecycle.New(strings.Repeat("ab", 16), "", testTask(t, "r.example/app:1"), lifecycle.Options{Pull: lifecycle.PullOnce}, time.Now())
			if _, err := h.Puller.Pull(t.Context(), s, lifecycle.PullImage{ID: 1, Ref: "r.example/app:1", Digest: "sha256:" + id}); err != nil {
				t.Fatal(err)
			}
		}
		bring()
		if !h.Images.Records.PulledBefore("r.example/app:1") || h.Images.Records.PulledBefore("r.example/app:2") {
			t.Error("it is not remembered that nothing was to be pulled")
		}
		<-time.After(time.Hour)
		if got := clean(t, h, imagestore.PruneOptions{}); got != "" {
			t.Errorf("removed %s, which was there before", got)
		}
		p.images = nil // its owner has removed it
		bring()
		<-time.After(time.Hour)
		if got := clean(t, h, imagestore.PruneOptions{}); got != "a" {
			t.Errorf("removed %q; there is %s", got, p.names())
		}
	})
}
