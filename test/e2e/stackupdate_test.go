//go:build e2e && bed_systemd

package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// A member that follows a tag is updated by auto-update, under its minimum age. The stack leaves that as it is, says so, and puts it back with
// no change of something else.
func TestStackMemberIsUpdatedAutomatically(t *testing.T) {
	b := &hours{box: newBox(t)}
	b.configure("minimum-age = \"1d\"\n")
	agent := b.agent()
	image, _ := b.greeter("one")
	at := freePort(t)
	file := func(grace, check string) string {
		return b.stackFile("own/stack.yaml", fmt.Sprintf(`name: %s
members:
  web: {image: "%s", command: [serve, "8080"], ports: [8080], listen: "127.0.0.1:%d=web:8080", auto-update: registry, drain: 1s, health-grace: %s}
  other: {image: "%s", command: [serve, "8080"], after: [web], healthcheck: {test: [CMD, /testbox, get, "http://127.0.0.1:8080%s"], interval: 5s, retries: 1, start_period: 4s}}
`, b.family, image, at, grace, b.testbox(), check))
	}
	own := file("1s", "/")
	b.want(0, "stack", "up", own)
	b.wantAnswer(at, "one")
	if r := b.want(125, "stack", "plan", "--lock", own); !strings.Contains(r.err, "stack.yaml:3: web: auto-update follows tags, and a lockfile has digests") {
		t.Errorf("a lock: %s", r.err)
	}
	b.greeter("two")
	if r := b.want(0, "stack", "up", own); !strings.Contains(r.out, "up to date") || !strings.Contains(r.err, "the minimum age is 1d") {
		t.Errorf("a tag that waits: %s%s", r.out, r.err)
	}
	if r := b.later(0, "auto-update", "--format=json", b.family+"-web"); !strings.Contains(r.out, `"updated": "true"`) {
		t.Errorf("auto-update says %s", r.out)
	}
	b.wantAnswer(at, "two")
	if r := b.want(0, "stack", "plan", own); !strings.Contains(r.out, "2 as they are") || !strings.Contains(r.err, "was updated automatically") {
		t.Errorf("the plan after the update: %s%s", r.out, r.err)
	}
	if r := b.want(125, "stack", "up", file("2s", "/exists/nothing")); !strings.Contains(r.err, "The change was put back") {
		t.Errorf("a change that fails: %s", r.err)
	}
	b.wantAnswer(at, "two")
	if r := b.want(0, "stack", "up", file("1s", "/")); !strings.Contains(r.out, "up to date") || strings.Contains(r.err, "was updated automatically") {
		t.Errorf("the record after that: %s%s", r.out, r.err)
	}
	b.want(0, "stack", "up", file("2s", "/"))
	b.want(0, "stack", "rollback", b.family)
	b.wantAnswer(at, "two")
	b.removeStack(b.family)
	agent.end()
}
