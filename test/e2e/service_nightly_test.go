//go:build e2e && nightly

//e2e:bed systemd

package e2e

import (
	"fmt"
	"testing"
	"time"
)

// A service has a thousand requests per second, where this host has time for them and for the
// clients, and none is lost while the service is rolled to another revision and back. Every
// request has a connection of its own.
func TestServiceLosesNoneOfAThousandRequestsPerSecond(t *testing.T) {
	b := newBox(t)
	b.agent()
	at := freePort(t)
	b.want(0, "service", "create", b.family, b.define(served("one")), "--count=2", fmt.Sprintf("--listen=127.0.0.1:%d=app:8080", at), "--wait", "--timeout=4m")
	requests := askAlways(t, at, load{clients: 16, most: 100_000, pace: 14 * time.Millisecond})
	b.want(0, "service", "update", b.family, b.define(served("two")), "--wait", "--timeout=4m")
	b.want(0, "service", "update", b.family, b.family+":1", "--wait", "--timeout=4m")
	if answers := requests(); answers["one"] == 0 || answers["two"] == 0 {
		t.Errorf("answers by copies: %v, want some of both revisions", answers)
	}
	b.removeService()
}
