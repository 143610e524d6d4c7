//go:build e2e && bed_systemd && nightly

package e2e

import (
	"regexp"
	"testing"
)

// readOnly is how the system and SQLite say it.
var readOnly = regexp.MustCompile("read-?only")

// What Podman's storage lies on becomes read-only while a task runs, as after an error of
// the disk. Podman 4.3 does not answer then.
func TestReadOnlyGraphRoot(t *testing.T) {
	t.Parallel()
	d := smallDisk(t, "64", false)
	b := newBox(t)
	b.env = append(b.env, "CONTAINER_HOST="+d.uri, "PODTASK_IMAGE_MIN_FREE=1")
	b.agent()
	id := b.detach("--wait=running", b.waiter())
	// Another mount on the same place: what Podman has open stays writable.
	d.must(d.in("mount", "--bind", d.dir, d.dir))
	d.must(d.in("mount", "-o", "remount,bind,ro", d.dir))
	stop := b.start("stop", id)
	eventually(t, "the end of the container, or the reason", func() bool {
		return b.inspect(id).Status == "STOPPED" || readOnly.MatchString(b.podtask("why", id).out)
	})
	d.must(d.in("umount", "-l", d.dir))
	stop.want(0)
	if got := b.inspect(id).codes(); got != "app=5" {
		t.Errorf("it ended with %s", got)
	}
	b.want(0, "rm", id)
}
