//go:build e2e && bed_systemd

package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// gpuNodes are device nodes of the bed that containers do not have by themselves, and what they
// are in /dev. They stand for GPUs.
var gpuNodes = []struct{ path, entry string }{{"/dev/fuse", "fuse"}, {"/dev/net/tun", "net"}}

// twoGPUs gives the bed two devices that CDI describes, as a vendor's tool would.
func twoGPUs(b *box) {
	b.t.Helper()
	var devices []string
	var nodes []string
	for i, node := range gpuNodes {
		nodes = append(nodes, fmt.Sprintf(`{"path": "%s"}`, node.path))
		devices = append(devices, fmt.Sprintf(`{"name": "%d", "containerEdits": {"deviceNodes": [%s]}}`, i, nodes[i]))
	}
	devices = append(devices, `{"name": "all", "containerEdits": {"deviceNodes": [`+strings.Join(nodes, ", ")+`]}}`)
	text := `{"cdiVersion": "0.5.0", "kind": "podtask.test/gpu", "devices": [` + strings.Join(devices, ", ") + `]}`
	file := "/var/run/cdi/podtask-test.json"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { os.Remove(file) })
	b.env = append(b.env, "PODTASK_GPUS=podtask.test/gpu")
}

// Each of two tasks has a GPU for itself. The third waits, is told for which, and gets the GPU of
// a task whose owner was killed, when that has ended.
func TestGPUsHaveOneTask(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	twoGPUs(b)
	if r := b.want(125, "run", b.define(needsGPUs("3", "exit 0"))); !strings.Contains(r.err, "3 GPUs and this host has 2 (CDI devices podtask.test/gpu)") {
		t.Errorf("more than there are: %s", r.err)
	}
	const look = "env NVIDIA_VISIBLE_DEVICES -- list /dev -- "
	startWithGPU(b, "first", look+"term 0 -- wait /tmp/end", 0)
	startWithGPU(b, "second", look+"term 0 -- sleep forever", 1)

	third := b.detach("--name=third", b.define(needsGPUs("1", look+"term 0 -- sleep forever")))
	eventually(t, "the third task waits for a GPU", func() bool {
		return strings.Contains(b.want(0, "why", third).out, "1 GPU such as podtask.test/gpu=0 (0 of 2 free)")
	})
	b.killOwner("first")
	b.tell("first", "app", "/tmp/end")
	wantGPU(b, "third", 0)
	if out := b.want(0, "wait", "first"); strings.TrimSpace(out.out) != "0" {
		t.Errorf("the first task ended with %s", out.out)
	}
	if out := b.want(0, "inspect", third).out; !strings.Contains(out, `"gpuIds"`) || !strings.Contains(out, `"podtask.test/gpu=0"`) {
		t.Errorf("inspect says %s", out)
	}
	for _, name := range []string{"second", "third"} {
		b.want(0, "stop", name)
	}
	b.want(0, "run", b.define(needsGPUs("2", "exists /dev/fuse -- exists /dev/net/tun")))
}

func startWithGPU(b *box, name, command string, gpu int) {
	b.t.Helper()
	b.detach("--name="+name, b.define(needsGPUs("1", command)))
	wantGPU(b, name, gpu)
}

// wantGPU waits for what a container printed, and fails the test unless it has this device only.
func wantGPU(b *box, name string, gpu int) {
	b.t.Helper()
	eventually(b.t, "the output of "+name, func() bool { return strings.Contains(b.want(0, "logs", name).out, " null") })
	out := b.want(0, "logs", name).out
	has, hasNot := " "+gpuNodes[gpu].entry+" ", " "+gpuNodes[1-gpu].entry+" "
	if !strings.Contains(out, fmt.Sprintf("NVIDIA_VISIBLE_DEVICES=%d\n", gpu)) || !strings.Contains(out, has) || strings.Contains(out, hasNot) {
		b.t.Errorf("%s has not GPU %d alone: %s", name, gpu, out)
	}
}
