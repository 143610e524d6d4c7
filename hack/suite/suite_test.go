package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestTestsAreCounted(t *testing.T) {
	t.Parallel()
	const event = `{"Action":"%A","Package":"%P","Test":"%T"}`
	for _, c := range []struct {
		what, events            string
		passed, failed, skipped int
	}{
		{"nothing", "", 0, 0, 0},
		{"all kinds", "run a T1|pass a T1|skip a T2|fail a T3|fail a", 1, 1, 1},
		{"a package that does not compile", "fail a", 0, 1, 0},
		{"a package whose process died", "run a T1|pass a T1|run a T2", 1, 1, 0},
		{"two packages", "pass a T1|pass a|pass b T1|pass b", 2, 0, 0},
		{"noise between events", "pass a T1|noise|pass a", 1, 0, 0},
	} {
		var text strings.Builder
		for _, e := range strings.Split(c.events, "|") {
			f := append(strings.Fields(e), "", "", "")
			text.WriteString(strings.NewReplacer("%A", f[0], "%P", f[1], "%T", f[2]).Replace(event) + "\nno JSON\n")
		}
		if p, f, s := countTests(strings.NewReader(text.String())); p != c.passed || f != c.failed || s != c.skipped {
			t.Errorf("%s: %d passed, %d failed, %d skipped", c.what, p, f, s)
		}
	}
}

// stubs writes programs in place of those of hack, which append their name and arguments to the file "calls".
func stubs(t *testing.T, programs map[string]string) {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("SHARE", dir)
	for name, body := range programs {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		text := "#!/bin/bash\necho \"${0##*/} $*${PART:+ $PART}\" >>calls\n" + body + "\n"
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

const passes = `while [ "$1" != --jsonfile-timing-events ]; do shift; done
echo '{"Action":"pass","Package":"p","Test":"T"}' >"$2"; echo '{"Action":"pass","Package":"p"}' >>"$2"; shift 4; "$@"`

// runSteps runs steps with stubs, and returns the calls and the summary.
func runSteps(t *testing.T, ci string, steps ...string) (calls, summary string, passed bool) {
	t.Helper()
	s, err := newSuite(steps, func(name string) string { return map[string]string{"CI": ci}[name] })
	if err != nil {
		t.Fatal(err)
	}
	s.run(t.Context())
	var out bytes.Buffer
	passed = s.summary(&out, time.Second)
	text, _ := os.ReadFile("calls")
	return string(text), out.String(), passed
}

// A bed is tested after it was started and its tests were compiled, and is stopped in the end.
func TestABedIsTestedWhenItIsReady(t *testing.T) {
	stubs(t, map[string]string{"hack/install.sh": "", "hack/e2e": "", "hack/bed-systemd": "", ".bed/bin/gotestsum": passes})
	calls, summary, passed := runSteps(t, "true", "systemd")
	lines := strings.Split(strings.TrimSpace(calls), "\n")
	at := func(call string) int {
		for i, line := range lines {
			if line == call {
				return i
			}
		}
		t.Errorf("no call %q in\n%s", call, calls)
		return -1
	}
	if run := at("e2e run systemd"); run < at("e2e build systemd") || run < at("bed-systemd start") || lines[len(lines)-1] != "bed-systemd stop" {
		t.Errorf("the calls are\n%s", calls)
	}
	if !passed || !strings.HasSuffix(summary, "\n1 passed, 0 failed, 0 skipped\n") {
		t.Errorf("passed %t, the summary is\n%s", passed, summary)
	}
}

func TestAFailureAndASkipEndTheRunWithTheirReasons(t *testing.T) {
	stubs(t, map[string]string{"hack/install.sh": "", "hack/e2e": "", "hack/bed-systemd": "[ $1 != start ] || { echo this host has no namespaces; exit 3; }",
		"hack/bed-plain": "[ $1 != start ] || { echo the disk is full; exit 1; }"})
	_, summary, passed := runSteps(t, "", "plain", "systemd")
	if passed {
		t.Error("the run has passed")
	}
	for _, want := range []string{"--- SKIP: e2e systemd: this host has no namespaces\n", "the disk is full\n", "--- FAIL: e2e plain: bed\n", "\n0 passed, 1 failed, 1 skipped\n"} {
		if !strings.Contains(summary, want) {
			t.Errorf("no %q in\n%s", want, summary)
		}
	}
}

func TestSkipsFailInCI(t *testing.T) {
	for ci, want := range map[string]bool{"": true, "true": false} {
		stubs(t, map[string]string{"hack/install.sh": "", "hack/demo.sh": "echo no registry; exit 3"})
		if _, summary, passed := runSteps(t, ci, "demo"); passed != want || !strings.Contains(summary, "--- SKIP: demo: no registry\n") {
			t.Errorf("CI=%s: passed %t\n%s", ci, passed, summary)
		}
	}
}

func TestUnknownSteps(t *testing.T) {
	t.Parallel()
	if _, err := newSuite([]string{"pure", "pur"}, os.Getenv); err == nil || !strings.Contains(err.Error(), "no step pur;") {
		t.Error(err)
	}
}

// An interrupt ends a command with all that it has started.
func TestAnInterruptEndsCommandsWithTheirChildren(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		ended <- new(suite).execTo(ctx, command{args: []string{"bash", "-c", "sleep 1000 & echo started; wait"}}, w)
		w.Close()
	}()
	b := make([]byte, 100)
	if _, err := r.Read(b); err != nil {
		t.Fatal(err)
	}
	stop()
	if status := <-ended; status == 0 {
		t.Error("the command has succeeded")
	}
	if n, err := r.Read(b); err == nil { // the child has the pipe open for as long as it runs
		t.Errorf("read %q", b[:n])
	}
}
