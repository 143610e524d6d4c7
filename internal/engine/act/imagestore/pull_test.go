package imagestore_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/podtask/podtask/internal/engine/act/imagestore"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/testing/enginetest"
	"github.com/podtask/podtask/pkg/images"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

const app = "registry.example.com/app:1"

// ECS: ECS_IMAGE_PULL_BEHAVIOR once. What podtask pulled itself is not asked for
// again; what was there already is.
func TestOnceCountsOnlyWhatPodtaskPulled(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.podman.Load(app, enginetest.Image{Salt: "loaded"})
	want := s.podman.Push(app, enginetest.Image{Salt: "pushed"})
	once := s.state(app, lifecycle.PullOnce, nil)
	digest, got := s.bring(s.process(), once)
	if digest != want || got.Result.Source != lifecycle.SourceRegistry || s.calls("pull") != 1 {
		t.Fatalf("a preloaded image: digest %s, %+v, %d pulls", digest, got, s.calls("pull"))
	}
	s.podman.Push(app, enginetest.Image{Salt: "newer"})
	// Another process remembers it too.
	digest, got = s.bring(s.process(), once)
	if digest != want || got.Result.Source != lifecycle.SourceCache || s.calls("pull") != 1 {
		t.Errorf("the second time: digest %s, %+v, %d pulls", digest, got, s.calls("pull"))
	}
	// A removed image is pulled again.
	s.podman.RemoveImage(app)
	if _, got = s.bring(s.process(), once); got.Failure.Class != lifecycle.OK || s.calls("pull") != 2 {
		t.Errorf("a removed image: %+v, %d pulls", got, s.calls("pull"))
	}
}

func TestPullBehaviourWhenThePullFails(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		behaviour lifecycle.PullBehavior
		source    string // empty: it fails
	}{
		{lifecycle.PullDefault, lifecycle.SourceCache},
		{lifecycle.PullAlways, ""},
		{lifecycle.PullOnce, ""},
		{lifecycle.PullPreferCached, lifecycle.SourceCache}, // nothing is pulled
		{lifecycle.PullNever, lifecycle.SourceCache},
	} {
		s := newStore(t)
		s.podman.Load(app, enginetest.Image{Salt: "stale"})
		s.podman.Push(app, enginetest.Image{Salt: "new"})
		s.podman.Fail(func(c enginetest.Call) enginetest.Fault {
			if c.Op == "pull" {
				return enginetest.Fault{Moment: enginetest.Before, Class: libpod.Denied}
			}
			return enginetest.Fault{}
		})
		digest, got := s.bring(s.process(), s.state(app, tc.behaviour, nil))
		if tc.behaviour == lifecycle.PullDefault && (digest == "" || got.Result.Digest == digest) {
			t.Errorf("the stale copy is reported by the registry's digest %q", got.Result.Digest)
		}
		if got.Result.Source != tc.source || (got.Failure.Class == lifecycle.OK) != (tc.source != "") {
			t.Errorf("%v: %+v", tc.behaviour, got)
		}
		if tc.source == "" && got.Failure.Class != lifecycle.Permanent {
			t.Errorf("%v: a refusal is tried again: %+v", tc.behaviour, got.Failure)
		}
	}
}

// A local copy stands in for a registry that is away, but not for an image that was
// refused for what it is.
func TestLocalCopyDoesNotGetAroundARefusal(t *testing.T) {
	t.Parallel()
	for class, tolerated := range map[libpod.Class]bool{
		libpod.Untrusted: false, libpod.WrongContent: false,
		libpod.Denied: true, libpod.NoImage: true, libpod.Other: true,
	} {
		s := newStore(t)
		s.podman.Load(app, enginetest.Image{Salt: "stale"})
		s.podman.Push(app, enginetest.Image{Salt: "new"})
		s.podman.Fail(func(c enginetest.Call) enginetest.Fault {
			if c.Op == "pull" {
				return enginetest.Fault{Moment: enginetest.Before, Class: class}
			}
			return enginetest.Fault{}
		})
		if _, got := s.bring(s.process(), s.state(app, lifecycle.PullDefault, nil)); (got.Failure.Class == lifecycle.OK) != tolerated {
			t.Errorf("%v: %+v", class, got)
		}
	}
}

