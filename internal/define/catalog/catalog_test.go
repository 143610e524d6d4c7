package catalog_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/podtask/podtask/internal/define/catalog"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/internal/state/statetest"
)

var at = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func open(t *testing.T, fsys state.FS, dir string) *catalog.Catalog {
	t.Helper()
	locks, err := state.OpenLocks(t.TempDir(), state.Holder{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := catalog.Open(dir, fsys, locks)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func document(family, content string) catalog.Document {
	return catalog.Document{Family: family, Digest: "sha256:" + strings.ToLower(content), File: "/srv/" + family + ".json", Dir: "/srv", Source: []byte(content)}
}

// register returns the reference of the revision.
func register(t *testing.T, c *catalog.Catalog, family, content string) (ref string, added bool) {
	t.Helper()
	r, added, err := c.Register(t.Context(), document(family, content), at)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s:%d", r.Family, r.Revision), added
}

func TestSameContentGivesTheSameRevision(t *testing.T) {
	t.Parallel()
	c := open(t, state.OS{}, t.TempDir())
	for _, step := range []struct {
		family, content, ref string
		added                bool
	}{
		{"web", "a", "web:1", true},
		{"web", "a", "web:1", false},
		{"web", "A", "web:1", false}, // says the same, written otherwise
		{"web", "b", "web:2", true},
		{"web", "a", "web:1", false},
		{"api", "a", "api:1", true},
	} {
		if ref, added := register(t, c, step.family, step.content); ref != step.ref || added != step.added {
			t.Errorf("%s %q is %s, added %v; want %s, %v", step.family, step.content, ref, added, step.ref, step.added)
		}
	}
	all, err := c.List()
	if err != nil {
		t.Fatal(err)
	}
	var refs []string
	for _, r := range all {
		refs = append(refs, fmt.Sprintf("%s:%d", r.Family, r.Revision))
	}
	if diff := cmp.Diff([]string{"api:1", "web:1", "web:2"}, refs); diff != "" {
		t.Error(diff)
	}
}

func TestDeregisteredRevisionsStayAndTheirNumbersToo(t *testing.T) {
	t.Parallel()
	c := open(t, state.OS{}, t.TempDir())
	register(t, c, "web", "a")
	register(t, c, "web", "b")
	for range 2 { // twice is no error
		r, err := c.Deregister(t.Context(), catalog.Ref{Family: "web"}, at.Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		if r.Status != catalog.Inactive || !r.DeregisteredAt.Equal(at.Add(time.Hour)) {
			t.Errorf("%+v", r)
		}
		if r.Revision == 1 {
			break // the second time the family means the first revision
		}
	}
	if _, _, err := c.Find(catalog.Ref{Family: "web"}); !errors.Is(err, catalog.ErrNotFound) {
		t.Errorf("error is %v", err)
	}
	if r, src, err := c.Find(catalog.Ref{Family: "web", Revision: 2}); err != nil || string(src) != "b" || r.Status != catalog.Inactive {
		t.Errorf("%+v %q %v", r, src, err)
	}
	if ref, added := register(t, c, "web", "a"); ref != "web:3" || !added {
		t.Errorf("what was deregistered comes back as %s, added %v", ref, added)
	}
	if r, src, err := c.Find(catalog.Ref{Family: "web"}); err != nil || r.Revision != 3 || string(src) != "a" {
		t.Errorf("%+v %q %v", r, src, err)
	}
	for _, ref := range []catalog.Ref{{Family: "web", Revision: 4}, {Family: "wob"}, {Family: "wob", Revision: 1}} {
		if _, err := c.Deregister(t.Context(), ref, at); !errors.Is(err, catalog.ErrNotFound) {
			t.Errorf("%s: error is %v", ref, err)
		}
	}
}

func TestConcurrentRegistrationsGetNumbersOfTheirOwn(t *testing.T) {
	t.Parallel()
	c := open(t, state.OS{}, t.TempDir())
	const n = 20
	var wg sync.WaitGroup
	refs := make([]int, n)
	for i := range n {
		wg.Go(func() {
			r, _, err := c.Register(t.Context(), document("web", fmt.Sprint(i)), at)
			if err != nil {
				t.Error(err)
			}
			refs[i] = r.Revision
		})
	}
	wg.Wait()
	seen := make(map[int]bool)
	for i, r := range refs {
		_, src, err := c.Find(catalog.Ref{Family: "web", Revision: r})
		if err != nil || string(src) != fmt.Sprint(i) || seen[r] {
			t.Errorf("registration %d is revision %d: %q %v", i, r, src, err)
		}
		seen[r] = true
	}
}

// TestPowerLossLosesNoRevisionThatWasReported cuts the power at each operation
// on the disk.
func TestPowerLossLosesNoRevisionThatWasReported(t *testing.T) {
	t.Parallel()
	for powerAt := 0; ; powerAt++ {
		disk := statetest.NewDisk(powerAt)
		reported := make(map[string]string)
		locks, err := state.OpenLocks(t.TempDir(), state.Holder{})
		if err != nil {
			t.Fatal(err)
		}
		if c, err := catalog.Open("/s", disk, locks); err == nil {
			for _, content := range []string{"a", "b", "a", "c"} {
				if r, _, err := c.Register(t.Context(), document("web", content), at); err == nil {
					reported[fmt.Sprint(r.Revision)] = content
				}
			}
		}
		for after := range disk.Afterwards() {
			c := open(t, after, "/s")
			all, err := c.List()
			if err != nil {
				t.Fatalf("power cut at %d: %v", powerAt, err)
			}
			for _, r := range all {
				_, src, err := c.Find(catalog.Ref{Family: "web", Revision: r.Revision})
				if err != nil || "sha256:"+string(src) != r.Digest {
					t.Errorf("power cut at %d: revision %d: %q %v", powerAt, r.Revision, src, err)
				}
				delete(reported, fmt.Sprint(r.Revision))
			}
			if len(reported) > 0 {
				t.Errorf("power cut at %d: lost %v", powerAt, reported)
			}
		}
		if !disk.Off() {
			return
		}
	}
}

func TestParseRef(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]catalog.Ref{
		"web":    {Family: "web"},
		"web:12": {Family: "web", Revision: 12},
		"arn:aws:ecs:eu-central-1:123456789012:task-definition/web:3": {Family: "web", Revision: 3},
	} {
		if got, err := catalog.ParseRef(in); err != nil || got != want {
			t.Errorf("%q is %+v, %v", in, got, err)
		}
	}
	for _, in := range []string{"", ":1", "web:", "web:0", "web:01", "web:+1", "web:-1", "web:x", "web:1:2", "a/b", "web.json", "arn:aws:ecs:x", "web:99999999999"} {
		if got, err := catalog.ParseRef(in); err == nil {
			t.Errorf("%q is accepted: %+v", in, got)
		}
	}
}

func FuzzParseRef(f *testing.F) {
	for _, s := range []string{"web", "web:1", "web:0", "arn:aws:ecs:r:1:task-definition/web:3", "::", "a\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := catalog.ParseRef(s)
		if err != nil {
			return
		}
		if again, err := catalog.ParseRef(r.String()); err != nil || again != r {
			t.Errorf("%q is %+v, and %s is %+v, %v", s, r, r, again, err)
		}
	})
}
