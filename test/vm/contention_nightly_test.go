//go:build e2e && bed_vm && nightly

package vm

import "testing"

// Both take what they get: the sidecar gets at most a tenth of the CPU time.
func TestSidecarWithoutCPUGetsATenthAtMost(t *testing.T) {
	app, side := box("app", "burn 10m", 0), box("side", "burn 10m", 0)
	app.CPU = 256
	id := detach(t, define(t, "contention", "", "96", app, side))
	task, slice := inspect(t, id), sliceOf(id)
	used := func(i int) int { return cpuTime(t, scope(t, slice, task.Containers[i].RuntimeID)) }
	ofApp, ofSide := used(0), used(1)
	eventually(t, "five seconds of work of the app", func() bool { return used(0)-ofApp > 5_000_000 })
	ofApp, ofSide = used(0)-ofApp, used(1)-ofSide
	share := float64(ofSide) / float64(ofApp+ofSide)
	t.Logf("the sidecar got %d us and the app %d: a share of %.3f", ofSide, ofApp, share)
	if share > 0.1 {
		t.Error("the share is more than a tenth")
	}
}