// A broken image in the user's storage, because of which Podman cannot list its images, is in the
// way of no pull. What is pulled then is not podtask's to remove, because it may have been there.
func TestPullWhenImagesCannotBeListed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		faults []enginetest.Fault
		pulled bool
		ours   bool
	}{
		{"there is a list", nil, true, true},
		{"there is none", []enginetest.Fault{{Moment: enginetest.Before, Class: libpod.Other}}, true, false},
		{"the next attempt may have one", []enginetest.Fault{{Moment: enginetest.Before, Class: libpod.Temporary}}, false, false},
	} {
		s := newStore(t)
		s.podman.Push(app, enginetest.Image{Salt: "pushed"})
		s.podman.Fail(enginetest.Script("list", tt.faults...))
		p := s.process()
		digest, got := s.bring(p, s.state(app, lifecycle.PullAlways, nil))
		if (got.Failure.Class == lifecycle.OK) != tt.pulled {
			t.Errorf("%s: %+v", tt.name, got)
		}
		if m, _, err := p.records.Find("registry.example.com/app@" + digest); err != nil || m.Ours != tt.ours {
			t.Errorf("%v: the image is podtask's: %v, %v", tt.name, m.Ours, err)
		}
	}
}

// slow is a Podman whose pulls wait for release.
type slow struct {
	*enginetest.Fake
	begun   chan string
	release chan struct{}
}

func (p *slow) Pull(ctx context.Context, ref string, o libpod.PullOptions) (string, error) {
	p.begun <- ref
	select {
	case <-p.release:
		return p.Fake.Pull(ctx, ref, o)
	case <-ctx.Done():
		return "", &libpod.Error{Op: "pull", Object: ref, Class: libpod.Canceled, Cause: "canceled"}
	}
}

func TestAPullIsSharedAndEndsWithItsLastTask(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		digest := s.podman.Push(app, enginetest.Image{})
		podman := &slow{s.podman, make(chan string, 9), make(chan struct{})}
		h := s.processWith(podman)
		st := s.state(app, lifecycle.PullAlways, nil)
		pull := func(ctx context.Context) lifecycle.OpFinished {
			return h.apply(ctx, st, lifecycle.PullImage{ID: 1, Ref: app, Digest: digest})
		}
		first, stopFirst := context.WithCancel(t.Context())
		second, stopSecond := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if got := pull(first); got.Failure.Class != lifecycle.Canceled {
				t.Errorf("the first: %+v", got)
			}
		})
		<-podman.begun
		wg.Go(func() {
			if got := pull(second); got.Failure.Class != lifecycle.Canceled {
				t.Errorf("the second: %+v", got)
			}
		})
		synctest.Wait()
		stopFirst()
		synctest.Wait()
		if n := len(podman.begun); n != 0 {
			t.Errorf("the pull was begun again %d times", n)
		}
		stopSecond()
		wg.Wait()
		// It was given up: the next task starts a new pull.
		wg.Go(func() {
			if got := pull(t.Context()); got.Failure.Class != lifecycle.OK {
				t.Errorf("the third: %+v", got)
			}
		})
		<-podman.begun
		close(podman.release)
		wg.Wait()
	})
}

