package imagelook_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/engine/act/imagestore"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/engine/run/imagelook"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/images"
	"github.com/podtask/podtask/pkg/images/imageage"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/service"
	"github.com/podtask/podtask/pkg/taskdef"
)

const image = "ghcr.io/team/web:1"

// registry counts the requests that it gets.
type registry struct {
	imagestore.Registry
	digest string
	err    error
	asked  int
}

func (r *registry) Resolve(_ context.Context, ref string, _ images.Login) (images.Resolution, error) {
	r.asked++
	return images.Resolution{Reference: ref, Digest: r.digest}, r.err
}

// bed is a host with a service that follows a tag and sleeps: it has no task.
type bed struct {
	registry *registry
	images   *imagestore.Resolver
	looker   *imagelook.Looker
	at       time.Duration
}

func newBed(t *testing.T) *bed {
	t.Helper()
	dir := t.TempDir()
	b := &bed{registry: &registry{digest: "sha256:a"}}
	ledger, err := state.OpenLedger(filepath.Join(dir, "image-ages"), state.OS{})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	b.images = &imagestore.Resolver{
		Log: log, Registry: b.registry, Podman: func(context.Context) (imagestore.Podman, error) { return nil, errors.New("away") },
		Sights: &imagestore.Sights{Log: log, Ledger: ledger, Moment: func() imageage.Moment {
			return imageage.Moment{Wall: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC).Add(b.at), Boot: "a", Up: b.at}
		}},
	}
	store, err := state.Open(dir, state.OS{})
	if err != nil {
		t.Fatal(err)
	}
	services, err := state.OpenIn(filepath.Join(dir, "services"), state.OS{})
	if err != nil {
		t.Fatal(err)
	}
	s := service.State{Name: "shop", Deployments: []service.Deployment{{Spec: service.Spec{Task: b.task().Task}}}}
	text, err := json.Marshal(s)
	if err == nil {
		err = services.Put(strings.Repeat("1", 32), text)
	}
	if err != nil {
		t.Fatal(err)
	}
	b.looker = imagelook.New(log, b.images, &record.Tasks{Store: store}, dir)
	return b
}

func (b *bed) task() lifecycle.State {
	t := taskdef.Task{Family: "shop", Containers: []taskdef.Container{{Name: "app", Image: image}, {Name: "again", Image: image}}}
	t.Extensions.MinimumAge = "3d"
	return lifecycle.State{Task: t, Options: lifecycle.Options{Service: "shop"}}
}

// TestADailyLook: one request a day for a tag, also while the service has no copy, and the update is taken on time.
func TestADailyLook(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	if _, err := b.images.Resolve(t.Context(), b.task(), lifecycle.ResolveImage{Ref: image}); err != nil {
		t.Fatal(err)
	}
	b.registry.digest, b.registry.asked = "sha256:b", 0
	for range 6 * 48 { // each half hour of six days
		b.at += 30 * time.Minute
		if err := b.looker.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if b.registry.asked != 6 {
		t.Errorf("asked %d times in six days", b.registry.asked)
	}
	waiting, unseen, err := b.looker.Pending()
	if err != nil || len(waiting) != 1 || waiting[0].For != "service shop" || waiting[0].Why != "" || len(unseen) != 0 {
		t.Errorf("%+v, %v, %v", waiting, unseen, err)
	}
	if got, err := b.images.Resolve(t.Context(), b.task(), lifecycle.ResolveImage{Ref: image}); err != nil || got.Digest != "sha256:b" {
		t.Errorf("the next copy gets %s, %v", got.Digest, err)
	}
}

func TestLooksThatFailAreToldAndBackOff(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	if _, err := b.images.Resolve(t.Context(), b.task(), lifecycle.ResolveImage{Ref: image}); err != nil {
		t.Fatal(err)
	}
	b.registry.err, b.registry.asked = errors.New("the registry is away"), 0
	for range 3 * 48 {
		b.at += 30 * time.Minute
		before := b.registry.asked
		if err := b.looker.Look(t.Context()); (err != nil) != (b.registry.asked > before) {
			t.Fatalf("asked %d times, %v", b.registry.asked, err)
		}
	}
	if b.registry.asked < 5 || b.registry.asked > 9 {
		t.Errorf("asked %d times in three days", b.registry.asked)
	}
	if _, unseen, err := b.looker.Pending(); err != nil || !strings.Contains(unseen[image], "away") {
		t.Errorf("%v, %v", unseen, err)
	}
	b.registry.err, b.at = nil, b.at+24*time.Hour
	if err := b.looker.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, unseen, err := b.looker.Pending(); err != nil || len(unseen) != 0 {
		t.Errorf("%v, %v", unseen, err)
	}
}
