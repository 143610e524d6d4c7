//go:build e2e && bed_plain

package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/podtask/podtask/test/testbed"
)

// Podman's service was killed while it made the namespace of bridge networks, which no bridge
// network has worked with since. The next task repairs it. It is not run beside other tests,
// because they share that namespace.
func TestNamespaceOfBridgesIsIncomplete(t *testing.T) {
	if !testbed.HasBridge() {
		t.Skip("Podman makes no bridge networks here")
	}
	b := newBox(t)
	def := def{Network: "bridge", Containers: []ctr{
		{Name: "first", Image: b.testbox(), Command: words("sleep forever")},
		{Name: "second", Image: b.testbox(), Command: words("sleep forever")},
	}}
	id := b.detach("--wait=running", b.write(def))
	files, err := filepath.Glob(filepath.Join(bed.runtime, "netns", "rootless-netns-*"))
	if err != nil {
		t.Fatal(err)
	}
	b.want(0, "rm", "--force", id)
	for _, file := range files { // none with Podman 5, which keeps it elsewhere
		if _, err := os.Stat(file); err == nil {
			t.Skipf("%s is in use by others", file)
		}
		b.podman("unshare", "sh", "-c", `touch "$0" && unshare --net mount --bind /proc/self/ns/net "$0"`, file)
		if err := os.MkdirAll(filepath.Join(bed.runtime, "libpod", "tmp", "rootless-netns"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	id = b.detach("--wait=running", b.write(def))
	if now := b.inspect(id); now.Status != "RUNNING" {
		t.Errorf("it is %s: %s %v", now.Status, now.StoppedReason, now.Containers)
	}
	b.want(0, "rm", "--force", id)
}
