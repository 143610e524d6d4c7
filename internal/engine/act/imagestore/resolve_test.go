package imagestore

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// countingPodman takes a second to find an image.
type countingPodman struct {
	Podman
	mu    sync.Mutex
	asked int
}

func (p *countingPodman) Image(_ context.Context, ref string) (libpod.Image, error) {
	p.mu.Lock()
	p.asked++
	p.mu.Unlock()
	<-time.After(time.Second)
	return libpod.Image{RepoDigests: []string{"localhost/a@sha256:" + digits}}, nil
}

const digits = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func TestContainersWithTheSameLocalImageAskOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		podman := &countingPodman{}
		r := &Resolver{Podman: func(context.Context) (Podman, error) { return podman, nil }}
		s := lifecycle.State{Task: taskdef.Task{Containers: make([]taskdef.Container, 3)}, Options: lifecycle.Options{Pull: lifecycle.PullNever}}
		var wg sync.WaitGroup
		for i := range s.Task.Containers {
			wg.Go(func() {
				got, err := r.Resolve(t.Context(), s, lifecycle.ResolveImage{Index: i, Ref: "localhost/a:1"})
				if err != nil || got.Digest != "sha256:"+digits {
					t.Errorf("container %d: %s, %v", i, got.Digest, err)
				}
			})
		}
		wg.Wait()
		if podman.asked != 1 {
			t.Errorf("Podman was asked %d times", podman.asked)
		}
	})
}
