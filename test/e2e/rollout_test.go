//go:build e2e

//e2e:bed systemd

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/pkg/api"
)

// progress is how far the latest deployment of the box's service is.
func (b *box) progress() (api.PastDeployment, api.DeploymentProgress) {
	b.t.Helper()
	history := b.service().History
	last := history[len(history)-1]
	if last.Progress == nil {
		return last, api.DeploymentProgress{}
	}
	return last, *last.Progress
}

// script is a program of this host.
func (b *box) script(name, text string) (path string) {
	b.t.Helper()
	path = filepath.Join(b.dir, name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
		b.t.Fatal(err)
	}
	return path
}

// listens are the flags of a service with an address and one for tests.
func listens(production, test int) []string {
	return []string{fmt.Sprintf("--listen=127.0.0.1:%d=app:8080", production), fmt.Sprintf("--test-listen=127.0.0.1:%d=app:8080", test)}
}

// wantGreeting fails unless a new connection to a port gets the answer. A kept one stays with its copy.
func wantGreeting(t *testing.T, port int, want string) {
	t.Helper()
	if text, err := greeting(port); err != nil || text != want {
		t.Errorf("port %d answers %q, %v, want %q", port, text, err, want)
	}
}

// Blue/green: the test address leads to the new copies while the old ones have all connections, a hook
// sees it, and clients lose no request. The agent is killed at the pause.
func TestServiceBlueGreen(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	first := b.agent()
	at, test := freePort(t), freePort(t)
	seen := filepath.Join(b.dir, "seen")
	smoke := b.script("smoke", "cat >> "+seen+"\necho '{\"hookStatus\": \"SUCCEEDED\"}'\n")
	args := append([]string{"service", "create", b.family, b.define(served("one")), "--count=2", "--strategy=blue-green", "--bake=2s", "--wait", "--timeout=4m"}, listens(at, test)...)
	b.want(0, args...)
	wantGreeting(t, at, "one")
	wantGreeting(t, test, "one")
	if r := b.want(125, "service", "create", b.family+"2", b.define(ctr{Name: "app", Command: words("term 0"), Ports: []port{{Container: 8080, Host: freePort(t)}}}), "--strategy=blue-green"); !strings.Contains(r.err, "side by side") {
		t.Errorf("with a fixed port: %s", r.err)
	}

	requests := askAlways(t, at, load{clients: 4, most: 5000, pace: 3 * time.Millisecond})
	b.want(0, "service", "update", b.family, b.define(served("two")), "--hook=smoke@post-test:1m="+smoke, "--hook=ok@post-test:10m=pause")
	eventually(t, "the pause", func() bool {
		_, p := b.progress()
		return p.Stage == "POST_TEST_TRAFFIC_SHIFT" && len(p.Hooks) == 2 && p.Hooks[0].Status == "SUCCEEDED"
	})
	wantGreeting(t, at, "one")
	wantGreeting(t, test, "two")
	if code, sentence := b.why(b.family); code != "pause" || !strings.Contains(sentence, "service continue "+b.family) {
		t.Errorf("why says %s: %s", code, sentence)
	}
	if line := b.want(0, "service", "ls").out; !strings.Contains(line, fmt.Sprintf("127.0.0.1:%d (test)", test)) || !strings.Contains(line, "POST_TEST_TRAFFIC_SHIFT") {
		t.Errorf("ls printed %s", line)
	}
	b.want(0, "service", "continue", b.family, "--wait", "--timeout=4m")
	if answers := requests(); answers["one"] == 0 || answers["two"] == 0 {
		t.Errorf("answers by copies: %v, want some of both revisions", answers)
	}
	payload, err := os.ReadFile(seen)
	if err != nil || !strings.Contains(string(payload), `"lifecycleStage":"POST_TEST_TRAFFIC_SHIFT"`) {
		t.Errorf("the hook got %q, %v", payload, err)
	}

	// The next one is killed at its pause; the next agent waits at the same.
	b.want(0, "service", "update", b.family, b.define(served("three")))
	pause := ""
	eventually(t, "the second pause", func() bool {
		_, p := b.progress()
		for _, h := range p.Hooks {
			if h.Status == "AWAITING_ACTION" {
				pause = h.ID
			}
		}
		return pause != ""
	})
	first.kill()
	b.agent()
	if _, p := b.progress(); p.Hooks[len(p.Hooks)-1].ID != pause {
		t.Errorf("after a kill the pauses are %+v, before %s", p.Hooks, pause)
	}
	b.want(0, "service", "continue", b.family, "--rollback")
	eventually(t, "the way back", func() bool { past, _ := b.progress(); return past.Status == "ROLLBACK_SUCCESSFUL" })
	wantGreeting(t, at, "two")
	wantGreeting(t, test, "two")
	b.removeService()
}

