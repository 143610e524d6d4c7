//go:build e2e && bed_plain

package e2e

import (
	"strings"
	"testing"
)

func TestPauseSaysWhatTheHostLacks(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	id := b.detach("--wait=running", b.define(ctr{Name: "app", Command: words("sleep forever")}))
	r := b.want(125, "pause", id)
	if !strings.Contains(r.err, "cgroups of version 2") || !strings.Contains(r.err, "podtask doctor") {
		t.Errorf("it says %s", r.err)
	}
	if got := b.inspect(id); got.Status != "RUNNING" || got.Containers[0].Paused {
		t.Errorf("%s, paused %v", got.Status, got.Containers[0].Paused)
	}
}
