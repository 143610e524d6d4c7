//go:build e2e

//e2e:bed systemd

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// killWhen kills the agent as soon as the deployment of the box's service is so far, and starts another one.
func (b *box) killWhen(agent *process, what string, so func() bool) *process {
	b.t.Helper()
	eventually(b.t, what, so)
	agent.kill()
	return b.agent()
}

// inStage reports whether the latest deployment is in a stage.
func (b *box) inStage(stage string) func() bool {
	return func() bool { _, p := b.progress(); return p.Stage == stage }
}

// ended waits for the end of the latest deployment.
func (b *box) ended(want string) {
	b.t.Helper()
	eventually(b.t, want, func() bool { past, _ := b.progress(); return past.Status == want })
}

// The agent is killed while a hook runs, while the new copies bake and while a deployment is on its way back. The next agent continues
// there, and calls no hook again that has ended.
func TestDeploymentsSurviveKills(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		strategy string
		flags    []string
	}{
		{"blue-green", []string{"--bake=8s"}},
		{"linear", []string{"--step-percent=50", "--step-bake=1s", "--bake=8s"}},
	} {
		t.Run(c.strategy, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			agent := b.agent()
			at := freePort(t)
			calls, open := filepath.Join(b.dir, "calls"), filepath.Join(b.dir, "open")
			slow := b.script("slow", "echo called >> "+calls+"\nuntil [ -e "+open+" ]; do sleep 0.1; done\necho '{\"hookStatus\": \"SUCCEEDED\"}'\n")
			before := filepath.Join(b.dir, "before")
			quick := b.script("quick", "echo called >> "+before+"\necho '{\"hookStatus\": \"SUCCEEDED\"}'\n")
			b.want(0, append([]string{"service", "create", b.family, b.define(served("one")), "--count=2", "--strategy=" + c.strategy, listens(at, freePort(t))[0], "--wait", "--timeout=4m"}, c.flags...)...)

			b.want(0, "service", "update", b.family, b.define(served("two")), "--hook=quick@pre-scale-up:1m="+quick, "--hook=slow@post-scale-up:5m="+slow)
			agent = b.killWhen(agent, "the hook", func() bool { _, err := os.Stat(calls); return err == nil })
			if err := os.WriteFile(open, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			agent = b.killWhen(agent, "the bake", b.inStage("BAKE_TIME"))
			if past, p := b.progress(); past.Status != "IN_PROGRESS" || p.Stage != "BAKE_TIME" {
				t.Errorf("after a kill in the bake it is %s in %s", past.Status, p.Stage)
			}
			b.ended("SUCCESSFUL")
			wantGreeting(t, at, "two")
			if text, err := os.ReadFile(before); err != nil || strings.Count(string(text), "called") != 1 {
				t.Errorf("the hook that had ended was called %q, %v", text, err)
			}

			b.want(0, "service", "update", b.family, b.define(served("three")))
			eventually(t, "the next bake", b.inStage("BAKE_TIME"))
			b.want(0, "service", "rollback", b.family)
			agent.kill()
			b.agent()
			b.ended("ROLLBACK_SUCCESSFUL")
			wantGreeting(t, at, "two")
			b.removeService()
		})
	}
}
