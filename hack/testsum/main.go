// Command testsum runs the levels of the test suite and sums them up.
//
//	testsum -log FILE -level NAME -json -- CMD...   CMD prints `go test -json` events
//	testsum -log FILE -level NAME -- CMD...         CMD is one check by itself
//	testsum -log FILE -level NAME -skip REASON      the level cannot run here
//	testsum -log FILE -total                        print all levels and the sum
//
// A level prints one line with its counts and its seconds, the output of each
// failed test, and the reason of each skipped one. The total's last line reads
// "N passed, N failed, N skipped".
//
// Exit status is 0, or 1 when anything failed: a test, a build, the command
// itself, or a level in which no test ran. With CI=true in the environment a
// skip fails the total as well. 2 is wrong usage or a log that cannot be
// written.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Level is the outcome of one level, one line of the log.
type Level struct {
	Name    string  `json:"name"`
	Passed  int     `json:"passed"`
	Failed  int     `json:"failed"`
	Skipped int     `json:"skipped"`
	Seconds float64 `json:"seconds"`
	// Reason says why the whole level was skipped; empty when it ran.
	Reason string `json:"reason,omitempty"`
}

// String is the level's line in reports.
func (l Level) String() string {
	s := fmt.Sprintf("%-22s %5d passed %4d failed %4d skipped %7.1f s", l.Name, l.Passed, l.Failed, l.Skipped, l.Seconds)
	if l.Reason != "" {
		s += "  not run: " + l.Reason
	}
	return s
}

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr, os.Getenv("CI") == "true"))
}

// run is main with its surroundings as arguments; it returns the exit status.
func run(args []string, stdout, stderr io.Writer, strict bool) int {
	flags := flag.NewFlagSet("testsum", flag.ContinueOnError)
	flags.SetOutput(stderr)
	log := flags.String("log", "", "`FILE` that gathers the levels")
	name := flags.String("level", "", "`NAME` of the level")
	events := flags.Bool("json", false, "CMD prints go test -json events")
	skip := flags.String("skip", "", "`REASON` why the level cannot run")
	total := flags.Bool("total", false, "print the levels and the sum")
	if err := flags.Parse(args); err != nil {
		return 2
	}

	var level Level
	switch {
	case *log == "":
		fmt.Fprintln(stderr, "testsum: -log FILE is missing: it names the file that gathers the levels")
		return 2
	case *total:
		return report(*log, stdout, stderr, strict)
	case *skip != "":
		level = Level{Name: *name, Skipped: 1, Reason: *skip}
	case flags.NArg() > 0:
		cmd := exec.Command(flags.Arg(0), flags.Args()[1:]...)
		cmd.Stderr = stderr
		level = runLevel(*name, cmd, *events, stdout)
	default:
		fmt.Fprintln(stderr, "testsum: nothing to do: give a command, -skip REASON or -total")
		return 2
	}

	fmt.Fprintln(stdout, level)
	if err := appendLevel(*log, level); err != nil {
		fmt.Fprintln(stderr, "testsum:", err)
		return 2
	}
	if level.Failed > 0 {
		return 1
	}
	return 0
}

// runLevel runs cmd to its end and counts. Everything worth reading about it
// goes to out.
func runLevel(name string, cmd *exec.Cmd, events bool, out io.Writer) Level {
	begin := time.Now()
	level := Level{Name: name}
	if events {
		level.Passed, level.Failed, level.Skipped = runEvents(cmd, out)
	} else if text, err := runCheck(cmd); err != nil {
		fmt.Fprintf(out, "--- FAIL: %s: %v\n%s", name, err, text)
		level.Failed = 1
	} else {
		level.Passed = 1
	}
	level.Seconds = time.Since(begin).Seconds()
	return level
}

// runCheck runs a command whose exit status is its whole result, and returns
// what it printed.
func runCheck(cmd *exec.Cmd) (string, error) {
	var text strings.Builder
	cmd.Stdout, cmd.Stderr = &text, &text
	err := cmd.Run()
	return text.String(), err
}

// runEvents runs a command that prints test events, and counts tests.
func runEvents(cmd *exec.Cmd, out io.Writer) (passed, failed, skipped int) {
	stream, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintf(out, "--- FAIL: cannot start the tests: %v\n", err)
		return 0, 1, 0
	}
	t := newTally(out)
	readErr := t.Read(stream)
	err = errors.Join(readErr, cmd.Wait())
	t.Finish()
	if err != nil && t.Failed == 0 {
		fmt.Fprintf(out, "--- FAIL: %s: %v\n", cmd.Path, err)
		t.Failed++
	}
	if t.Passed+t.Failed+t.Skipped == 0 {
		fmt.Fprintln(out, "--- FAIL: no test ran: a level that tests nothing proves nothing")
		t.Failed++
	}
	return t.Passed, t.Failed, t.Skipped
}

func appendLevel(log string, level Level) error {
	line, err := json.Marshal(level)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}

func readLevels(log string) ([]Level, error) {
	f, err := os.Open(log)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var levels []Level
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var level Level
		if err := json.Unmarshal(lines.Bytes(), &level); err != nil {
			return nil, fmt.Errorf("%s holds a line that is no level: %w", log, err)
		}
		levels = append(levels, level)
	}
	return levels, lines.Err()
}

// report prints all levels and, last, the sum.
func report(log string, stdout, stderr io.Writer, strict bool) int {
	levels, err := readLevels(log)
	if err != nil {
		fmt.Fprintln(stderr, "testsum:", err)
		return 2
	}
	var sum Level
	fmt.Fprintln(stdout)
	for _, level := range levels {
		fmt.Fprintln(stdout, level)
		sum.Passed += level.Passed
		sum.Failed += level.Failed
		sum.Skipped += level.Skipped
		sum.Seconds += level.Seconds
	}
	status := 0
	switch {
	case len(levels) == 0 || sum.Passed+sum.Failed+sum.Skipped == 0:
		fmt.Fprintln(stdout, "no level ran")
		status = 1
	case sum.Failed > 0:
		status = 1
	case strict && sum.Skipped > 0:
		fmt.Fprintln(stdout, "CI=true: skips count as failure")
		status = 1
	}
	fmt.Fprintf(stdout, "%d passed, %d failed, %d skipped\n", sum.Passed, sum.Failed, sum.Skipped)
	return status
}
