package main

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

// table writes a Markdown table with one row for each scenario: the counted calls, the kills, and how many of them
// broke each invariant. Then it writes the failures with their reproductions.
func table(w io.Writer, version string, results []result) {
	fmt.Fprintf(w, "%s\n\n| scenario | program | calls | kills | failed | %s |\n|---|---|---|---|---|%s\n", version,
		strings.Join(checks, " | "), strings.Repeat("---|", len(checks)))
	for _, group := range groups(results) {
		kills, failed, by := 0, 0, map[string]int{}
		for _, r := range group {
			if !r.Missed {
				kills++
			}
			if len(r.Failures) > 0 {
				failed++
			}
			seen := map[string]bool{}
			for _, f := range r.Failures {
				if !seen[f.Check] {
					by[f.Check]++
				}
				seen[f.Check] = true
			}
		}
		k := group[0].Kill
		fmt.Fprintf(w, "| %s | %s | %d | %d | %d |", k.Scenario, strings.TrimSpace(k.Program+" "+k.Fault), group[0].Count, kills, failed)
		for _, check := range checks {
			fmt.Fprintf(w, " %d |", by[check])
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w)
	for _, r := range results {
		for _, f := range r.Failures {
			fmt.Fprintf(w, "%s # %s\n    %s: %s\n", r.Kill, r.At, f.Check, strings.ReplaceAll(f.Seen, "\n", "\n    "))
		}
	}
}

// groups divides results by scenario and program; their order is kept.
func groups(results []result) [][]result {
	var out [][]result
	for i, r := range results {
		if i == 0 || results[i-1].Kill.Scenario != r.Kill.Scenario || results[i-1].Kill.Program != r.Kill.Program {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], r)
	}
	return out
}

type (
	suites struct {
		XMLName xml.Name `xml:"testsuites"`
		Suites  []suite  `xml:"testsuite"`
	}
	suite struct {
		Name     string     `xml:"name,attr"`
		Tests    int        `xml:"tests,attr"`
		Failures int        `xml:"failures,attr"`
		Skipped  int        `xml:"skipped,attr"`
		Cases    []testcase `xml:"testcase"`
	}
	testcase struct {
		Class   string    `xml:"classname,attr"`
		Name    string    `xml:"name,attr"`
		Time    string    `xml:"time,attr"`
		Failure *message  `xml:"failure,omitempty"`
		Skipped *struct{} `xml:"skipped,omitempty"`
	}
	message struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",cdata"`
	}
)

// junit writes the results as JUnit XML: a suite for each scenario and a test for each kill. A kill that was missed is
// skipped.
func junit(w io.Writer, version string, results []result) error {
	var all suites
	for _, group := range groups(results) {
		s := suite{Name: strings.Join([]string{version, group[0].Kill.Scenario, group[0].Kill.Program}, " "), Tests: len(group)}
		for _, r := range group {
			c := testcase{Class: r.Kill.Scenario, Name: fmt.Sprintf("%s %s %d", r.Kill.Program, r.Kill.Syscall, r.Kill.When),
				Time: fmt.Sprintf("%.3f", r.Took.Seconds())}
			var lines []string
			for _, f := range r.Failures {
				lines = append(lines, f.Check+": "+f.Seen)
			}
			switch {
			case len(lines) > 0:
				c.Failure = &message{r.Kill.String(), printable(strings.Join(lines, "\n"))}
				s.Failures++
			case r.Missed:
				c.Skipped = &struct{}{}
				s.Skipped++
			}
			s.Cases = append(s.Cases, c)
		}
		all.Suites = append(all.Suites, s)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	return e.Encode(all)
}

// printable replaces what XML does not allow.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0xFFFE || r == 0xFFFF {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
}
