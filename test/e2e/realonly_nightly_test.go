//go:build e2e && nightly

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestStoppedTasksAreRemovedAfterTheirTime(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	old := b.detach("--name", "old", b.define(ctr{Name: "app", Command: words("print kept -- exit 0")}))
	pod := stopped(b, old).PodID
	if got := b.want(0, "logs", old).out; !strings.Contains(got, "kept") {
		t.Errorf("before its time the log is %q", got)
	}
	b.env = append(b.env, "PODTASK_TASK_CLEANUP_WAIT=1s")
	eventually(t, "the task is gone", func() bool {
		// A process looks once a minute; another minute has passed.
		_ = os.Remove(filepath.Join(b.stateHome(), "podtask", "cleaned-up"))
		return !strings.Contains(b.want(0, "ps", "--all", "--no-trunc", "-q").out, old)
	})
	if got := b.podman("pod", "ls", "--no-trunc", "-q"); strings.Contains(got, pod) {
		t.Errorf("its pod %s is left:\n%s", pod, got)
	}
}

func TestImagesAreRemovedOldestFirst(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	var refs []string
	for _, name := range []string{"first", "second", "third"} {
		ref, _ := b.push(name+":1", b.freshImage(name))
		b.want(0, "run", "--rm", "--pull", "always", b.hello(ref))
		b.age() // so that the first was used three hours ago, and the third one hour ago
		refs = append(refs, ref)
	}
	b.env = append(b.env, "PODTASK_IMAGE_MIN_AGE=90m", "PODTASK_IMAGE_CLEANUP_PER_ROUND=1", "PODTASK_IMAGE_CLEANUP_INTERVAL=1s")
	agent := b.agent()
	running := b.detach("--wait=running", b.define(ctr{Name: "app", Command: words("sleep forever"), StopTimeout: 2})) // images are removed while tasks run
	eventually(t, "the images of hours ago are gone", func() bool {
		second := b.here(refs[1])
		if first := b.here(refs[0]); first && !second {
			t.Fatal("the younger of two images was removed first")
		}
		return !second
	})
	b.want(0, "stop", running)
	agent.end()
	if !b.here(refs[2]) {
		t.Error("an image that was used an hour ago was removed")
	}
	b.want(0, "image", "prune", "-q")
}
