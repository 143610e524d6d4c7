package effects_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/testing/enginehost"
	"github.com/podtask/podtask/internal/testing/enginetest"
	"github.com/podtask/podtask/pkg/images"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// hanging is a registry that never says anything.
type hanging struct{ enginetest.Registry }

func (hanging) Resolve(ctx context.Context, ref string, _ images.Login) (images.Resolution, error) {
	<-ctx.Done()
	return images.Resolution{}, &images.Error{Class: images.Timeout, Ref: ref, Message: "it did not answer in time"}
}

// stuck is a Podman whose pulls never end.
type stuck struct{ *enginetest.Fake }

func (stuck) Pull(ctx context.Context, ref string, _ libpod.PullOptions) (string, error) {
	<-ctx.Done()
	return "", &libpod.Error{Op: "pull", Object: ref, Class: libpod.Canceled, Cause: "canceled"}
}

// newState is the state of a new task of one container.
func newState(host *enginehost.Host) lifecycle.State {
	return lifecycle.New(strings.Repeat("ab", 16), "", host.Box(0, 0), lifecycle.Options{Pull: lifecycle.PullAlways}, time.Now())
}

func TestRegistryThatHangsIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		host := enginehost.New(t)
		host.Registry = hanging{host.Podman.Registry()}
		st, begun := newState(host), time.Now()
		got := host.Open().Runtime.Apply(t.Context(), st, lifecycle.ResolveImage{ID: 1, Ref: enginehost.RegistryImage})
		if lasted := time.Since(begun); got.Failure.Class != lifecycle.Timeout || lasted != lifecycle.ResolveLimit {
			t.Errorf("%+v after %v", got.Failure, lasted)
		}
	})
}

// Attempts share the time for a digest, as those of a pull share the pull's time.
func TestAttemptsShareTheTimeOfAnImage(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		ask  lifecycle.Effect
		want time.Duration
	}{
		{"digest", lifecycle.ResolveImage{ID: 1, Ref: enginehost.RegistryImage}, 5 * time.Second},
		{"pull", lifecycle.PullImage{ID: 1, Ref: enginehost.RegistryImage, Digest: "sha256:" + strings.Repeat("a", 64)}, 2*time.Hour - 15*time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				host := enginehost.New(t)
				host.Registry = hanging{host.Podman.Registry()}
				st, begun := newState(host), time.Now()
				st.Containers[0].Retry = lifecycle.Retry{Attempts: 1, Since: begun.Add(-15 * time.Second)}
				host.Connect(stuck{host.Podman})
				e := host.Open()
				got := e.Runtime.Apply(t.Context(), st, tc.ask)
				if lasted := time.Since(begun); got.Failure.Class != lifecycle.Timeout || lasted != tc.want {
					t.Errorf("%+v after %v, want %v", got.Failure, lasted, tc.want)
				}
			})
		})
	}
}
