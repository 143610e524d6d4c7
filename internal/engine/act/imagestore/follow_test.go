package imagestore_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/engine/act/imagestore"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/images"
	"github.com/podtask/podtask/pkg/images/imageage"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/service"
	"github.com/podtask/podtask/pkg/taskdef"
)

// movingRegistry has a tag that moves, and counts requests.
type movingRegistry struct {
	imagestore.Registry
	digest string
	err    error
	asked  int
}

func (r *movingRegistry) Resolve(_ context.Context, ref string, _ images.Login) (images.Resolution, error) {
	r.asked++
	return images.Resolution{Reference: ref, Digest: r.digest}, r.err
}

// copyPodman has a copy of an image.
type copyPodman struct {
	imagestore.Podman
	digest string
}

func (p *copyPodman) Image(_ context.Context, ref string) (libpod.Image, error) {
	if p.digest == "" {
		return libpod.Image{}, libpod.NotFound
	}
	return libpod.Image{RepoDigests: []string{"ghcr.io/team/web@" + p.digest}}, nil
}

func digestOf(letter string) string { return "sha256:" + strings.Repeat(letter, 64) }

// ageBed is a host whose state is on disk: each resolver is that of a new process.
type ageBed struct {
	t        *testing.T
	dir      string
	registry *movingRegistry
	podman   *copyPodman
	at       time.Duration
	log      strings.Builder
	rules    imageage.Rules
}

func newAgeBed(t *testing.T) *ageBed {
	return &ageBed{t: t, dir: t.TempDir(), registry: &movingRegistry{digest: digestOf("a")}, podman: &copyPodman{}}
}

func (b *ageBed) process() *imagestore.Resolver {
	b.t.Helper()
	ledger, err := state.OpenLedger(filepath.Join(b.dir, "image-ages"), state.OS{})
	if err != nil {
		b.t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(&b.log, nil))
	return &imagestore.Resolver{
		Log: log, Registry: b.registry, Podman: func(context.Context) (imagestore.Podman, error) { return b.podman, nil }, Rules: b.rules,
		Sights: &imagestore.Sights{Log: log, Ledger: ledger, Moment: func() imageage.Moment {
			return imageage.Moment{Wall: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).Add(b.at), Boot: "a", Up: b.at}
		}},
	}
}

func (b *ageBed) task() lifecycle.State {
	t := taskdef.Task{Family: "web", Containers: []taskdef.Container{{Name: "app", Image: "ghcr.io/team/web:1"}}}
	t.Extensions.MinimumAge = "3d"
	return lifecycle.State{Name: "web", Task: t, Options: lifecycle.Options{Unit: "web-task.service", AutoUpdate: "registry"}}
}

// start starts the task in a new process, and returns the letter of the digest that it gets.
func (b *ageBed) start() string {
	b.t.Helper()
	got, err := b.process().Resolve(b.t.Context(), b.task(), lifecycle.ResolveImage{Ref: "ghcr.io/team/web:1"})
	if err != nil {
		b.t.Fatal(err)
	}
	return strings.TrimPrefix(got.Digest, "sha256:")[:1]
}

const day = 24 * time.Hour

func TestARestartWaitsForTheMinimumAge(t *testing.T) {
	t.Parallel()
	b := newAgeBed(t)
	got := b.start()
	b.registry.digest, b.at = digestOf("b"), day
	got += b.start()
	b.at += 3*day - time.Minute
	got += b.start()
	b.registry.err = errors.New("the registry is away")
	got += b.start() // with what it has
	if _, err := b.process().Follow(t.Context(), b.task(), "ghcr.io/team/web:1"); err == nil {
		t.Error("auto-update does not hear that the registry is away")
	}
	b.registry.err, b.at = nil, b.at+time.Minute
	got += b.start()
	if got != "aaaab" {
		t.Errorf("the starts get %s", got)
	}
	task := b.task()
	task.Task.Extensions.MinimumAge, task.Options.AutoUpdate = "", ""
	if f, err := b.process().Follow(t.Context(), task, "ghcr.io/team/web:1"); err != nil || f.Digest != digestOf("b") || f.Why != "" {
		t.Errorf("a task without a minimum age: %+v, %v", f, err)
	}
}

func TestTheFirstStartGoesOnWithTheCopyOfTheHost(t *testing.T) {
	t.Parallel()
	b := newAgeBed(t)
	b.podman.digest, b.registry.digest = digestOf("a"), digestOf("b")
	f, err := b.process().Follow(t.Context(), b.task(), "ghcr.io/team/web:1")
	if err != nil || f.Digest != digestOf("a") || f.New != digestOf("b") || !f.Until.Equal(time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)) {
		t.Errorf("%+v, %v", f, err)
	}
	if got := b.start(); got != "a" {
		t.Errorf("the start gets %s", got)
	}
	if err := b.process().Allow(t.Context(), b.task(), "ghcr.io/team/web:1", digestOf("b")); err != nil {
		t.Fatal(err)
	}
	if got := b.start(); got != "b" {
		t.Errorf("after --now the start gets %s", got)
	}
}

