package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// event is one line of `go test -json`; see `go doc test2json`.
type event struct {
	Action     string
	Package    string
	ImportPath string // of build-output, in place of Package
	Test       string
	Output     string
	// FailedBuild is the ImportPath whose build output explains a package's
	// failure.
	FailedBuild string
}

// testID names a test of a package; an empty test is the package itself.
type testID struct{ pkg, test string }

// tally counts the tests of an event stream, subtests included, and prints
// what went wrong as it happens. It is for one goroutine.
type tally struct {
	Passed, Failed, Skipped int

	out    io.Writer
	open   map[testID]*strings.Builder // begun and not ended, with output so far
	order  []testID                    // keys of open, in the order they were begun
	builds map[string]*strings.Builder // by ImportPath
	failed map[string]bool             // packages that have a failed test
}

func newTally(out io.Writer) *tally {
	return &tally{
		out:    out,
		open:   map[testID]*strings.Builder{},
		builds: map[string]*strings.Builder{},
		failed: map[string]bool{},
	}
}

// Read takes events until r ends. A line that is no event is passed on as it
// is: a program under test may print to the same stream.
func (t *tally) Read(r io.Reader) error {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		if strings.TrimSpace(line) != "" {
			t.line(line)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading test events: %w", err)
		}
	}
}

func (t *tally) line(line string) {
	var e event
	if json.Unmarshal([]byte(line), &e) != nil || e.Action == "" {
		fmt.Fprintln(t.out, strings.TrimRight(line, "\n"))
		return
	}
	id := testID{e.Package, e.Test}
	switch e.Action {
	case "start", "run":
		t.output(id)
	case "output":
		t.output(id).WriteString(e.Output)
	case "build-output":
		if t.builds[e.ImportPath] == nil {
			t.builds[e.ImportPath] = &strings.Builder{}
		}
		t.builds[e.ImportPath].WriteString(e.Output)
	case "pass", "skip", "fail":
		if e.Test == "" {
			t.endPackage(e)
		} else {
			t.endTest(id, e.Action)
		}
	}
}

// output returns where the output of an open test is gathered, and opens it.
func (t *tally) output(id testID) *strings.Builder {
	if t.open[id] == nil {
		t.open[id] = &strings.Builder{}
		t.order = append(t.order, id)
	}
	return t.open[id]
}

func (t *tally) endTest(id testID, action string) {
	text := withoutFrame(t.output(id).String())
	delete(t.open, id)
	switch action {
	case "pass":
		t.Passed++
	case "skip":
		t.Skipped++
		fmt.Fprintf(t.out, "--- SKIP: %s %s: %s\n", id.pkg, id.test, reason(text))
	case "fail":
		t.Failed++
		t.failed[id.pkg] = true
		fmt.Fprintf(t.out, "--- FAIL: %s %s\n%s", id.pkg, id.test, text)
	}
}

// endPackage closes a package. A package may fail without a failed test: it
// did not build, its TestMain failed, or the process ended in mid-test.
func (t *tally) endPackage(e event) {
	for _, id := range t.order {
		if id.pkg == e.Package && id.test != "" && t.open[id] != nil {
			t.endTest(id, "fail")
		}
	}
	text := t.output(testID{pkg: e.Package}).String()
	delete(t.open, testID{pkg: e.Package})
	if e.Action != "fail" {
		return
	}
	if !t.failed[e.Package] {
		t.Failed++
	}
	t.failed[e.Package] = true
	// A panic and its stacks belong to the package, whichever test they ended.
	fmt.Fprintf(t.out, "--- FAIL: %s\n", e.Package)
	if build := t.builds[e.FailedBuild]; build != nil {
		fmt.Fprint(t.out, build)
	}
	fmt.Fprint(t.out, text)
}

// Finish counts tests that never ended as failed: the stream broke off.
func (t *tally) Finish() {
	for _, id := range t.order {
		if t.open[id] != nil && id.test != "" {
			t.output(id).WriteString("the test did not end\n")
			t.endTest(id, "fail")
		}
	}
}

// withoutFrame drops the lines that the testing package puts around what a
// test said.
func withoutFrame(text string) string {
	var said strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(strings.TrimLeft(line, " "), "--- ") {
			said.WriteString(line)
		}
	}
	return said.String()
}

// reason is what a skipped test said, in one line.
func reason(text string) string {
	if said := strings.Join(strings.Fields(text), " "); said != "" {
		return said
	}
	return "no reason given"
}