// A watch that starts in the middle of a pull reports it, and its end.
func TestPullsAreWatched(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	digest := s.podman.Push(app, enginetest.Image{})
	podman := &slow{s.podman, make(chan string, 9), make(chan struct{})}
	h := s.processWith(podman)
	release := sync.OnceFunc(func() { close(podman.release) })
	phases := func(follow bool) (seen []imagestore.Phase) {
		t.Helper()
		enough := errors.New("enough")
		err := h.pulls.Watch(t.Context(), follow, func(p imagestore.Progress) error {
			if p.Image != app {
				t.Errorf("of %s", p.Image)
			}
			if seen = append(seen, p.Phase); p.Phase == imagestore.Done {
				return enough
			}
			if follow {
				release()
			}
			return nil
		})
		if follow != errors.Is(err, enough) {
			t.Errorf("it ends with %v", err)
		}
		return slices.Compact(seen)
	}
	if got := phases(false); len(got) > 0 {
		t.Errorf("before the pull: %v", got)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		st := s.state(app, lifecycle.PullAlways, nil)
		if got := h.apply(t.Context(), st, lifecycle.PullImage{ID: 1, Ref: app, Digest: digest}); got.Failure.Class != lifecycle.OK {
			t.Errorf("%+v", got)
		}
	})
	<-podman.begun
	if got := phases(false); !slices.Equal(got, []imagestore.Phase{imagestore.Pulling}) {
		t.Errorf("in its middle: %v", got)
	}
	if got := phases(true); !slices.Equal(got, []imagestore.Phase{imagestore.Pulling, imagestore.Done}) {
		t.Errorf("to its end: %v", got)
	}
	wg.Wait()
	if got := phases(false); len(got) > 0 {
		t.Errorf("after the pull: %v", got)
	}
}

// Two processes that want the same image pull it once.
func TestProcessesShareAPull(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	digest := s.podman.Push(app, enginetest.Image{})
	podman := &slow{s.podman, make(chan string, 9), make(chan struct{})}
	st := s.state(app, lifecycle.PullAlways, nil)
	var wg sync.WaitGroup
	for range 2 {
		h := s.processWith(podman)
		wg.Go(func() {
			if got := h.apply(t.Context(), st, lifecycle.PullImage{ID: 1, Ref: app, Digest: digest}); got.Failure.Class != lifecycle.OK {
				t.Errorf("%+v", got)
			}
		})
	}
	<-podman.begun
	close(podman.release)
	wg.Wait()
	if n := s.calls("pull"); n != 1 {
		t.Errorf("%d pulls", n)
	}
}

// counting counts pulls that run at once.
type counting struct {
	*slow
	now, most atomic.Int64
}

func (p *counting) Pull(ctx context.Context, ref string, o libpod.PullOptions) (string, error) {
	n := p.now.Add(1)
	defer p.now.Add(-1)
	for most := p.most.Load(); n > most && !p.most.CompareAndSwap(most, n); most = p.most.Load() {
	}
	return p.slow.Pull(ctx, ref, o)
}

func TestNoMorePullsAtOnceThanAllowed(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.env["PODTASK_PULLS_AT_ONCE"] = "2"
	podman := &counting{slow: &slow{s.podman, make(chan string, 9), make(chan struct{})}}
	waits := make(chan string, 9)
	s.progress = func(p imagestore.Progress) {
		if p.Phase == imagestore.Waiting {
			waits <- p.Image
		}
	}
	var wg sync.WaitGroup
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		ref := "registry.example.com/" + name + ":1"
		digest := s.podman.Push(ref, enginetest.Image{Salt: name})
		h, st := s.processWith(podman), s.state(ref, lifecycle.PullAlways, nil)
		wg.Go(func() {
			if got := h.apply(t.Context(), st, lifecycle.PullImage{ID: 1, Ref: ref, Digest: digest}); got.Failure.Class != lifecycle.OK {
				t.Errorf("%+v", got)
			}
		})
	}
	begun := 0
	for range 5 { // each begins or waits before any may continue
		select {
		case <-podman.begun:
			begun++
		case <-waits:
		}
	}
	if begun != 2 {
		t.Errorf("%d pulls begin, want 2 of 5", begun)
	}
	for range 5 {
		podman.release <- struct{}{}
	}
	wg.Wait()
	if most := podman.most.Load(); most != 2 {
		t.Errorf("%d pulls at once, want 2", most)
	}
}

