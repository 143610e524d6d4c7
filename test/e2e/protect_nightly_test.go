//go:build e2e && nightly

package e2e

import (
	"strings"
	"testing"
)

const protectionURL = "${ECS_AGENT_URI}/task-protection/v1/state"

// protect has a copy change its protection, as a program that uses ECS's agent does.
func protect(b *box, name, enabled string) {
	b.t.Helper()
	got := b.podman("exec", b.inspect(name).Containers[0].RuntimeID, "/testbox", "send", "PUT", protectionURL, `{"ProtectionEnabled":`+enabled+`}`)
	if !strings.Contains(got, `"ProtectionEnabled":`+enabled) {
		b.t.Fatalf("the answer is %s", got)
	}
}

// A copy that protects itself outlives an update and a killed agent, and is stopped when it
// gives the protection up.
func TestAProtectedCopyIsNotReplaced(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	first := b.agent()
	b.want(0, "service", "create", b.family, b.define(copyOf("one")), "--wait", "--timeout=4m")
	old := b.well()[0]
	protect(b, old, "true")
	if r := b.want(0, "why", old); !strings.Contains(r.out, "it is protected") {
		t.Errorf("why says %s", r.out)
	}
	b.want(0, "service", "update", b.family, b.define(copyOf("two")))
	eventually(t, "a copy of the new revision beside the protected one", func() bool { return len(b.well()) == 2 })
	first.kill()
	b.agent()
	eventually(t, "the reason for which the update waits", func() bool {
		return strings.Contains(b.want(0, "why", b.family).out, old+" is protected")
	})
	if now := b.well(); len(now) != 2 || now[0] != old {
		t.Fatalf("%v are well", now)
	}
	protect(b, old, "false")
	eventually(t, "the end of the update", func() bool { now := b.well(); return len(now) == 1 && now[0] != old })

	young := b.well()[0]
	protect(b, young, "true")
	drain := b.start("drain")
	eventually(t, "a drain that waits", func() bool { return strings.Contains(drain.err.String(), young+" is protected until") })
	if s := b.inspect(young); s.Status != "RUNNING" {
		t.Errorf("it is %s", s.Status)
	}
	protect(b, young, "false")
	drain.want(0)
	b.want(0, "drain", "--undo")
	b.removeService()
}
