package imagestore_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podtask/podtask/internal/engine/act/effects"
	"github.com/podtask/podtask/internal/engine/act/imagestore"
	"github.com/podtask/podtask/internal/engine/facts/conn"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/pkg/images"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// shelf is a Podman that has images and nothing else. It is no fake of Podman:
// the conformance suite is for that.
type shelf struct {
	conn.Podman
	mu     sync.Mutex // for a clean-up beside the test
	images []libpod.Image
	full   int // pulls that end for want of space
	used   map[string]bool
	asked  int // what the host is like
}

func (p *shelf) Close() error { return nil }

func (p *shelf) Images(context.Context) ([]libpod.Image, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.images), nil
}

func (p *shelf) Host(context.Context) (libpod.Host, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	return libpod.Host{GraphRoot: "/"}, nil
}

func (p *shelf) Image(_ context.Context, ref string) (libpod.Image, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.find(ref)
}

func (p *shelf) find(ref string) (libpod.Image, error) {
	for _, m := range p.images {
		if m.ID == ref || slices.Contains(m.Names, ref) || slices.Contains(m.RepoDigests, ref) {
			return m, nil
		}
	}
	return libpod.Image{}, &libpod.Error{Class: libpod.NotFound}
}

func (p *shelf) Pull(_ context.Context, ref string, _ libpod.PullOptions) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.full > 0 {
		p.full--
		return "", &libpod.Error{Op: "pull", Object: ref, Class: libpod.NoSpace, Cause: "no space left on device"}
	}
	r, err := images.ParseRef(ref)
	if err != nil {
		return "", err
	}
	id := strings.TrimPrefix(r.Digest(), "sha256:")
	if _, err := p.find(id); err != nil {
		p.images = append(p.images, libpod.Image{ID: id, RepoDigests: []string{ref}, Size: 100})
	}
	return id, nil
}

func (p *shelf) Tag(_ context.Context, id, name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.images {
		p.images[i].Names = slices.DeleteFunc(p.images[i].Names, func(n string) bool { return n == name })
		if p.images[i].ID == id {
			p.images[i].Names = append(p.images[i].Names, name)
		}
	}
	return nil
}

func (p *shelf) RemoveUnusedImage(_ context.Context, m libpod.Image) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.used[m.ID] {
		return &libpod.Error{Class: libpod.Conflict, Cause: "image is in use by a container"}
	}
	p.images = slices.DeleteFunc(p.images, func(i libpod.Image) bool { return i.ID == m.ID })
	return nil
}

// A round of clean-up and a pull ask at the same time, and so do processes.
func TestWherePodmanKeepsImagesIsWrittenDownByOne(t *testing.T) {
	cleanBed(t, func(t *testing.T, h *process, _ *shelf) {
		for range 50 {
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					if root, err := h.pruner.RefreshGraphRoot(t.Context()); root == "" || err != nil {
						t.Errorf("%q, %v", root, err)
					}
				})
			}
			all.Wait()
		}
		if root, err := h.pruner.GraphRoot(t.Context()); root == "" || err != nil {
			t.Errorf("%q, %v", root, err)
		}
	})
}

// names lists what is there by tag or, without one, by the beginning of the ID.
func (p *shelf) names() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	for _, m := range p.images {
		name := m.ID[:1]
		if len(m.Names) > 0 {
			name = strings.TrimPrefix(strings.Join(m.Names, "+"), "r.example/")
		}
		out = append(out, name)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// someRegistry allows everything and knows nothing.
type someRegistry struct{ imagestore.Registry }

func (someRegistry) Access(images.Ref, images.Login) (images.Login, string, error) {
	return images.Login{}, "", nil
}

func (someRegistry) Describe(context.Context, string, images.Login, images.Platform) (images.Description, error) {
	return images.Description{}, nil
}

// taskWith is a task of one container.
func taskWith(t *testing.T, image string) taskdef.Task {
	t.Helper()
	return taskOf(t, map[string]any{"name": "app", "image": image})
}

// cleanBed runs a test in a bubble, where time passes at once.
func cleanBed(t *testing.T, test func(t *testing.T, h *process, p *shelf)) {
	t.Helper()
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		p := &shelf{used: map[string]bool{}}
		s := &store{t: t, dir: dir, env: map[string]string{}, reg: someRegistry{}}
		test(t, s.processWith(p), p)
	})
}