// asking is a registry that notes logins and says what platforms there are.
type asking struct {
	enginetest.Registry
	logins   []images.Login
	variants []images.Variant
	access   []string
}

func (r *asking) Access(ref images.Ref, l images.Login) (images.Login, string, error) {
	r.access = append(r.access, ref.String())
	return r.Registry.Access(ref, l)
}

func (r *asking) Resolve(ctx context.Context, ref string, l images.Login) (images.Resolution, error) {
	r.logins = append(r.logins, l)
	return r.Registry.Resolve(ctx, ref, l)
}

func (r *asking) Describe(context.Context, string, images.Login, images.Platform) (images.Description, error) {
	return images.Description{Resolution: images.Resolution{Reference: app}, Variants: r.variants}, nil
}

func TestWrongPlatformIsRefusedBeforeThePull(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.podman.Push(app, enginetest.Image{})
	s.reg = &asking{Registry: s.podman.Registry(), variants: []images.Variant{{Platform: images.Platform{OS: "linux", Architecture: "s390x"}}}}
	_, got := s.bring(s.process(), s.state(app, lifecycle.PullAlways, nil))
	if got.Failure.Class != lifecycle.Permanent || !strings.Contains(got.Failure.Message, "linux/s390x") || !strings.Contains(got.Failure.Message, images.Here().String()) {
		t.Errorf("%+v", got)
	}
	if s.calls("pull") > 0 {
		t.Error("it was pulled")
	}
}

// lying sends another manifest than the one of the digest.
type lying struct{ imagestore.Registry }

func (lying) Describe(context.Context, string, images.Login, images.Platform) (images.Description, error) {
	return images.Description{}, images.ErrWrongContent
}

func TestManifestWithAnotherDigestIsNotPulled(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.podman.Push(app, enginetest.Image{})
	s.reg = lying{s.podman.Registry()}
	s.podman.Load(app, enginetest.Image{Salt: "stale"})
	for _, behavior := range []lifecycle.PullBehavior{lifecycle.PullAlways, lifecycle.PullDefault} { // a local copy does not get around it
		_, got := s.bring(s.process(), s.state(app, behavior, nil))
		if got.Failure.Class != lifecycle.Permanent || s.calls("pull") > 0 {
			t.Errorf("%v: %+v after %d pulls", behavior, got, s.calls("pull"))
		}
	}
}

func TestPlatformThatTheHostCannotRunIsRefusedBeforeThePull(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.podman.Push(app, enginetest.Image{Arch: "plan9"})
	st := s.state(app, lifecycle.PullAlways, nil)
	st.Task.Platform.Architecture = "plan9"
	_, got := s.bring(s.process(), st)
	if got.Failure.Class != lifecycle.Permanent || !strings.Contains(got.Failure.Message, "plan9") {
		t.Errorf("%+v", got)
	}
	if s.calls("pull") > 0 {
		t.Error("it was pulled")
	}
}

// An image that is there already is held to the platform as one that is to be pulled.
func TestLocalImageForAnotherPlatformIsNotUsed(t *testing.T) {
	t.Parallel()
	for _, behaviour := range []lifecycle.PullBehavior{lifecycle.PullNever, lifecycle.PullDefault, lifecycle.PullAlways, lifecycle.PullPreferCached} {
		s := newStore(t)
		s.podman.Load(app, enginetest.Image{Arch: "s390x"})
		s.podman.Push(app, enginetest.Image{Salt: "new"})
		s.podman.Fail(func(c enginetest.Call) enginetest.Fault {
			if c.Op == "pull" {
				return enginetest.Fault{Moment: enginetest.Before, Class: libpod.Denied}
			}
			return enginetest.Fault{}
		})
		_, got := s.bring(s.process(), s.state(app, behaviour, nil))
		if got.Failure.Class != lifecycle.Permanent {
			t.Errorf("%v: %+v", behaviour, got)
		}
		if said := got.Failure.Message; behaviour == lifecycle.PullNever && (!strings.Contains(said, "linux/s390x") || !strings.Contains(said, images.Here().String())) {
			t.Errorf("it says %s", said)
		}
	}
}

