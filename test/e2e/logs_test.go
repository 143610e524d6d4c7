//go:build e2e

//e2e:bed plain

package e2e

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func TestEveryLineOfALogArrives(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	const lines = 3000
	r := b.want(0, "run", "--quiet", "--name", b.family, b.define(ctr{Name: "app", Command: words(fmt.Sprintf("lines %d", lines))}))
	for command, out := range map[string]string{
		"run": r.out, "logs": b.want(0, "logs", b.family).out, "logs -f": b.want(0, "logs", "-f", b.family, "app").out,
	} {
		got := slices.Collect(strings.Lines(out))
		if command == "run" {
			// It follows a container that ends. Podman 4.3.1 may leave out lines then,
			// which podtask brings afterwards.
			slices.SortFunc(got, func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) })
		}
		if len(got) != lines {
			t.Errorf("%s: %d lines, want %d", command, len(got), lines)
			continue
		}
		for i, line := range got {
			if !strings.HasSuffix(strings.TrimSpace(line), fmt.Sprintf("line %d", i+1)) {
				t.Errorf("%s: line %d is %q", command, i+1, line)
				break
			}
		}
	}
	tail := b.want(0, "logs", "--tail", "2", b.family).out
	if n := strings.Count(tail, "\n"); n != 2 || !strings.Contains(tail, fmt.Sprintf("line %d\n", lines)) {
		t.Errorf("--tail 2 printed %q", tail)
	}
}

func TestClosedOutputStopsTheTask(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	run := b.startWith(func(cmd *exec.Cmd) { cmd.Stdout = write }, "run", "--name", b.family,
		b.define(ctr{Name: "app", Command: words("term 5 -- print one -- wait /tmp/go -- print two -- sleep forever")}))
	write.Close()
	if line, err := bufio.NewReader(read).ReadString('\n'); err != nil || !strings.Contains(line, "one") {
		t.Fatalf("it printed %q, %v", line, err)
	}
	read.Close() // as head -n 1 does
	b.tell(b.family, "app", "/tmp/go")
	run.want(5)
	if got := b.inspect(b.family); got.Status != "STOPPED" || !strings.Contains(got.StoppedReason, "output") {
		t.Errorf("%s: %s", got.Status, got.StoppedReason)
	}
}

func TestDefinitionFromStandardInput(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	file, err := os.Open(b.hello(b.testbox()))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r := b.startWith(func(cmd *exec.Cmd) { cmd.Stdin = file }, "run", "-").want(0)
	if !strings.Contains(r.out, "hello") {
		t.Errorf("it printed %q", r.out)
	}
}

// A container may have a name that the ID of another task begins with.
func TestLogsPreferTheContainerToAnotherTask(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	other := b.detach(b.waiter())
	first := ctr{Name: other[:1], Command: words("print hello")}
	b.want(0, "run", "--quiet", "--name", b.family, b.define(first))
	b.wantLines(b.family, first.Name, "hello")
}

// The logs of a service go on with the copies of a new revision.
func TestLogsOfAServiceGoOnWithNewCopies(t *testing.T) {
	b := newBox(t)
	b.agent()
	printing := func(text string) string {
		return b.define(ctr{Name: "app", Command: words("print " + text + " -- sleep forever")})
	}
	b.want(0, "service", "create", b.family, printing("first"), "--wait", "--timeout=4m")
	follow := b.start("logs", "-f", b.family)
	b.want(0, "service", "update", b.family, printing("second"), "--wait", "--timeout=4m")
	eventually(t, "the line of the new copy", func() bool { return strings.Contains(follow.out.String(), "second") })
	follow.interrupt()
	got := follow.wait().out
	for _, want := range []string{b.family + "-1/app", "first", b.family + "-2/app", "second"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in %s", want, got)
		}
	}
}