// pullAs pulls an image whose id repeats a letter, under a name, a minute after
// the one before.
func pullAs(t *testing.T, h *process, p *shelf, letter, name string) lifecycle.Result {
	t.Helper()
	<-time.After(time.Minute)
	ref := "r.example/" + name
	s := lifecycle.New(strings.Repeat("ab", 16), "", taskWith(t, ref), lifecycle.Options{Pull: lifecycle.PullAlways}, time.Now())
	r, err := h.puller.Pull(t.Context(), s, lifecycle.PullImage{ID: 1, Ref: ref, Digest: "sha256:" + strings.Repeat(letter, 64)})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func clean(t *testing.T, h *process, o imagestore.PruneOptions) (removed string) {
	t.Helper()
	list, err := h.pruner.Prune(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, l := range list {
		out = append(out, l.ID[:1])
	}
	return strings.Join(out, " ")
}

func TestCleanupRemovesLeastRecentlyUsedFirstUpToTheLimit(t *testing.T) {
	cleanBed(t, func(t *testing.T, h *process, p *shelf) {
		for _, name := range []string{"a", "b", "c"} {
			pullAs(t, h, p, name, name+":1")
		}
		pullAs(t, h, p, "a", "a:1") // used again
		<-time.After(time.Hour)
		if got := clean(t, h, imagestore.PruneOptions{Limit: 2, DryRun: true}); got != "b c" || p.names() != "a:1 b:1 c:1" {
			t.Errorf("a dry run would remove %s; there is %s", got, p.names())
		}
		if got := clean(t, h, imagestore.PruneOptions{Limit: 2}); got != "b c" || p.names() != "a:1" {
			t.Errorf("removed %s; there is %s", got, p.names())
		}
		// It is forgotten too, and pulled again when it is wanted.
		pullAs(t, h, p, "b", "b:1")
		if p.names() != "a:1 b:1" {
			t.Errorf("there is %s", p.names())
		}
	})
}

func TestCleanupKeepsWhatIsYoungOrInUse(t *testing.T) {
	cleanBed(t, func(t *testing.T, h *process, p *shelf) {
		p.images = []libpod.Image{{ID: strings.Repeat("e", 64), Names: []string{"r.example/users:1"}}}
		pullAs(t, h, p, "e", "users:1") // it was there before
		for _, name := range []string{"a", "b", "c", "d", "f"} {
			pullAs(t, h, p, name, name+":1")
		}
		p.used[strings.Repeat("a", 64)] = true // by a container that was made this moment
		p.images[2].Containers = 1             // b: by a user's container
		if err := p.Tag(t.Context(), strings.Repeat("c", 64), "r.example/kept:1"); err != nil {
			t.Fatal(err)
		}
		task := h.record(t, taskWith(t, "r.example/d:1")) // d: by a task that has not begun
		<-time.After(time.Hour)
		pullAs(t, h, p, "9", "young:1")
		if got := clean(t, h, imagestore.PruneOptions{MinAge: time.Hour}); got != "f" {
			t.Errorf("removed %s; there is %s", got, p.names())
		}
		// Even on demand, an image that was used just now is kept.
		if got := clean(t, h, imagestore.PruneOptions{}); got != "" {
			t.Errorf("removed %s", got)
		}
		list, err := h.pruner.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		keep := map[string]string{}
		for _, l := range list {
			keep[l.ID[:1]] = l.Keep
		}
		for id, want := range map[string]string{"e": "before podtask", "b": "1 container", "c": "kept:1", "d": task.ID[:12], "a": "", "9": "last ten minutes"} {
			if got := keep[id]; want == "" && got != "" || !strings.Contains(got, want) {
				t.Errorf("%s is kept because %q, want %q", id, got, want)
			}
		}
	})
}

// ECS: TestImageWithSameNameAndDifferentID, TestImageWithSameIDAndDifferentNames.
func TestCleanupKnowsMovedTagsAndSeveralNames(t *testing.T) {
	cleanBed(t, func(t *testing.T, h *process, p *shelf) {
		pullAs(t, h, p, "a", "app:1")
		pullAs(t, h, p, "b", "app:1") // the tag has moved
		pullAs(t, h, p, "c", "one:1")
		pullAs(t, h, p, "c", "two:1")
		if p.names() != "a app:1 one:1+r.example/two:1" {
			t.Fatalf("there is %s", p.names())
		}
		<-time.After(time.Hour)
		if got := clean(t, h, imagestore.PruneOptions{}); got != "a b c" || p.names() != "" {
			t.Errorf("removed %s; there is %s", got, p.names())
		}
	})
}

func TestCleanupComesWhenItIsDue(t *testing.T) {
	cleanBed(t, func(t *testing.T, h *process, p *shelf) {
		pullAs(t, h, p, "a", "a:1")
		h.pruner.PruneIfDue(t.Context(), t.Context())
		<-time.After(h.policy.MinAge)
		h.pruner.PruneIfDue(t.Context(), t.Context())
		if p.names() != "" {
			t.Errorf("there is %s", p.names())
		}
		pullAs(t, h, p, "b", "b:1")
		h.policy.MinAge = 0
		<-time.After(h.policy.Interval / 2)
		h.pruner.PruneIfDue(t.Context(), t.Context())
		if p.names() != "b:1" {
			t.Error("a round came too soon")
		}
		h.policy.Cleanup = false
		<-time.After(h.policy.Interval)
		h.pruner.Rounds(t.Context(), t.Context())
		if p.names() != "b:1" {
			t.Error("a round came though clean-up is off")
		}
	})
}

// A task that runs for weeks is followed by rounds of clean-up, which end with it.
func TestCleanupComesAgainWhileATaskRuns(t *testing.T) {
	cleanBed(t, func(t *testing.T, h *process, p *shelf) {
		running, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			h.pruner.Rounds(t.Context(), running)
		}()
		synctest.Wait()
		for _, name := range []string{"a", "b"} {
			pullAs(t, h, p, name, name+":1")
			<-time.After(h.policy.MinAge + 2*h.policy.Interval)
			synctest.Wait()
			if p.names() != "" {
				t.Errorf("there is %s", p.names())
			}
		}
		stop()
		<-ended
	})
}

// Who stops a task does not wait until all unused images are removed.
func TestCleanupOfATaskThatHasEndedRemovesOneImage(t *testing.T) {
	cleanBed(t, func(t *testing.T, h *process, p *shelf) {
		for _, name := range []string{"a", "b", "c"} {
			pullAs(t, h, p, name, name+":1")
		}
		<-time.After(h.policy.MinAge)
		ended, end := context.WithCancel(t.Context())
		end()
		h.pruner.PruneIfDue(t.Context(), ended)
		if p.names() != "b:1 c:1" {
			t.Errorf("there is %s", p.names())
		}
	})
}

func TestCleanupMakesRoomBeforeAPull(t *testing.T) {
	cleanBed(t, func(t *testing.T, h *process, p *shelf) {
		h.policy.MinFree = 200
		h.pruner.Free = func(string) (int64, error) { return 500 - 100*int64(len(p.images)), nil }
		for _, name := range []string{"a", "b", "c"} {
			pullAs(t, h, p, name, name+":1")
		}
		<-time.After(time.Hour)
		pullAs(t, h, p, "d", "d:1") // 200 are free: enough
		if p.names() != "a:1 b:1 c:1 d:1" {
			t.Errorf("there is %s", p.names())
		}
		<-time.After(time.Hour)
		pullAs(t, h, p, "e", "e:1") // 100 are free: until there are 300
		if p.names() != "c:1 d:1 e:1" {
			t.Errorf("there is %s", p.names())
		}
	})
}

// To ask Podman where its images are takes long: a pull does not wait for that, even
// in another process; a round of clean-up asks again.
func TestWherePodmanKeepsImagesIsRemembered(t *testing.T) {
	cleanBed(t, func(t *testing.T, h *process, p *shelf) {
		pullAs(t, h, p, "a", "a:1")
		other := h.store.processWith(p)
		pullAs(t, other, p, "b", "b:1")
		if p.asked != 1 {
			t.Errorf("Podman was asked %d times", p.asked)
		}
		<-time.After(h.policy.Interval)
		other.pruner.PruneIfDue(t.Context(), t.Context())
		if p.asked != 2 {
			t.Errorf("after a round Podman was asked %d times", p.asked)
		}
	})
}

func TestFullDiskInAPullIsCleanedUpOnce(t *testing.T) {
	cleanBed(t, func(t *testing.T, h *process, p *shelf) {
		pullAs(t, h, p, "a", "a:1")
		<-time.After(time.Hour)
		p.full = 1
		pullAs(t, h, p, "b", "b:1")
		if p.names() != "b:1" {
			t.Errorf("there is %s", p.names())
		}
		// With nothing to remove there is no second try.
		p.full = 2
		s := lifecycle.New(strings.Repeat("ab", 16), "", taskWith(t, "r.example/c:1"), lifecycle.Options{Pull: lifecycle.PullAlways}, time.Now())
		_, err := h.puller.Pull(t.Context(), s, lifecycle.PullImage{ID: 1, Ref: "r.example/c:1", Digest: "sha256:" + strings.Repeat("c", 64)})
		if f := effects.Failure(err); f.Class != lifecycle.Permanent || !strings.Contains(f.Message, "image prune") || p.full != 1 {
			t.Errorf("%+v, %d tries left", f, p.full)
		}
	})
}

// A crash in the middle of a pull leaves an image that does not count as podtask's.
func TestImageOfABrokenPullIsNotRemoved(t *testing.T) {
	cleanBed(t, func(t *testing.T, h *process, p *shelf) {
		pullAs(t, h, p, "a", "a:1")
		m, _, err := h.records.Find("r.example/a@sha256:" + strings.Repeat("a", 64))
		if err != nil {
			t.Fatal(err)
		}
		m.ID, m.PulledAt, m.Ours = "", time.Time{}, false
		if err := h.records.Write(m); err != nil {
			t.Fatal(err)
		}
		if h.records.PulledBefore("r.example/a:1") {
			t.Error("a pull that never ended counts for once")
		}
		<-time.After(time.Hour)
		if got := clean(t, h, imagestore.PruneOptions{}); got != "" {
			t.Errorf("removed %s", got)
		}
	})
}

// Two tags of a repository that lead to the same image are both names that podtask
// gave: the image can be removed with them. A name that a user gave keeps it.
func TestSeveralTagsOfOneImage(t *testing.T) {
	cleanBed(t, func(t *testing.T, h *process, p *shelf) {
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
	cleanBed(t, func(t *testing.T, h *process, p *shelf) {
		id := strings.Repeat("a", 64)
		theirs := libpod.Image{ID: id, Names: []string{"r.example/app:1"}, RepoDigests: []string{"r.example/app@sha256:" + id}}
		p.images = []libpod.Image{theirs}
		bring := func() {
			t.Helper()
			s := lifecycle.New(strings.Repeat("ab", 16), "", taskWith(t, "r.example/app:1"), lifecycle.Options{Pull: lifecycle.PullOnce}, time.Now())
			if _, err := h.puller.Pull(t.Context(), s, lifecycle.PullImage{ID: 1, Ref: "r.example/app:1", Digest: "sha256:" + id}); err != nil {
				t.Fatal(err)
			}
		}
		bring()
		if !h.records.PulledBefore("r.example/app:1") || h.records.PulledBefore("r.example/app:2") {
			t.Error("it is not remembered that nothing was to be pulled")
		}
		<-time.After(time.Hour)
		if got := clean(t, h, imagestore.PruneOptions{}); got != "" {
			t.Errorf("removed %s, which was there before", got)
		}
		p.images = nil // a user has removed it
		bring()
		<-time.After(time.Hour)
		if got := clean(t, h, imagestore.PruneOptions{}); got != "a" {
			t.Errorf("removed %q; there is %s", got, p.names())
		}
	})
}
