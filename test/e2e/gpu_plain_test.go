//go:build e2e && bed_plain

package e2e

import (
	"strings"
	"testing"
)

// An old Podman could not give a container its GPU.
func TestGPUsNeedPodman5(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	if r := b.want(125, "run", b.define(needsGPUs("1", "exit 0"))); !strings.Contains(r.err, "GPUs need Podman 5, and this is ") {
		t.Errorf("it says %s", r.err)
	}
}
