package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A kill names one moment of one scenario, and what happens then if it is not a kill.
type kill struct {
	Scenario, Program, Syscall string
	When                       int
	Fault                      string
}

func (k kill) String() string {
	out := fmt.Sprintf("podman-crash -scenario %s -program %s -syscall %s -when %d", k.Scenario, k.Program, k.Syscall, k.When)
	if k.Fault != "" {
		out += " -fault " + k.Fault
	}
	return out
}

// A failure is an invariant that does not hold, with what was seen.
type failure struct{ Check, Seen string }

// A result has the failures after a kill. The kill was missed if fewer calls were made than before.
type result struct {
	Kill     kill
	Count    int
	At       string // the program and the call of the kill
	Missed   bool
	Failures []failure
	Took     time.Duration
}

// The invariants. hang: each command ends. error: a Podman that was not killed did its work, or ends with an error and says why.
// next: the next command works. again: what was killed can be done again. exit: the exit code is that of the process.
// twice: no container's process runs twice. left: removal leaves nothing.
var checks = []string{"hang", "error", "next", "again", "exit", "twice", "left"}

func (r *result) fail(check, format string, args ...any) {
	seen := fmt.Sprintf(format, args...)
	if _, trace, found := strings.Cut(seen, "panic: "); found { // not the stacks of all goroutines
		line, _, _ := strings.Cut(trace, "\n")
		seen = "panic: " + line
	}
	if most := 1000; len(seen) > most {
		seen = seen[:most] + " ..."
	}
	r.Failures = append(r.Failures, failure{check, seen})
}

// try runs a scenario once. An error says that it could not be prepared.
func (b *bed) try(k kill) (result, error) {
	begin, r, s := time.Now(), result{Kill: k}, scenarios[k.Scenario]
	for _, command := range s.before {
		if out, code, err := b.do(command); err != nil || code != 0 {
			return r, fmt.Errorf("podman %s: exit code %d, %v: %s", command, code, err, out)
		}
		if starts(command) && !b.settle(func() bool { return b.payloads() == 1 }) {
			return r, fmt.Errorf("podman %s: its process does not run", command)
		}
	}
	trace, out, err := b.traceCommand(k, s.kill, b.deadline)
	if undo := faults[k.Fault].undo; undo != "" {
		if out, code, _ := b.run(b.deadline, b.inNamespace(undo)...); code != 0 {
			return r, fmt.Errorf("%s: %s", undo, out)
		}
	}
	switch {
	case errors.Is(err, errDeadline):
		r.fail("hang", "%s", s.kill)
	case err != nil:
		return r, err
	case k.When == 0 && trace.Exit != 0:
		return r, fmt.Errorf("podman %s: exit code %d: %s", s.kill, trace.Exit, out)
	}
	r.Count, r.At, r.Missed = trace.Count, trace.At, err == nil && k.When > 0 && trace.Killed == 0
	if err == nil && trace.Killed != 0 && (k.Program != "podman" || k.Fault != "") {
		b.checkError(&r, s, trace.Exit, out)
	}
	b.check(&r, s)
	b.remove(&r)
	r.Took = time.Since(begin)
	return r, nil
}

// checkError checks the end of a command whose own process was not killed.
func (b *bed) checkError(r *result, s scenario, exit int, out string) {
	switch {
	case strings.Contains(out, "panic:") || strings.Contains(out, noAnswer) || exit > 128 && exit <= 128+64: // a signal
		r.fail("error", "%s: exit code %d: %s", s.kill, exit, out)
	case exit != 0 && out == "":
		r.fail("error", "%s: exit code %d without a message", s.kill, exit)
	case exit != 0:
	case s.gone != "" && (strings.Contains(s.kill, "rm ") || strings.HasPrefix(s.kill, "DELETE ")):
		if _, code, _ := b.do(strings.Replace(s.gone, " ", " exists ", 1)); code == 0 {
			r.fail("error", "%s: exit code 0, and %s exists", s.kill, s.gone)
		}
	case starts(s.kill) && !b.settle(func() bool { return b.payloads() > 0 }):
		r.fail("error", "%s: exit code 0, and its process does not run", s.kill)
	}
}

// check checks what must hold after the kill.
func (b *bed) check(r *result, s scenario) {
	b.expect(r, "next", "ps -a", 0)
	b.expect(r, "next", "run --rm --network none IMAGE sh -c 'exit 7'", 7)
	for _, command := range s.again {
		if !b.expect(r, "again", command, 0) {
			return
		}
		if starts(command) && !strings.Contains(command, "pod start") && !b.settle(func() bool { return b.payloads() > 0 }) {
			r.fail("again", "%s: exit code 0, and its process does not run", command)
			return
		}
		if n := b.payloads(); n > 1 {
			r.fail("twice", "%s: %d processes", command, n)
		}
	}
	if s.exit != "" {
		out, _, _ := b.do("inspect -f {{.State.ExitCode}} " + s.exit)
		if unknown := out == "-1" && r.Kill.Program == "conmon"; out != "3" && !unknown { // only conmon sees the code
			r.fail("exit", "%s in place of 3", out)
		}
	}
	if s.gone != "" {
		if _, code, _ := b.do(strings.Replace(s.gone, " ", " exists ", 1)); code != 1 {
			r.fail("again", "%s exists after its removal", s.gone)
		}
	}
}

// expect runs a command and checks its exit code. What is to be removed may be gone already.
func (b *bed) expect(r *result, check, command string, want int) bool {
	out, code, err := b.do(command)
	switch {
	case errors.Is(err, errDeadline):
		r.fail("hang", "%s", command)
		return false
	case code == want, strings.Contains(command, "rm -f") && strings.Contains(out, "no such"):
		return true
	}
	r.fail(check, "%s: exit code %d: %s", command, code, out)
	return false
}

// remove removes everything as a user does, and checks that nothing is left.
func (b *bed) remove(r *result) {
	for _, command := range []string{"pod rm -f -t 0 -a", "rm -f -t 0 -a", "system prune -f --volumes"} {
		b.expect(r, "left", command, 0)
	}
	// What is in the storage and not in the database is removed by its ID only.
	if ids, _, _ := b.do("ps -a -q --external"); ids != "" {
		b.expect(r, "left", "rm -f -t 0 "+strings.Join(strings.Fields(ids), " "), 0)
	}
	for _, list := range []string{"ps -a -q --external", "pod ps -q", "volume ls -q", "network ls --format {{.Name}}"} {
		if out, code, _ := b.do(list); code != 0 || strings.TrimPrefix(out, "podman") != "" {
			r.fail("left", "%s: %s", list, out)
		}
	}
	// The conmon of a session of exec by the REST API waits for five minutes before it ends, also without a kill.
	for _, pid := range processes("--exit-delay") {
		if slices.Contains(processes(filepath.Base(b.dir)), pid) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	if !b.settle(func() bool { return len(b.left()) == 0 }) {
		r.fail("left", "%s", strings.Join(b.left(), ", "))
	}
}

// starts tells whether a command starts the payload.
func starts(command string) bool {
	return strings.HasPrefix(command, "run -d") || strings.HasPrefix(command, "start ") || strings.HasPrefix(command, "pod start") ||
		strings.HasPrefix(command, "POST ") && strings.HasSuffix(command, "/start")
}

// settle waits up to ten seconds until something holds.
func (b *bed) settle(holds func() bool) bool {
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if holds() {
			return true
		}
	}
	return holds()
}
