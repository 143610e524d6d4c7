package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// suite is one run of the test suite.
type suite struct {
	wanted []string // the steps
	logs   string   // the directory of logs
	getenv func(string) string

	mu      sync.Mutex
	results []result
	parts   map[string]*part
}

// result is a line of the summary.
type result struct {
	name                    string
	passed, failed, skipped int
	seconds                 int
}

// part is something that other jobs wait for, a bed or programs.
type part struct {
	done   chan struct{}
	status int // 3: it cannot be on this machine
}

// part returns the part of a name.
func (s *suite) part(name string) *part {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.parts[name] == nil {
		s.parts[name] = &part{done: make(chan struct{})}
	}
	return s.parts[name]
}

func (p *part) finish(status int) {
	p.status = status
	close(p.done)
}

// await waits for a part and returns its status.
func (s *suite) await(ctx context.Context, name string) int {
	select {
	case <-s.part(name).done:
		return s.part(name).status
	case <-ctx.Done():
		return 1
	}
}

// build runs commands that make a part, until one fails.
func (s *suite) build(ctx context.Context, part, log string, commands ...command) (status int) {
	for _, c := range commands {
		if status = s.exec(ctx, c, s.logs+"/"+log+".log"); status != 0 {
			break
		}
	}
	s.part(part).finish(status)
	return status
}

// command is a program with its arguments and with variables of the environment beside those of this process.
type command struct {
	env  []string
	args []string
	idle bool // with the lowest priority
}

// exec runs a command, appends its output to a file, and returns its status. When ctx ends, the command ends with all
// that it has started.
func (s *suite) exec(ctx context.Context, c command, log string) (status int) {
	f, err := os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		say("%v", err)
		return 1
	}
	defer f.Close()
	return s.execTo(ctx, c, f)
}

func (s *suite) execTo(ctx context.Context, c command, out io.Writer) int {
	if c.idle {
		c.args = append([]string{"nice", "-n", "10"}, c.args...)
	}
	p := exec.CommandContext(ctx, c.args[0], c.args[1:]...)
	p.Env = append(os.Environ(), c.env...)
	p.Stdout, p.Stderr = out, out
	p.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.Cancel = func() error { return syscall.Kill(-p.Process.Pid, syscall.SIGTERM) }
	err := p.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return max(exit.ExitCode(), 1) // -1 for a signal
	case err != nil:
		fmt.Fprintln(out, err)
		return 1
	}
	return 0
}

// quiet runs a command that reports on stderr of this process, and returns whether it succeeded.
func (s *suite) quiet(ctx context.Context, args ...string) bool {
	return s.execTo(ctx, command{args: args}, os.Stderr) == 0
}

// logOf returns the path of a step's log.
func (s *suite) logOf(name string) string {
	return filepath.Join(s.logs, regexp.MustCompile(`[^a-z0-9]`).ReplaceAllString(name, "-")+".log")
}

func (s *suite) add(ctx context.Context, r result) {
	if ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.results = append(s.results, r)
	say("%s: %d passed, %d failed, %d skipped, %d s", r.name, r.passed, r.failed, r.skipped, r.seconds)
}

// skip counts a step that cannot run, with the reason.
func (s *suite) skip(ctx context.Context, name, why string) {
	s.note(name, "--- SKIP: "+name+": "+why)
	s.add(ctx, result{name: name, skipped: 1})
}

