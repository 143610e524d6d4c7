//go:build e2e && !bed_plain

package e2e

import "testing"

// Without cgroups of the second version, as in the plain bed, nothing can be paused.
func TestInterferenceByPauses(t *testing.T) {
	t.Parallel()
	for _, tt := range []interference{
		{name: "pause", does: []string{"pause APP"}, goesOn: true},
		{name: "pause and kill", does: []string{"pause APP", "kill APP"}, codes: "app=137 side=143", code: "EssentialContainerExited"},
		{name: "pause pod", does: []string{"pod pause POD"}, goesOn: true},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.test(t) })
	}
}

// A container that is paused has no health checks and is not called unhealthy; a
// stop resumes it.
func TestPausedContainer(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	id := b.detach(b.define(ctr{Name: "app", Command: words("sleep forever"), StopTimeout: 5, Health: healthyIf("exists /testbox")}))
	b.await("app HEALTHY")
	app := b.inspect(id).Containers[0].RuntimeID
	b.meddle("pause " + app)
	eventually(t, "that it is paused", func() bool { return b.inspect(id).Containers[0].Paused })
	if got := b.inspect(id); got.Health != "HEALTHY" || got.Status != "RUNNING" {
		t.Errorf("%s %s", got.Status, got.Health)
	}
	b.meddle("unpause " + app)
	eventually(t, "that it continues", func() bool { return !b.inspect(id).Containers[0].Paused })
	b.meddle("pause " + app)
	b.want(0, "stop", id)
	if got := b.inspect(id); got.codes() != "app=143" {
		t.Errorf("%s", got.codes())
	}
}