func TestRepositoryCredentials(t *testing.T) {
	t.Parallel()
	const secret = `{"username":"alice","password":"hunter2-marked"}`
	write := func(mode os.FileMode, text string) string {
		path := filepath.Join(t.TempDir(), "login")
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return "file:" + path
	}
	for _, tc := range []struct {
		rule, source string
		fails        string // in the message; empty: it works
	}{
		{"a file", write(0o600, secret), ""},
		{"a variable", "env:LOGIN", ""},
		{"a secret of Podman", "podman:login", ""},
		{"a file that others may read", write(0o644, secret), "chmod 600"},
		{"no login", write(0o600, "hunter2-marked"), "no login"},
		{"no such secret", "podman:none", "no such secret"},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			t.Parallel()
			s := newStore(t)
			s.env["LOGIN"] = secret
			if err := s.podman.EnsureSecret(t.Context(), "login", "", func(context.Context) ([]byte, error) { return []byte(secret), nil }); err != nil {
				t.Fatal(err)
			}
			s.podman.Push(app, enginetest.Image{})
			reg := &asking{Registry: s.podman.Registry()}
			s.reg = reg
			st := s.state(app, lifecycle.PullAlways, map[string]any{"repositoryCredentials": map[string]any{"credentialsParameter": tc.source}})
			_, got := s.bring(s.process(), st)
			if tc.fails == "" {
				if got.Failure.Class != lifecycle.OK || len(reg.logins) != 1 || reg.logins[0] != (images.Login{Username: "alice", Password: "hunter2-marked"}) {
					t.Errorf("%+v, %d logins", got.Failure, len(reg.logins))
				}
			} else if got.Failure.Class != lifecycle.Permanent || got.Failure.Name != "CannotPullContainerAuthError" || !strings.Contains(got.Failure.Message, tc.fails) {
				t.Errorf("%+v", got.Failure)
			}
			if strings.Contains(got.Failure.Message, "hunter2") {
				t.Error("the secret is in the failure")
			}
			err := filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				b, err := os.ReadFile(path)
				if strings.Contains(string(b), "hunter2") {
					t.Errorf("the secret is in %s", path)
				}
				return err
			})
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Error(err)
			}
		})
	}
}

// A registry may have mirrors that are asked for digests only, with logins of their own.
func TestLoginOfAPullIsForWhatIsPulled(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	digest := s.podman.Push(app, enginetest.Image{})
	reg := &asking{Registry: s.podman.Registry()}
	s.reg = reg
	s.bring(s.process(), s.state(app, lifecycle.PullAlways, nil))
	if want := "registry.example.com/app@" + digest; len(reg.access) != 1 || reg.access[0] != want {
		t.Errorf("asked for %v, want %s", reg.access, want)
	}
}

func TestUnpinnedImageIsPulledByItsTag(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.podman.Push(app, enginetest.Image{})
	digest, got := s.bring(s.process(), s.state(app, lifecycle.PullDefault, map[string]any{"versionConsistency": "disabled"}))
	if digest != "" || got.Failure.Class != lifecycle.OK {
		t.Errorf("digest %q, %+v", digest, got)
	}
}

// silent is a registry that never says what is in an image.
type silent struct{ enginetest.Registry }

func (silent) Describe(ctx context.Context, _ string, _ images.Login, _ images.Platform) (images.Description, error) {
	<-ctx.Done()
	return images.Description{}, ctx.Err()
}

