//go:build e2e

//e2e:bed plain

package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// ps --watch draws the list again on a terminal of 80 columns and prints it again through a
// pipe, until Ctrl-C; --latest is the newest task, although it has stopped.
func TestPsWatchesAndShowsTheLatest(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	first, second := b.family+"-first", b.family+"-second"
	running := b.detach("--wait=running", "--name", first, b.define(ctr{Name: "app", Command: words("sleep forever"), StopTimeout: 1}))

	term := b.onTerminal("ps", "--watch=200ms")
	for range 2 {
		term.see("\x1b[H\x1b[J")
		term.see("NAME")
		term.see(first)
	}
	pipe := b.start("ps", "--watch=200ms", "--noheading", "--format", "{{.Name}} {{.Status}}")
	eventually(t, "the list twice", func() bool { return strings.Count(pipe.out.String(), first+" RUNNING\n") >= 2 })

	ended := b.detach("--wait=running", "--name", second, b.define(ctr{Name: "app", Command: words("sleep forever"), StopTimeout: 1}))
	term.see(second)
	eventually(t, "the new task", func() bool { return strings.Contains(pipe.out.String(), second+" ") })
	b.want(0, "stop", second)
	pipe.out.cut(second) // what was there before
	eventually(t, "a list without the task that has stopped", func() bool {
		return regexp.MustCompile(first + ` RUNNING\n` + first + ` RUNNING\n`).MatchString(pipe.out.String())
	})
	term.keysIn("\x03")
	term.wait()
	pipe.interrupt()
	pipe.wait()
	if out := pipe.out.String(); strings.Contains(out, "\x1b") {
		t.Errorf("through a pipe there are control sequences: %q", out)
	}

	if got := strings.TrimSpace(b.want(0, "ps", "-q", "--no-trunc", "--latest").out); got != ended {
		t.Errorf("the latest task is %q, want %s", got, ended)
	}
	if got := strings.TrimSpace(b.want(0, "ps", "-q", "--no-trunc", "--latest", "--filter", "status=running").out); got != running {
		t.Errorf("the latest that runs is %q, want %s", got, running)
	}
	b.want(0, "rm", "-f", "--all")
}

// The command that import prints for a Compose file with replicas makes the service.
func TestComposeReplicasBecomeAService(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.agent()
	port := freePort(t)
	dir := filepath.Join(b.dir, b.family)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "compose.yaml")
	text := `
services:
  web:
    image: ` + b.testbox() + `
    command: term 0 -- serve 8080
    ports: ["127.0.0.1:` + strconv.Itoa(port) + `:8080"]
    healthcheck: {test: ["CMD", "/testbox", "get", "http://127.0.0.1:8080/"], interval: 5s}
    environment: {GREETING: hello from ` + b.family + `}
    deploy: {replicas: 2}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	told := b.want(0, "import", "--output", dir, file).err
	_, line, found := strings.Cut(told, "For the 2 replicas: podtask ")
	if !found {
		t.Fatalf("import prints no command: %s", told)
	}
	b.want(0, append(strings.Fields(line), "--timeout=4m")...)
	if s := b.service(); s.DesiredCount != 2 || s.HealthyCount != 2 {
		t.Errorf("%d of %d copies are healthy", s.HealthyCount, s.DesiredCount)
	}
	b.wantAnswer(port, "hello from "+b.family)
	b.want(0, "service", "rm", "--force", "--wait", "--timeout=4m", b.family)
}
