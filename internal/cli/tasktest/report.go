package tasktest

import (
	"encoding/xml"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/atomicfile"
	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/cli/lint"
	"github.com/podtask/podtask/internal/term"
)

// Status is how a test ended.
type Status string

// The statuses of a test.
const (
	Passed Status = "passed"
	Failed Status = "failed"
)

// Result is how a test ended; templates see its fields.
type Result struct {
	File    string  `json:"file"`
	Test    string  `json:"test"`
	Name    string  `json:"-"` // without the combination of the matrix
	Status  Status  `json:"status"`
	Seconds float64 `json:"seconds"`
	// Passed are the checks that held.
	Passed []string `json:"passed,omitempty"`
	// Failures has the first check that did not hold, and what went wrong after it.
	Failures []Failure `json:"failures,omitempty"`
	// Why, Containers and Logs describe the task at the failure.
	Why        string         `json:"why,omitempty"`
	Containers []string       `json:"containers,omitempty"`
	Logs       []ContainerLog `json:"logs,omitempty"`
	// Kept says how to look at a task that was left.
	Kept string `json:"kept,omitempty"`

	Line   int `json:"line"`
	Column int `json:"column"`
}

// Failure is what did not hold.
type Failure struct {
	What     string   `json:"what"`
	Expected string   `json:"expected"`
	Got      string   `json:"got"`
	Evidence []string `json:"evidence,omitempty"`
	Line     int      `json:"line,omitempty"`
	Column   int      `json:"column,omitempty"`
}

// ContainerLog has the last lines of a container.
type ContainerLog struct {
	Container string   `json:"container"`
	Lines     []string `json:"lines"`
}

// fail adds a failure. One without a place has that of the test.
func (r *Result) fail(f *Failure) {
	if f.Line == 0 {
		f.Line, f.Column = r.Line, r.Column
	}
	r.Status = Failed
	r.Failures = append(r.Failures, *f)
}

// writeText writes a line for a test that passed, and a report for one that failed.
func (r Result) writeText(w io.Writer, colors console.Colors) {
	verdict := colors.Paint(console.Green, "PASS")
	if r.Status != Passed {
		verdict = colors.Paint(console.Red, "FAIL")
	}
	fmt.Fprintf(w, "%s  %s: %s  (%.1fs)\n", verdict, r.File, term.Line(r.Test), r.Seconds)
	if r.Status != Passed {
		io.WriteString(w, r.details("      ")) //nolint:errcheck // a closed output ends at the last line
	}
}

// details returns what is known of a failure, each line after an indent.
func (r Result) details(indent string) string {
	var b strings.Builder
	line := func(head, format string, args ...any) {
		b.WriteString(indent + head + term.Line(fmt.Sprintf(format, args...)) + "\n")
	}
	for _, f := range r.Failures {
		line("", "%s:%d: %s", r.File, f.Line, f.What)
		line("  expected: ", "%s", f.Expected)
		line("  got:      ", "%s", f.Got)
		for _, e := range f.Evidence {
			line("    | ", "%s", e)
		}
	}
	if len(r.Passed) > 0 {
		line("held before: ", "%s", strings.Join(r.Passed, ", "))
	}
	for i, c := range r.Containers {
		head := "containers:  "
		if i > 0 {
			head = "             "
		}
		line(head, "%s", c)
	}
	if r.Why != "" {
		line("the task:    ", "%s", r.Why)
	}
	for _, l := range r.Logs {
		line("", "last lines of %s:", l.Container)
		for _, text := range l.Lines {
			line("  | ", "%s", text)
		}
	}
	if r.Kept != "" {
		line("it is kept:  ", "%s", r.Kept)
	} else {
		line("look at it:  ", "podtask test --keep --run '^%s' %s", regexp.QuoteMeta(r.Name), r.File)
	}
	return b.String()
}

// inWorkspace is the path of a file for an annotation: from the checked-out repository on, if the file is in it. GitHub
// does not know in which directory a step has run.
func inWorkspace(file, workspace string) string {
	abs, err := filepath.Abs(file)
	if err != nil || workspace == "" {
		return file
	}
	rel, err := filepath.Rel(workspace, abs)
	if err != nil || !filepath.IsLocal(rel) {
		return file
	}
	return rel
}

// writeGitHub writes an annotation for each failure. Workspace is where GitHub has checked out the repository; empty if
// that is not known.
func (r Result) writeGitHub(w io.Writer, workspace string) {
	var findings []lint.Finding
	for _, f := range r.Failures {
		findings = append(findings, lint.Finding{
			Level: lint.Error, File: inWorkspace(r.File, workspace), Line: f.Line, Column: f.Column, Rule: "test",
			Message: fmt.Sprintf("%s: %s: expected %s, got %s", r.Test, f.What, f.Expected, f.Got),
		})
	}
	_ = lint.WriteGitHub(w, findings) // a closed output ends at the last line
}

func writeSum(w io.Writer, results []Result, took time.Duration) error {
	failed := 0
	for _, r := range results {
		if r.Status != Passed {
			failed++
		}
	}
	_, err := fmt.Fprintf(w, "%s, %d failed, %.1fs\n", command.Plural(len(results), "test"), failed, took.Seconds())
	return err
}

// The elements of a JUnit report, as most servers read them.
type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Time     string       `xml:"time,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Time     string      `xml:"time,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		File    string        `xml:"file,attr"`
		Line    int           `xml:"line,attr"`
		Time    string        `xml:"time,attr"`
		Failure *junitFailure `xml:"failure,omitempty"`
	}
	junitFailure struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// writeJUnit writes the results of all tests into a file, a suite for each test file.
func writeJUnit(file string, results []Result, took time.Duration) error {
	seconds := func(s float64) string { return fmt.Sprintf("%.3f", s) }
	all := junitSuites{Time: seconds(took.Seconds())}
	index := make(map[string]int)
	sums := make(map[string]float64)
	for _, r := range results {
		i, ok := index[r.File]
		if !ok {
			i = len(all.Suites)
			index[r.File] = i
			all.Suites = append(all.Suites, junitSuite{Name: r.File})
		}
		suite := &all.Suites[i]
		c := junitCase{Class: strings.TrimSuffix(r.File, ".yaml"), Name: r.Test, File: r.File, Line: r.Line, Time: seconds(r.Seconds)}
		if r.Status != Passed {
			f := r.Failures[0]
			c.Failure = &junitFailure{Message: term.Line(fmt.Sprintf("%s: expected %s, got %s", f.What, f.Expected, f.Got)), Text: r.details("")}
			suite.Failures++
			all.Failures++
		}
		suite.Tests++
		all.Tests++
		suite.Cases = append(suite.Cases, c)
		sums[r.File] += r.Seconds
		suite.Time = seconds(sums[r.File])
	}
	text, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	if err := atomicfile.Write(file, append([]byte(xml.Header), append(text, '\n')...), 0o644); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}