// note appends a line to the log of a step.
func (s *suite) note(name, line string) {
	f, err := os.OpenFile(s.logOf(name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = fmt.Fprintln(f, line)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		say("%v", err)
	}
}

// lastLine returns the last line of a log.
func (s *suite) lastLine(log string) string {
	text, _ := os.ReadFile(s.logs + "/" + log + ".log")
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}

// command runs a command whose status is the result of the step called name.
func (s *suite) command(ctx context.Context, name string, c command) {
	begin := time.Now()
	s.count(ctx, name, s.exec(ctx, c, s.logOf(name)) == 0, seconds(begin))
}

func (s *suite) count(ctx context.Context, name string, passed bool, seconds int) {
	if passed {
		s.add(ctx, result{name: name, passed: 1, seconds: seconds})
		return
	}
	s.note(name, "--- FAIL: "+name)
	s.add(ctx, result{name: name, failed: 1, seconds: seconds})
}

// failBuild counts a step as failed whose build has failed, with the log of the build.
func (s *suite) failBuild(ctx context.Context, name, log string) {
	text, _ := os.ReadFile(s.logs + "/" + log + ".log")
	s.note(name, string(text))
	s.count(ctx, name, false, 0)
}

// tests runs a command that prints `go test -json` events, and counts the tests.
func (s *suite) tests(ctx context.Context, name string, c command) {
	begin, log := time.Now(), s.logOf(name)
	// Without the inner shell gotestsum would report all of stderr as errors.
	c.args = append([]string{".bed/bin/gotestsum", "--format", "standard-quiet", "--ignore-non-json-output-lines", "--jsonfile-timing-events", log + ".json",
		"--raw-command", "--", "bash", "-c", `exec 2>>"$0" && exec "$@"`, log}, c.args...)
	status := s.exec(ctx, c, log)
	r := result{name: name, seconds: seconds(begin)}
	if f, err := os.Open(log + ".json"); err == nil {
		r.passed, r.failed, r.skipped = countTests(f)
		f.Close()
	}
	if r.failed == 0 && (status != 0 || r.passed+r.skipped == 0) {
		r.failed = 1
	}
	if text, _ := os.ReadFile(log); r.failed > 0 && !bytes.Contains(text, []byte("\n=== Failed")) {
		s.note(name, fmt.Sprintf("--- FAIL: %s: status %d, %d tests passed", name, status, r.passed))
	}
	s.add(ctx, r)
}

// countTests counts the tests of `go test -json` events. A package that fails although none of its tests did, or whose end
// is missing, counts as one failure: it does not compile, or its process died, perhaps with the bed.
func countTests(events io.Reader) (passed, failed, skipped int) {
	known, open := make(map[string]bool), make(map[string]bool)
	lines := bufio.NewScanner(events)
	lines.Buffer(nil, 1<<26)
	for lines.Scan() {
		var e struct{ Action, Package, Test string }
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			continue
		}
		if e.Test != "" {
			open[e.Package] = true
		}
		switch {
		case e.Action == "pass" && e.Test != "":
			passed++
		case e.Action == "skip" && e.Test != "":
			skipped++
		case e.Action == "fail" && e.Test != "":
			failed++
			known[e.Package] = true
		case e.Action == "fail" && !known[e.Package]:
			failed++
		}
		if e.Test == "" && slices.Contains([]string{"pass", "skip", "fail"}, e.Action) {
			delete(open, e.Package)
		}
	}
	return passed, failed + len(open), skipped
}

// summary prints what failed and was skipped, all steps and, last, the sum. It returns whether the run has passed.
func (s *suite) summary(w io.Writer, took time.Duration) bool {
	logs, _ := filepath.Glob(s.logs + "/*.log")
	for _, log := range logs {
		text, _ := os.ReadFile(log)
		_, _ = w.Write(shown(text))
	}
	fmt.Fprintln(w)
	slices.SortFunc(s.results, func(a, b result) int { return cmp.Compare(a.name, b.name) })
	var sum result
	for _, r := range s.results {
		fmt.Fprintf(w, "%-32s %5d passed %3d failed %3d skipped %5d s\n", r.name, r.passed, r.failed, r.skipped, r.seconds)
		sum.passed, sum.failed, sum.skipped = sum.passed+r.passed, sum.failed+r.failed, sum.skipped+r.skipped
	}
	fmt.Fprintf(w, "in %d s\n", int(took.Seconds()))
	if len(s.results) == 0 {
		fmt.Fprintln(w, "no step ran")
		sum.failed = 1
	}
	strict := s.getenv("CI") == "true" && sum.skipped > 0
	if strict {
		fmt.Fprintln(w, "CI=true: skips count as failures")
	}
	fmt.Fprintf(w, "%d passed, %d failed, %d skipped\n", sum.passed, sum.failed, sum.skipped)
	return sum.failed == 0 && !strict
}

var (
	sumOfTests = regexp.MustCompile(`(?m)^=== (Failed|Skipped|Errors)`)
	mark       = regexp.MustCompile(`(?m)^--- (FAIL|SKIP)`)
)

// shown returns the part of a log that the summary prints: what failed and what was skipped.
func shown(log []byte) []byte {
	if at := sumOfTests.FindIndex(log); at != nil {
		return log[at[0]:]
	}
	if mark.Match(log) {
		return log
	}
	return nil
}

func (s *suite) wants(step string) bool { return slices.Contains(s.wanted, step) }

func seconds(since time.Time) int { return int(time.Since(since).Seconds()) }

// say prints a line of progress.
func say(format string, args ...any) { fmt.Fprintf(os.Stderr, "test: "+format+"\n", args...) }