func TestRulesHoldBackWhatIsOldEnough(t *testing.T) {
	t.Parallel()
	b := newAgeBed(t)
	b.rules.Hours = []imageage.Hours{{From: 2 * 60, To: 5 * 60}}
	got := b.start()
	b.registry.digest, b.at = digestOf("b"), day
	got += b.start()
	b.at += 4 * day
	got += b.start()       // at noon
	b.at += 14 * time.Hour // at two
	got += b.start()
	if got != "aaab" {
		t.Errorf("the starts get %s", got)
	}
	b.rules = imageage.Rules{Registries: []string{"docker.io"}}
	b.registry.digest, b.at = digestOf("c"), b.at+30*day
	if f, err := b.process().Follow(t.Context(), b.task(), "ghcr.io/team/web:1"); err != nil || f.Digest != digestOf("b") || !strings.Contains(f.Why, "update-registries") {
		t.Errorf("%+v, %v", f, err)
	}
}

// TestADamagedBookMakesNothingOlder: it is kept aside and told of, and the task goes on with what the host has.
func TestADamagedBookMakesNothingOlder(t *testing.T) {
	t.Parallel()
	b := newAgeBed(t)
	b.start()
	b.registry.digest, b.at = digestOf("b"), day
	b.start()
	b.podman.digest = digestOf("a")
	dir := filepath.Join(b.dir, "image-ages", "ledger")
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if err := os.WriteFile(files[0], []byte(`{"clock":999999999999`), 0o600); err != nil {
		t.Fatal(err)
	}
	b.at += 2*day + time.Hour
	if got := b.start(); got != "a" {
		t.Errorf("the start gets %s", got)
	}
	b.at += 3*day - time.Minute
	if got := b.start(); got != "a" {
		t.Errorf("the start gets %s, which was seen first after the damage", got)
	}
	b.at += time.Hour
	if got := b.start(); got != "b" {
		t.Errorf("the start gets %s", got)
	}
	book, err := b.process().Sights.Read()
	if err != nil || book.Damaged.IsZero() || !strings.Contains(b.log.String(), "kept aside") {
		t.Errorf("nobody is told: %v, %v, %s", book.Damaged, err, b.log.String())
	}
	kept, err := os.ReadDir(dir)
	if names := fmt.Sprint(kept, err); !strings.Contains(names, "corrupt") {
		t.Errorf("the damaged book is not kept: %s", names)
	}
}

// TestStartsWriteTheBookOnlyForNews: a task that starts often costs no write each time.
func TestStartsWriteTheBookOnlyForNews(t *testing.T) {
	t.Parallel()
	b := newAgeBed(t)
	read := func() string {
		book, err := b.process().Sights.Read()
		text, _ := json.Marshal(book)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	b.start()
	first := read()
	for range 5 {
		b.at += 10 * time.Minute
		b.start()
	}
	if read() != first {
		t.Error("the book was written within an hour, and nothing is new")
	}
	b.at += 10 * time.Minute
	if b.start(); read() == first {
		t.Error("the book was not written for an hour")
	}
}

// TestTagsOfAServiceAreTaken: a service takes all of its tags at once, waits for the minimum age, and what it went back from is
// an update that waits again.
func TestTagsOfAServiceAreTaken(t *testing.T) {
	t.Parallel()
	b := newAgeBed(t)
	s := service.State{Name: "shop", Deployments: []service.Deployment{{Primary: true, Spec: service.Spec{Task: b.task().Task}}}, Config: service.Config{AutoUpdate: service.FromRegistry}}
	s.Deployments[0].Task.Containers = append(s.Deployments[0].Task.Containers, taskdef.Container{Name: "pinned", Image: "ghcr.io/team/db@" + digestOf("d")}, taskdef.Container{Name: "built", Image: "localhost/own:1"})
	take := func(want string) map[string]string {
		t.Helper()
		digests, failed := b.process().TakeTags(t.Context(), imagestore.OfService(s))
		if len(failed) > 0 || len(digests) != 1 || digests["app"] != digestOf(want) {
			t.Errorf("it takes %v, %v; want %s", digests, failed, want)
		}
		return digests
	}
	s.Deployments[0].Spec = s.Primary().Pin(take("a"))
	b.registry.digest, b.at = digestOf("b"), day
	take("a")
	b.at += 3 * day
	s.Deployments[0].Spec.Task = s.Primary().Tagged()
	s.Deployments[0].Spec = s.Primary().Pin(take("b"))
	if image := s.Primary().ImageOf("app"); image != "ghcr.io/team/web:1@"+digestOf("b") {
		t.Errorf("it runs %s", image)
	}
	if err := b.process().Returned(t.Context(), imagestore.OfService(s), "ghcr.io/team/web:1", digestOf("a")); err != nil {
		t.Fatal(err)
	}
	book, err := b.process().Sights.Read()
	if got := book.Tags["ghcr.io/team/web:1"].Takers["service shop"].Digest; err != nil || got != digestOf("a") {
		t.Errorf("it has %s, %v", got, err)
	}
	b.registry.err = errors.New("the registry is away")
	s.Deployments[0].Task.Extensions.MinimumAge = ""
	if digests, failed := b.process().TakeTags(t.Context(), imagestore.OfService(s)); len(digests) != 0 || failed["app"] == nil {
		t.Errorf("without a registry: %v, %v", digests, failed)
	}
	s.Config.AutoUpdate = "" // it goes on with the digests that it has
	if digests, failed := b.process().TakeTags(t.Context(), imagestore.OfService(s)); len(digests)+len(failed) != 0 {
		t.Errorf("without automatic updates: %v, %v", digests, failed)
	}
}
