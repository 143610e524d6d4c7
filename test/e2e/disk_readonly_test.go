//go:build e2e && bed_systemd && nightly

package e2e

import (
	"regexp"
	"strings"
	"testing"
)

// readOnly is how the system and SQLite say it; Podman's service may end instead.
var readOnly = regexp.MustCompile("read-?only|does not answer|Podman closed it")

// What Podman's storage lies on becomes read-only while a task runs, as after an error of
// the disk. Podman's service panics then, and hangs until it is restarted, also when the storage
// can be written again. What is asked of podtask ends, or says why it does not.
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
	stopped := func() bool { return b.inspect(id).Status == "STOPPED" }
	eventually(t, "the end of the container, or the reason", func() bool {
		return stopped() || readOnly.MatchString(b.podtask("why", id).out)
	})
	if stopped() {
		stop.want(0)
		rm := b.podtask("rm", id)
		if rm.code != 0 && !readOnly.MatchString(rm.err) {
			t.Errorf("rm: %d, %s", rm.code, rm.err)
		}
		t.Logf("it stopped; rm: %d %s", rm.code, rm.err)
	} else {
		t.Logf("it did not stop: %s", b.podtask("why", id).out)
	}
	d.must(d.in("umount", "-l", d.dir))
	d.restart()
	if r := b.podtask("inspect", id); r.code == 0 {
		stop.want(0)
		if got := b.inspect(id).codes(); got != "app=5" {
			t.Errorf("it ended with %s", got)
		}
		b.want(0, "rm", id)
	} else if !strings.Contains(r.err, "no task") {
		t.Errorf("inspect: %d, %s", r.code, r.err)
	}
}
