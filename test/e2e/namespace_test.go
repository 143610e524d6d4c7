//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"testing"
)

// Podman's service was killed while it made the namespace of bridge networks, which no bridge
// network has worked with since. The next task repairs it. It is not run beside other tests,
// because they share that namespace.
func TestNamespaceOfBridgesIsIncomplete(t *testing.T) {
	b := newBox(t)
	def := def{Network: "bridge", Containers: []ctr{
		{Name: "first", Image: b.testbox(), Command: words("sleep forever"), StopTimeout: 2},
		{Name: "second", Image: b.testbox(), Command: words("sleep forever"), StopTimeout: 2},
	}}
	before := b.detach("--wait=running", b.write(def))
	if b.oldPodman() {
		files, err := filepath.Glob(filepath.Join(bed.runtime, "netns", "rootless-netns-*"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no namespace: %v", err)
		}
		b.want(0, "rm", "--force", before)
		for _, file := range files {
			b.podman("unshare", "sh", "-c", `touch "$0" && unshare --net mount --bind /proc/self/ns/net "$0"`, file)
		}
		if err := os.MkdirAll(filepath.Join(bed.runtime, "libpod", "tmp", "rootless-netns", "run", "systemd"), 0o700); err != nil {
			t.Fatal(err)
		}
	} else {
		for _, name := range []string{"resolv.conf", "info.json"} {
			if err := os.Remove(filepath.Join(bed.runtime, "containers", "networks", "rootless-netns", name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	b.detach("--wait=running", b.write(def))
	for i := range 2 { // the namespace is complete again
		id := b.detach("--wait=running", b.write(def))
		if now := b.inspect(id); now.Status != "RUNNING" {
			t.Errorf("task %d is %s: %s %v", i, now.Status, now.StoppedReason, now.Containers)
		}
	}
	if r := b.podtask("inspect", before); r.code == 0 && b.inspect(before).Status != "RUNNING" {
		t.Errorf("the task that ran before is %s", b.inspect(before).Status)
	}
	b.want(0, "rm", "--force", "--all")
}
