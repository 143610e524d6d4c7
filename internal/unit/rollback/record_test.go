package rollback

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

func TestRecordRollsBack(t *testing.T) {
	t.Parallel()
	task := taskdef.Task{Containers: []taskdef.Container{{Image: "app:1"}, {Image: "db:1"}, {Image: "log:1@sha256:0"}}}
	images := func(t taskdef.Task) (list []string) {
		for _, c := range t.Containers {
			list = append(list, c.Image)
		}
		return list
	}
	b := &Record{Good: map[string]string{}, Bad: map[string]string{}}
	if b.Failed(map[string]string{"app:1": "A1"}) {
		t.Error("there is something to go back to before the first success")
	}
	if !b.Succeeded(map[string]string{"app:1": "A1", "db:1": "D1"}) || b.Succeeded(map[string]string{"app:1": "A1", "db:1": "D1"}) {
		t.Error("a success is news once")
	}
	if b.Failed(map[string]string{"app:1": "A1", "db:1": "D1"}) {
		t.Error("going back from the same digests helps")
	}
	if b.Differs(map[string]string{"app:1": "A1", "new:1": "N1"}) || !b.Differs(map[string]string{"app:1": "A2"}) || (*Record)(nil).Differs(map[string]string{"app:1": "A2"}) {
		t.Error("new digests are those of known images that were ready with others")
	}
	if !b.Failed(map[string]string{"app:1": "A2", "db:1": "D1"}) {
		t.Error("there is nothing to go back to")
	}
	steps := []struct {
		name string
		now  map[string]string
		want []string
	}{
		{"the tag still points to the bad one", map[string]string{"app:1": "A2"}, []string{"app:1@A1", "db:1", "log:1@sha256:0"}},
		{"the registry cannot tell", nil, []string{"app:1@A1", "db:1", "log:1@sha256:0"}},
		{"the tag has moved on", map[string]string{"app:1": "A3"}, []string{"app:1", "db:1", "log:1@sha256:0"}},
	}
	for _, s := range steps {
		if diff := cmp.Diff(s.want, images(b.Avoid(task, s.now))); diff != "" {
			t.Errorf("%s: %s", s.name, diff)
		}
	}
	if diff := cmp.Diff([]string{"app:1", "db:1"}, References(task)); diff != "" {
		t.Error(diff)
	}
	b.Succeeded(map[string]string{"app:1": "A2"})
	if got := images(b.Avoid(task, map[string]string{"app:1": "A2"})); got[0] != "app:1" {
		t.Errorf("what works after all is avoided: %s", got[0])
	}
}

func TestDigestsOfLocalCopiesDoNotCount(t *testing.T) {
	t.Parallel()
	task := taskdef.Task{Containers: []taskdef.Container{{Image: "app:1"}, {Image: "db:1"}, {Image: "log:1@sha256:0"}, {Image: "new:1"}}}
	st := lifecycle.State{Containers: []lifecycle.Container{
		{Digest: "A1", Source: lifecycle.SourceRegistry}, {Digest: "D1", Source: lifecycle.SourceCache}, {Digest: "sha256:0", Source: lifecycle.SourceRegistry}, {},
	}}
	if diff := cmp.Diff(map[string]string{"app:1": "A1"}, DigestsOf(task, st)); diff != "" {
		t.Error(diff)
	}
}

func TestRecordIsSaved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open := func() *Record {
		r, err := Open(dir, "web")
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := open()
	r.Succeeded(map[string]string{"app:1": "A1"})
	r.Failed(map[string]string{"app:1": "A2"})
	if err := r.Save(dir, "web"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, open()); diff != "" {
		t.Error(diff)
	}
	if err := os.WriteFile(fileOf(dir, "web"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := Open(dir, "web"); err == nil || len(got.Good) != 0 || got.Bad == nil {
		t.Errorf("a broken file gives %v, %v", got, err)
	}
}
