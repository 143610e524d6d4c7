//go:build e2e

//e2e:bed systemd

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/testing/registrytest"
)

// saltOf is a task whose containers print the variable SALT of their images, one after the other.
func (b *box) saltOf(images ...string) (path string) {
	var all []ctr
	for i, image := range images {
		c := ctr{Name: "c" + string(rune('0'+i)), Image: image, Command: words("env SALT")}
		if i > 0 {
			c.DependsOn = []on{{all[i-1].Name, "COMPLETE"}}
		}
		last := i == len(images)-1
		c.Essential = &last
		all = append(all, c)
	}
	return b.define(all...)
}

// A locked run has the image that the lock names after its tag has moved, and asks no registry.
func TestAMovedTagChangesNothingUnderALock(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	ref, first := b.push("app:1", b.freshImage("first"))
	definition := b.saltOf(ref)
	lock := strings.TrimSuffix(definition, filepath.Ext(definition)) + ".lock"
	b.want(0, "lock", definition)
	text, err := os.ReadFile(lock)
	if err != nil || !strings.Contains(string(text), first) {
		t.Fatalf("%v; the lock is\n%s", err, text)
	}
	if r := b.want(0, "pull", "--locked", "--format", "json", definition); !strings.Contains(r.out, first) {
		t.Errorf("pull --locked: %s", r.out)
	}
	_, second := b.push("app:1", b.freshImage("second"))
	gone := b.fault("", "app", "", 0, registrytest.Drop())
	asked := len(b.requests(""))
	if r := b.want(0, "run", "--rm", "--locked", definition); !strings.Contains(r.out, "first") {
		t.Errorf("the locked run printed %q", r.out)
	}
	b.want(0, "pull", "--locked", definition)
	if now := b.requests(""); len(now) != asked {
		t.Errorf("the registry was asked: %v", now[asked:])
	}
	gone.Remove()
	if r := b.want(125, "lock", "--check", definition); !strings.Contains(r.err, first) || !strings.Contains(r.err, second) {
		t.Errorf("lock --check does not show both digests:\n%s", r.err)
	}
	if r := b.want(0, "run", "--rm", definition); !strings.Contains(r.out, "second") {
		t.Errorf("the run without a lock printed %q", r.out)
	}
	// The tag here now names the second image; the lock still names the first.
	if r := b.want(0, "run", "--rm", "--locked", definition); !strings.Contains(r.out, "first") {
		t.Errorf("the locked run printed %q", r.out)
	}
	b.want(0, "lock", definition)
	if r := b.want(0, "run", "--rm", "--locked", definition); !strings.Contains(r.out, "second") {
		t.Errorf("with the new lock it printed %q", r.out)
	}
}

// An image that was built here is locked by its ID. Another one of its name is an error that shows both.
func TestABuiltImageIsLockedByItsID(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	name := "localhost/" + b.family + ":1"
	build := func(salt string) (id string) {
		ref, _ := b.push(salt+":1", b.freshImage(salt))
		b.want(0, "pull", b.saltOf(ref))
		file := filepath.Join(b.dir, "Containerfile")
		if err := os.WriteFile(file, []byte("FROM "+ref+"\nENV BUILT="+salt+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		b.podman("build", "-q", "--pull=never", "-t", name, "-f", file, b.dir)
		return strings.TrimSpace(b.podman("image", "inspect", "--format", "{{.Id}}", name))
	}
	t.Cleanup(func() { b.podman("rmi", "-f", name) })
	first := build("first")
	definition := b.saltOf(name)
	r := b.want(0, "lock", "--format", "json", definition)
	var locks []struct {
		Images []struct{ ID, OnlyHere string }
	}
	if err := json.Unmarshal([]byte(r.out), &locks); err != nil || locks[0].Images[0].ID != first || !strings.Contains(locks[0].Images[0].OnlyHere, "no other machine") {
		t.Fatalf("%v: %s", err, r.out)
	}
	if r := b.want(0, "run", "--rm", "--locked", definition); !strings.Contains(r.out, "first") {
		t.Errorf("it printed %q", r.out)
	}
	second := build("second")
	// The first image has no name of its own now. Some versions of Podman still find it by its digest.
	if r := b.podtask("run", "--rm", "--locked", definition); r.code == 0 && !strings.Contains(r.out, "first") || r.code != 0 && r.code != 125 {
		t.Errorf("with the first image here it ended with %d:\n%s%s", r.code, r.out, r.err)
	}
	b.podman("rmi", "-f", first)
	if r := b.want(125, "run", "--rm", "--locked", definition); !strings.Contains(r.err, first) || !strings.Contains(r.err, second) {
		t.Errorf("the error does not show both IDs:\n%s", r.err)
	}
}

// All images of a definition are pulled, each once and at the same time; one that cannot be had does not keep
// the others back.
func TestPullBringsAllImagesAtOnce(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	one, _ := b.push("one:1", b.freshImage("one"))
	two, _ := b.push("two:1", b.freshImage("two"))
	b.fault("HEAD", "(one|two)", "manifests/", 2, registrytest.Gather(2)) // who asks one by one waits for ever
	r := b.want(125, "pull", b.saltOf(one, two, one, bed.reg.Ref(b.repository("none:1"))))
	if !strings.Contains(r.err, "none:1") || !strings.Contains(r.out, "one:1") || !strings.Contains(r.out, "two:1") {
		t.Errorf("it printed\n%s%s", r.out, r.err)
	}
	b.fault("", "(one|two)", "", 0, registrytest.Drop())
	if r := b.want(0, "run", "--rm", "--pull", "never", b.saltOf(one, two)); !strings.Contains(r.out, "one") || !strings.Contains(r.out, "two") {
		t.Errorf("it printed %q", r.out)
	}
}

// A service whose definition is locked runs the images of the lock, whatever the tag points to.
func TestServiceRunsLockedImages(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.agent()
	ref, first := b.push("app:1", b.freshImage("first"))
	c := copyOf("one")
	c.Image = ref
	definition := b.define(c)
	b.want(0, "lock", definition)
	_, second := b.push("app:1", b.freshImage("second"))
	digest := func() string { return b.inspect(b.well()[0]).Containers[0].ImageDigest }
	b.want(0, "service", "create", b.family, definition, "--locked", "--wait", "--timeout=4m")
	if got := digest(); got != first {
		t.Errorf("the copy has %s, the lock %s", got, first)
	}
	b.want(0, "service", "update", b.family, definition, "--wait", "--timeout=4m", "--force")
	if got := digest(); got != second {
		t.Errorf("without the lock the copy has %s, the tag %s", got, second)
	}
	b.want(0, "service", "update", b.family, definition, "--locked", "--wait", "--timeout=4m")
	if got := digest(); got != first {
		t.Errorf("with the lock again the copy has %s, the lock %s", got, first)
	}
	if r := b.want(125, "service", "update", b.family, b.define(copyOf("two")), "--locked="+strings.TrimSuffix(definition, filepath.Ext(definition))+".lock"); !strings.Contains(r.err, "is not the lock of") {
		t.Errorf("another definition: %s", r.err)
	}
	if r := b.want(0, "pull", "--service", b.family, "--format", "{{.Digest}}"); strings.TrimSpace(r.out) != second {
		t.Errorf("pull --service brought %q, the tag names %s", r.out, second)
	}
	b.removeService()
}
