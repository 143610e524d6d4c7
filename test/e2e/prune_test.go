//go:build e2e

//e2e:bed plain

package e2e

import (
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/state"
)

// age makes everything that podtask pulled look as if it had been used an hour ago.
func (b *box) age() {
	b.t.Helper()
	store, err := state.OpenIn(filepath.Join(b.stateHome(), "podtask", "images"), state.OS{})
	if err != nil {
		b.t.Fatal(err)
	}
	aged := 0
	for r, err := range store.All(nil) {
		record := obj{}
		if err != nil || json.Unmarshal(r.Data, &record) != nil || record["usedAt"] == nil {
			continue
		}
		at, err := time.Parse(time.RFC3339, record["usedAt"].(string))
		if err != nil {
			b.t.Fatal(err)
		}
		record["usedAt"] = at.Add(-time.Hour)
		data, err := json.Marshal(record)
		if err != nil {
			b.t.Fatal(err)
		}
		if err := store.Put(r.Key, data); err != nil {
			b.t.Fatal(err)
		}
		aged++
	}
	if aged == 0 {
		b.t.Fatal("podtask remembers no image")
	}
}

// here reports whether an image is in local storage.
func (b *box) here(ref string) bool {
	b.t.Helper()
	// The list of images of Podman 4 fails while another test removes one.
	err := exec.Command("podman", "image", "exists", ref).Run()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		b.t.Fatalf("podman image exists %s: %v", ref, err)
	}
	return err == nil
}

// imageID is Podman's id of an image.
func (b *box) imageID(ref string) string {
	b.t.Helper()
	return b.podman("image", "inspect", "--format", "{{.Id}}", ref)
}

func TestPruneRemovesWhatNobodyUsesAndNothingElse(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.env = append(b.env, "PODTASK_IMAGE_EXCLUDE="+bed.reg.Ref(b.repository("excluded"))+":*")
	refs := map[string]string{}
	for _, name := range []string{"unused", "held", "theirs", "named", "excluded", "task"} {
		refs[name], _ = b.push(name+":1", b.freshImage(name))
	}
	b.podman("pull", "-q", "--authfile", bed.auth, refs["theirs"]) // before podtask pulls it
	for _, name := range []string{"unused", "held", "theirs", "named", "excluded"} {
		b.want(0, "run", "--rm", "--pull", "always", b.hello(refs[name]))
	}
	b.podman("create", "--name", b.family+"-held", "--network", "none", refs["held"]) // of a user
	t.Cleanup(func() { b.podman("rm", "--force", b.family+"-held") })
	b.podman("tag", refs["named"], "localhost/"+b.family+":mine")
	t.Cleanup(func() { b.podman("rmi", "localhost/"+b.family+":mine") })
	b.detach("--wait=running", "--pull", "always", "--name", b.family, b.define(ctr{Name: "app", Image: refs["task"], Command: words("wait /tmp/go")}))
	b.age()

	unused := b.imageID(refs["unused"])
	if got := b.want(0, "image", "prune", "--dry-run", "-q", "--no-trunc").out; got != unused+"\n" || !b.here(refs["unused"]) {
		t.Errorf("--dry-run: %s, want %s", got, unused)
	}
	if got := b.want(0, "image", "prune", "--dry-run").err; !strings.Contains(got, "would remove 1 image of ") {
		t.Errorf("--dry-run says %s", got)
	}
	list := b.want(0, "image", "ls").out
	for name, why := range map[string]string{
		"held": "1 container uses it", "named": "localhost/" + b.family + ":mine",
		"excluded": "excluded by", "task": "1 container uses it",
	} {
		i := slices.IndexFunc(strings.Split(list, "\n"), func(line string) bool {
			return strings.Contains(line, refs[name]) && strings.Contains(line, why)
		})
		if i < 0 {
			t.Errorf("ls does not say that %s is kept because %s:\n%s", name, why, list)
		}
	}
	if got := b.want(0, "image", "prune", "-q", "--no-trunc").out; got != unused+"\n" || b.here(refs["unused"]) {
		t.Errorf("prune: %s, want %s", got, unused)
	}
	for name, ref := range refs {
		if name != "unused" && !b.here(ref) {
			t.Errorf("%s is gone", name)
		}
	}
	// Once nothing uses it, it is removed too.
	b.podman("rm", "--force", b.family+"-held")
	if b.want(0, "image", "prune", "-q"); b.here(refs["held"]) {
		t.Error("what is used no more stays")
	}
	// What was removed is pulled again.
	b.want(0, "run", "--rm", b.hello(refs["unused"]))
	b.tell(b.family, "app", "/tmp/go")
}

// A clean-up that wants the very image a task is about to use never makes the task
// fail: it comes before, and the task pulls again, or it leaves the image alone.
func TestPruneNeverRacesAStart(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	ref, _ := b.push("app:1", b.freshImage("app"))
	b.want(0, "run", "--rm", "--pull", "always", b.hello(ref))
	for range 4 {
		b.age()
		run := b.start("run", "--rm", "--pull", "always", b.hello(ref))
		prunes := []*process{b.start("image", "prune", "-q"), b.start("image", "prune", "-q"), b.start("image", "prune", "-q")}
		r := run.wait()
		for _, p := range prunes {
			p.want(0)
		}
		if r.code != 0 || !strings.Contains(r.out, "hello") {
			t.Fatalf("code %d: %s%s", r.code, r.out, r.err)
		}
	}
}
