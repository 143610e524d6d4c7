package lockfile_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/podtask/podtask/internal/define/lockfile"
	"github.com/podtask/podtask/internal/testing/schemafile"
	"github.com/podtask/podtask/pkg/images"
	"github.com/podtask/podtask/pkg/taskdef"
)

func digest(letter string) string { return "sha256:" + strings.Repeat(letter, 64) }

func sample() lockfile.File {
	return lockfile.File{
		Version: lockfile.Version, Definition: lockfile.Definition{File: "web.yaml", Digest: digest("a")},
		LockedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), LockedBy: "podtask dev on host",
		Images: []lockfile.Image{
			{Image: "web:1", Reference: "docker.io/library/web:1", From: "docker.io", Digest: digest("b"), Platforms: map[string]string{"linux/amd64": digest("c"), "linux/arm64/v8": digest("d")}},
			{Image: "app", Reference: "localhost/app:latest", From: "local storage of host", ID: strings.Repeat("e", 64), OnlyHere: lockfile.NoOtherMachine},
		},
	}
}

func TestALockIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "web.lock")
	if err := sample().Save(path); err != nil {
		t.Fatal(err)
	}
	got, err := lockfile.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sample(), got); diff != "" {
		t.Error(diff)
	}
	if _, err := lockfile.Load(path + "x"); !errors.Is(err, lockfile.ErrMissing) {
		t.Errorf("a lock that is not there: %v", err)
	}
}

func TestApplyPinsOrShowsBoth(t *testing.T) {
	t.Parallel()
	amd64 := images.Platform{OS: "linux", Architecture: "amd64"}
	task := taskdef.Task{Containers: []taskdef.Container{{Image: "web:1"}, {Image: "app"}}}
	got, err := sample().Apply("web.lock", "web.yaml", digest("a"), task, amd64)
	want := map[string]string{"web:1": "docker.io/library/web:1@" + digest("b"), "app": "localhost/app:latest"}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	if _, err := sample().Apply("web.lock", "web.yaml", digest("a"), task, images.Platform{OS: "linux", Architecture: "arm64"}); err != nil {
		t.Errorf("a variant of the platform: %v", err)
	}
	if _, err := sample().Apply("web.lock", "web.yaml", digest("a"), task, images.Platform{OS: "linux", Architecture: "s390x"}); err == nil || !strings.Contains(err.Error(), "web:1 is locked for linux/amd64, linux/arm64/v8, and this task needs it for linux/s390x") {
		t.Errorf("another platform: %v", err)
	}
	task.Containers[0].Image = "web:2"
	_, err = sample().Apply("web.lock", "web.yaml", digest("f"), task, amd64)
	var changed *lockfile.DifferenceError
	if !errors.As(err, &changed) {
		t.Fatal(err)
	}
	for _, part := range []string{digest("a"), digest("f"), "web:1", "web:2", "podtask lock web.yaml"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not show %q: %v", part, err)
		}
	}
}

func TestDifferencesOfTwoLocks(t *testing.T) {
	t.Parallel()
	before, now := sample(), sample()
	now.LockedAt = now.LockedAt.Add(time.Hour)
	if !before.Same(now) {
		t.Error("the time alone makes a difference")
	}
	now.Images[0].Digest = digest("9")
	now.Images[1] = lockfile.Image{Image: "new", Reference: "docker.io/library/new:latest", Digest: digest("8")}
	var lines []string
	for _, d := range before.Differences(now) {
		lines = append(lines, d.String())
	}
	want := []string{
		"web:1: locked docker.io/library/web:1@" + digest("b") + ", now docker.io/library/web:1@" + digest("9"),
		"new: locked nothing, now docker.io/library/new:latest@" + digest("8"),
		"app: locked ID " + strings.Repeat("e", 64) + ", now nothing",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Error(diff)
	}
}

// The schema is a file of the documentation, which editors fetch.
func TestTheDocumentationHasTheSchema(t *testing.T) {
	t.Parallel()
	schemafile.Check(t, filepath.Join("..", "..", "..", "docs"), lockfile.SchemaID, lockfile.Schema())
}

func FuzzParse(f *testing.F) {
	text, err := sample().Text()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte("version: 1\nimages: [{image: a, reference: b, from: c, digest: sha256:x}]"))
	f.Fuzz(func(t *testing.T, src []byte) {
		got, err := lockfile.Parse("f", src)
		if err != nil {
			return
		}
		text, err := got.Text()
		if err != nil {
			t.Fatal(err)
		}
		if again, err := lockfile.Parse("f", text); err != nil || !again.Same(got) {
			t.Errorf("it is not read as it was written: %v\n%s", err, text)
		}
	})
}