// Whether an image is for this machine is asked as a courtesy: where the registry
// does not say, Podman finds out.
func TestRegistryThatDoesNotTellThePlatformIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		s.podman.Push(app, enginetest.Image{})
		s.reg = silent{s.podman.Registry()}
		if _, got := s.bring(s.process(), s.state(app, lifecycle.PullAlways, nil)); got.Failure.Class != lifecycle.OK {
			t.Errorf("%+v", got)
		}
	})
}

// A registry that has one image only gives it whatever platform was asked for, and Podman
// stores it. The container would end with "exec format error".
func TestImageThatTurnsOutToBeForAnotherPlatformIsRefused(t *testing.T) {
	t.Parallel()
	for name, more := range map[string]map[string]any{"by its tag": {"versionConsistency": "disabled"}, "by its digest": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStore(t)
				s.podman.Push(app, enginetest.Image{Arch: "s390x"})
				s.reg = silent{s.podman.Registry()}
				_, got := s.bring(s.process(), s.state(app, lifecycle.PullAlways, more))
				if got.Failure.Class != lifecycle.Permanent || !strings.Contains(got.Failure.Message, "linux/s390x") {
					t.Errorf("%+v", got)
				}
			})
		})
	}
}

// awayRegistry is a registry whose name does not resolve. It counts what it is asked.
type awayRegistry struct {
	enginetest.Registry
	asked atomic.Int64
	class images.Class
}

func (r *awayRegistry) Resolve(_ context.Context, ref string, _ images.Login) (images.Resolution, error) {
	r.asked.Add(1)
	return images.Resolution{}, &images.Error{Class: r.class, Ref: ref, Message: "it is away"}
}

// localhost/ is never asked of a registry, and a short name is first that of an image that was built here.
func TestImagesThatWereBuiltHereAreNotAskedOfARegistry(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		have, want string
		behavior   lifecycle.PullBehavior
		asked      bool
		fails      string // empty: it succeeds
	}{
		{"localhost/web:1", "localhost/web:1", lifecycle.PullDefault, false, ""},
		{"localhost/web:1", "localhost/web:1", lifecycle.PullOnce, false, ""},
		{"localhost/web:1", "localhost/web:1", lifecycle.PullNever, false, ""},
		{"localhost/web:1", "localhost/web:1", lifecycle.PullAlways, false, "leave out --pull always"},
		{"localhost/other:1", "localhost/web:1", lifecycle.PullDefault, false, "podman build -t localhost/web:1"},
		{"localhost/web:dev", "web:dev", lifecycle.PullDefault, false, ""},
		{"localhost/web:dev", "web:dev", lifecycle.PullNever, false, ""},
		{"localhost/team/web:dev", "team/web:dev", lifecycle.PullDefault, false, ""},
		{"localhost/web:dev", "web:dev", lifecycle.PullAlways, true, "it is away"},
		{"localhost/web:dev", "docker.io/library/web:dev", lifecycle.PullDefault, true, "it is away"},
		{"localhost:5000/web:1", "localhost:5000/web:1", lifecycle.PullDefault, true, ""}, // a registry; the local copy will do
	} {
		s := newStore(t)
		s.podman.Load(tc.have, enginetest.Image{})
		reg := &awayRegistry{Registry: s.podman.Registry(), class: images.DNS}
		s.reg = reg
		p, st := s.process(), s.state(tc.want, tc.behavior, nil)
		got := p.apply(t.Context(), st, lifecycle.ResolveImage{ID: 1, Ref: tc.want})
		if stands := got.Failure.Class == lifecycle.Permanent && strings.Contains(got.Failure.Message, "the local copy is used"); got.Failure.Class == lifecycle.OK || stands {
			got = p.apply(t.Context(), st, lifecycle.PullImage{ID: 2, Ref: tc.want, Digest: got.Result.Digest})
			if stands && got.Result.Source != lifecycle.SourceCache {
				t.Errorf("%s: the image is from the %v", tc.want, got.Result.Source)
			}
		}
		if (got.Failure.Class == lifecycle.OK) != (tc.fails == "") || !strings.Contains(got.Failure.Message, tc.fails) {
			t.Errorf("%s with %s and pull %v: %+v", tc.want, tc.have, tc.behavior, got.Failure)
		}
		if (reg.asked.Load() > 0) != tc.asked {
			t.Errorf("%s with pull %v: a registry was asked %d times", tc.want, tc.behavior, reg.asked.Load())
		}
	}
}