// A canary whose hook fails is rolled back, and its reason is the output of the hook.
func TestServiceCanaryIsRolledBackByAHook(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.agent()
	at := freePort(t)
	b.want(0, "service", "create", b.family, b.define(served("one")), fmt.Sprintf("--listen=127.0.0.1:%d=app:8080", at), "--strategy=canary", "--canary-percent=10", "--canary-bake=1m", "--wait", "--timeout=4m")
	failing := b.script("verify", "echo 'error rate 7 %' >&2\nexit 1\n")
	r := b.want(125, "service", "update", b.family, b.define(served("two")), "--hook=verify@production:1m="+failing, "--wait", "--timeout=4m")
	for _, want := range []string{"10 % shifted", "rolling back", "PRODUCTION_TRAFFIC_SHIFT hooks failed: verify", "error rate 7 %", "runs " + b.family + ":1 again"} {
		if !strings.Contains(r.err, want) {
			t.Errorf("%q is missing in:\n%s", want, r.err)
		}
	}
	if events := b.want(0, "service", "events", b.family).out; !strings.Contains(events, "gets 0 % of the connections") {
		t.Errorf("the events are:\n%s", events)
	}
	wantGreeting(t, at, "one")
	if table := b.want(0, "service", "history", b.family, "--format", "wide").out; !strings.Contains(table, "CANARY") || !strings.Contains(table, "ROLLBACK_SUCCESSFUL") {
		t.Errorf("the history is:\n%s", table)
	}
	b.removeService()
}

// A linear shift pauses before each step.
func TestServiceLinearPausesAndContinues(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.agent()
	at := freePort(t)
	b.want(0, "service", "create", b.family, b.define(served("one")), fmt.Sprintf("--listen=127.0.0.1:%d=app:8080", at), "--wait", "--timeout=4m")
	migration := b.revision(ctr{Name: "app", Command: words("print migrated -- exit 0")}) // has the family of the service, too
	b.want(0, "service", "update", b.family, b.define(served("two")), "--strategy=linear", "--step-percent=50", "--step-bake=1s", "--hook=ok@pre-production=pause", "--hook=migrate@pre-scale-up=task:"+migration)
	for _, percent := range []float64{0, 50} {
		eventually(t, "a pause", func() bool {
			_, p := b.progress()
			return p.Stage == "PRE_PRODUCTION_TRAFFIC_SHIFT" && p.Percent == percent && p.Hooks[len(p.Hooks)-1].Status == "AWAITING_ACTION"
		})
		if percent == 50 {
			answers := map[string]int{}
			for range 100 {
				text, err := greeting(at)
				if err != nil {
					t.Fatal(err)
				}
				answers[text]++
			}
			if n := answers["two"]; n < 49 || n > 51 {
				t.Errorf("of 100 connections: %v", answers)
			}
		}
		b.want(0, "service", "continue", b.family)
	}
	eventually(t, "the end", func() bool { past, _ := b.progress(); return past.Status == "SUCCESSFUL" })
	wantGreeting(t, at, "two")
	b.want(0, "service", "update", b.family, "--image="+b.testbox(), "--hook=none", "--wait", "--timeout=4m")
	if s := b.service(); s.TaskDefinition != b.family+":3" {
		t.Errorf("the same image made %s", s.TaskDefinition)
	}
	b.removeService()
}

// Hooks that take time: one that is in progress is called again, one that does not end in time has the deployment rolled back, or
// lets it continue if it is told to. Clients of both addresses lose no request meanwhile.
func TestServiceHooksThatTakeTime(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.agent()
	at, test := freePort(t), freePort(t)
	b.want(0, append([]string{"service", "create", b.family, b.define(served("one")), "--strategy=blue-green", "--bake=0s", "--wait", "--timeout=4m"}, listens(at, test)...)...)
	production := askAlways(t, at, load{clients: 2, most: 5000, pace: 5 * time.Millisecond})
	tests := askAlways(t, test, load{clients: 2, most: 5000, pace: 5 * time.Millisecond})

	calls := filepath.Join(b.dir, "calls")
	slow := b.script("slow", "cat > /dev/null\necho >> "+calls+"\n[ $(wc -l < "+calls+") -gt 2 ] && echo '{\"hookStatus\": \"SUCCEEDED\"}' || echo '{\"hookStatus\": \"IN_PROGRESS\", \"callBackDelay\": 1}'\n")
	b.want(0, "service", "update", b.family, b.define(served("two")), "--hook=slow@post-test:2m="+slow, "--wait", "--timeout=4m")
	if text, err := os.ReadFile(calls); err != nil || len(text) != 3 {
		t.Errorf("the hook in progress was called %d times, %v, want 3", len(text), err)
	}
	wantGreeting(t, at, "two")

	hang := b.script("hang", "exec sleep 1000\n")
	r := b.want(125, "service", "update", b.family, b.define(served("three")), "--hook=hang@post-test:3s="+hang, "--wait", "--timeout=4m")
	if !strings.Contains(r.err, "hang") || !strings.Contains(r.err, "3s") || !strings.Contains(r.err, "rolling back") {
		t.Errorf("the hook that hangs:\n%s", r.err)
	}
	wantGreeting(t, at, "two")
	wantGreeting(t, test, "two")
	b.want(0, "service", "update", b.family, b.define(served("three")), "--hook=hang@post-test:3s:continue="+hang, "--wait", "--timeout=4m")
	wantGreeting(t, at, "three")
	for name, stop := range map[string]func() map[string]int{"production": production, "test": tests} {
		if answers := stop(); answers["one"] == 0 || answers["two"] == 0 || answers["three"] == 0 {
			t.Errorf("%s: answers by copies: %v, want some of each revision", name, answers)
		}
	}
	b.removeService()
}
