//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// controllers are the cgroup controllers this user's containers can have.
func controllers() string {
	uid := os.Getuid()
	data, _ := os.ReadFile(fmt.Sprintf("/sys/fs/cgroup/user.slice/user-%d.slice/user@%d.service/cgroup.controllers", uid, uid))
	return strings.TrimSpace(string(data))
}

// limited is a task with limits of its own and of its container.
func (b *box) limited() (path string) {
	return b.write(def{CPU: "512", Memory: "256", Containers: []ctr{{Name: "app", Command: words("print hello"), Memory: 128}}})
}

func TestLimitsThatThisHostCannotApply(t *testing.T) {
	t.Parallel()
	if c := controllers(); strings.Contains(c, "memory") && strings.Contains(c, "cpu") {
		t.Skip("this host applies limits")
	}
	b := newBox(t)
	r := b.want(125, "run", "--limits", "enforce", b.limited())
	for _, want := range []string{"cpu", "memory", "--limits best-effort"} {
		if !strings.Contains(r.err, want) {
			t.Errorf("the error does not name %q: %s", want, r.err)
		}
	}
	if got := b.want(0, "ps", "-a", "-q").out + b.objects(); got != "" {
		t.Errorf("something was made: %s", got)
	}
	r = b.want(0, "run", "--name", b.family, b.limited())
	if !strings.Contains(r.out, "hello") {
		t.Errorf("it printed %q", r.out)
	}
	if !strings.Contains(r.err, "Warning: ") || !strings.Contains(r.err, "cpu and memory limits") {
		t.Errorf("no warning about the limits:\n%s", r.err)
	}
	if got := b.inspect(b.family); got.Limits != "best-effort" || strings.Join(got.UnappliedLimits, " ") != "cpu memory" {
		t.Errorf("limits %s, not applied %q; want best-effort, cpu and memory", got.Limits, got.UnappliedLimits)
	}
	if got := b.want(0, "ps", "-a", "--format", "{{.Status}}").out + b.want(0, "ps", "-a", "-o", "wide").out; !strings.Contains(got, "(no cpu, memory limits)") || !strings.Contains(got, " cpu, memory ") {
		t.Errorf("ps does not say what the task does without: %s", got)
	}
	b.want(0, "run", "--limits=off", b.limited())
}