// What no registry can have is known to be missing before a task is made; all of it is named, and no registry is asked.
func TestImagesThatOnlyThisHostCanHaveAreMissedBeforeTheStart(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.podman.Load("localhost/web:1", enginetest.Image{})
	reg := &awayRegistry{Registry: s.podman.Registry(), class: images.DNS}
	s.reg = reg
	p := s.process()
	task := func(refs ...string) (t taskdef.Task) {
		for i, ref := range refs {
			t.Containers = append(t.Containers, taskdef.Container{Name: fmt.Sprintf("c%d", i), Image: ref})
		}
		return t
	}
	for _, tc := range []struct {
		task     taskdef.Task
		behavior lifecycle.PullBehavior
		want     string // empty: nothing is missing
	}{
		{task("localhost/web:1", app), lifecycle.PullDefault, ""},
		{task("localhost/web:2", app, "localhost/web:2", "localhost/db:1"), lifecycle.PullDefault,
			"container c0: there is no image localhost/web:2 on this host: build it with `podman build -t localhost/web:2 .`\n" +
				"container c3: there is no image localhost/db:1 on this host: build it with `podman build -t localhost/db:1 .`"},
		{task(app), lifecycle.PullNever, "container c0: there is no image " + app + " on this host, and --pull never forbids to pull it: run `podman pull " + app + "`, or leave out --pull never"},
		{task("localhost/web:1"), lifecycle.PullAlways, "container c0: localhost/web:1 is an image of this host, which no registry has: leave out --pull always, or push the image to a registry and name that one"},
	} {
		err := p.images.CheckLocal(t.Context(), tc.task, lifecycle.Options{Pull: tc.behavior})
		if got := fmt.Sprint(err); (err == nil) != (tc.want == "") || err != nil && got != tc.want {
			t.Errorf("%+v with pull %v:\n%s\nwant %s", tc.task.Containers, tc.behavior, got, tc.want)
		}
	}
	s.podman.Fail(func(enginetest.Call) enginetest.Fault {
		return enginetest.Fault{Moment: enginetest.Before, Class: libpod.Unavailable}
	})
	if err := p.images.CheckLocal(t.Context(), task("localhost/web:2"), lifecycle.Options{}); err != nil {
		t.Errorf("without Podman: %v", err)
	}
	if n := reg.asked.Load(); n > 0 {
		t.Errorf("a registry was asked %d times", n)
	}
}

// A registry whose name did not resolve a moment ago is not pulled from.
func TestARegistryThatIsAwayIsNotPulledFrom(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	var pulls atomic.Int64
	s.podman.Fail(func(c enginetest.Call) enginetest.Fault {
		if c.Op == "pull" {
			pulls.Add(1)
		}
		return enginetest.Fault{}
	})
	s.reg = &awayRegistry{Registry: s.podman.Registry(), class: images.DNS}
	got := s.process().apply(t.Context(), s.state(app, lifecycle.PullDefault, nil), lifecycle.PullImage{ID: 1, Ref: app})
	if got.Failure.Class != lifecycle.Temporary || !strings.Contains(got.Failure.Message, "it is away") {
		t.Errorf("%+v", got.Failure)
	}
	if n := pulls.Load(); n > 0 {
		t.Errorf("Podman was asked for %d pulls", n)
	}
}
