package imagestore_test

import (
	"context"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/engine/act/imagestore"
	"github.com/podtask/podtask/internal/testing/enginetest"
	"github.com/podtask/podtask/pkg/images"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// described is a registry that describes what it resolves.
type described struct{ imagestore.Registry }

func (d described) Describe(ctx context.Context, ref string, login images.Login, _ images.Platform) (images.Description, error) {
	r, err := d.Resolve(ctx, ref, login)
	return images.Description{Resolution: r}, err
}

// An image of a registry is found there, with its digest; one that was built here in local storage, also by its
// short name. Nothing is pulled.
func TestOriginOfImages(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	digest := s.podman.Push(app, enginetest.Image{Salt: "pushed"})
	s.podman.Load("localhost/tool:1", enginetest.Image{Salt: "built"})
	s.reg = described{s.reg}
	p := s.process()
	got, err := p.images.Origin(t.Context(), s.state(app, lifecycle.PullDefault, nil), app)
	if err != nil || got.Built != nil || got.Digest() != digest || got.Reference != app {
		t.Errorf("an image of a registry: %+v, %v", got, err)
	}
	for _, name := range []string{"localhost/tool:1", "tool:1"} {
		got, err := p.images.Origin(t.Context(), s.state(name, lifecycle.PullDefault, nil), name)
		if err != nil || got.Built == nil || got.Built.ID == "" || got.Reference != "localhost/tool:1" {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if _, err := p.images.Origin(t.Context(), s.state("localhost/none:1", lifecycle.PullDefault, nil), "localhost/none:1"); err == nil || !strings.Contains(err.Error(), "podman build") {
		t.Errorf("an image that was not built: %v", err)
	}
	if s.calls("pull") != 0 {
		t.Error("an image was pulled")
	}
	if _, found, err := p.images.Stored(t.Context(), app); found || err != nil {
		t.Errorf("the image is in local storage: %v", err)
	}
}

// Images of containers and of volumes are brought; one that is pinned and here is not pulled again.
func TestBringImages(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	first := s.podman.Push(app, enginetest.Image{Salt: "first"})
	st := s.state(app, lifecycle.PullAlways, nil)
	st.Task.Containers[0].Extensions.Kube.Images = []taskdef.ImageMount{{Image: "registry.example.com/data:1", Path: "/data"}}
	data := s.podman.Push("registry.example.com/data:1", enginetest.Image{Salt: "data"})
	p := s.process()
	for image, digest := range map[string]string{app: first, "registry.example.com/data:1": data} {
		if got, err := p.puller.Bring(t.Context(), st, image); err != nil || got.Digest != digest || !got.Pulled || got.ID == "" {
			t.Errorf("%s: %+v, %v", image, got, err)
		}
	}
	s.podman.Push(app, enginetest.Image{Salt: "second"})
	pulls := s.calls("pull")
	pinned := app + "@" + first
	if got, err := p.puller.Bring(t.Context(), s.state(pinned, lifecycle.PullAlways, nil), pinned); err != nil || got.Digest != first || s.calls("pull") != pulls {
		t.Errorf("a pinned image that is here: %+v, %v, %d pulls", got, err, s.calls("pull"))
	}
	if _, err := p.puller.Bring(t.Context(), s.state("registry.example.com/none:1", lifecycle.PullAlways, nil), "registry.example.com/none:1"); err == nil {
		t.Error("an image that no registry has")
	}
}
