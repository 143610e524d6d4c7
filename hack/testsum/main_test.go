package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// These stand in for the commands under test: the test binary starts itself.
func TestMain(m *testing.M) {
	if os.Getenv("TESTSUM_PRINT") != "" {
		os.Stdout.WriteString(os.Getenv("TESTSUM_PRINT"))
		if os.Getenv("TESTSUM_FAIL") != "" {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const twoPassOneSkip = `{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestB"}
{"Action":"run","Package":"p","Test":"TestB/sub"}
{"Action":"output","Package":"p","Test":"TestB/sub","Output":"    b_test.go:7: needs a moon\n"}
{"Action":"skip","Package":"p","Test":"TestB/sub"}
{"Action":"pass","Package":"p","Test":"TestB"}
{"Action":"pass","Package":"p"}
`

func TestTallyCountsAndTells(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name                    string
		stream                  string
		passed, failed, skipped int
		tells                   string
	}{
		{
			name:   "subtests count and a skip gives its reason",
			stream: twoPassOneSkip,
			passed: 2, skipped: 1,
			tells: "--- SKIP: p TestB/sub: b_test.go:7: needs a moon",
		},
		{
			name: "a failed test shows its output and its package is not counted again",
			stream: `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:3: got 1\n"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"fail","Package":"p"}
`,
			failed: 1,
			tells:  "a_test.go:3: got 1",
		},
		{
			name: "a package that does not build fails with the compiler's words",
			stream: `{"Action":"build-output","ImportPath":"p [p.test]","Output":"p.go:1: syntax error\n"}
{"Action":"build-fail","ImportPath":"p [p.test]"}
{"Action":"start","Package":"p"}
{"Action":"fail","Package":"p","FailedBuild":"p [p.test]"}
`,
			failed: 1,
			tells:  "p.go:1: syntax error",
		},
		{
			name: "a test still open when its package ends has failed",
			stream: `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"last words\n"}
{"Action":"fail","Package":"p"}
`,
			failed: 1,
			tells:  "last words",
		},
		{
			name: "a panic that ended a test is shown, and counted once",
			stream: `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Output":"panic: test timed out\n"}
{"Action":"fail","Package":"p"}
`,
			failed: 1,
			tells:  "panic: test timed out",
		},
		{
			name: "a test still open when the stream breaks off has failed",
			stream: `{"Action":"run","Package":"p","Test":"TestA"}
`,
			failed: 1,
			tells:  "the test did not end",
		},
		{
			name:   "lines that are no events are passed on",
			stream: "hello from a program\n" + twoPassOneSkip,
			passed: 2, skipped: 1,
			tells: "hello from a program",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			tally := newTally(&out)
			if err := tally.Read(strings.NewReader(tt.stream)); err != nil {
				t.Fatal(err)
			}
			tally.Finish()
			if tally.Passed != tt.passed || tally.Failed != tt.failed || tally.Skipped != tt.skipped {
				t.Errorf("passed, failed, skipped = %d, %d, %d; want %d, %d, %d",
					tally.Passed, tally.Failed, tally.Skipped, tt.passed, tt.failed, tt.skipped)
			}
			if !strings.Contains(out.String(), tt.tells) {
				t.Errorf("output does not tell %q:\n%s", tt.tells, out.String())
			}
		})
	}
}

func TestLevelsAddUp(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		print  string
		exit   string
		args   []string
		strict bool
		last   string
		status int // of the total
	}{
		{name: "all passed", print: twoPassOneSkip, args: []string{"-json", "--", self}, last: "2 passed, 0 failed, 1 skipped"},
		{name: "skips fail in CI", print: twoPassOneSkip, args: []string{"-json", "--", self}, strict: true, last: "2 passed, 0 failed, 1 skipped", status: 1},
		{name: "a level without tests fails", print: "\n", args: []string{"-json", "--", self}, last: "0 passed, 1 failed, 0 skipped", status: 1},
		{name: "a command that fails without a failed test fails", print: twoPassOneSkip, exit: "1", args: []string{"-json", "--", self}, last: "2 passed, 1 failed, 1 skipped", status: 1},
		{name: "a command that cannot start fails", args: []string{"-json", "--", "/nonexistent"}, last: "0 passed, 1 failed, 0 skipped", status: 1},
		{name: "a check passes", print: "words", args: []string{"--", self}, last: "1 passed, 0 failed, 0 skipped"},
		{name: "a check fails", print: "words", exit: "1", args: []string{"--", self}, last: "0 passed, 1 failed, 0 skipped", status: 1},
		{name: "a level that cannot run is a skip", args: []string{"-skip", "no root"}, last: "0 passed, 0 failed, 1 skipped"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("TESTSUM_PRINT", tt.print)
			t.Setenv("TESTSUM_FAIL", tt.exit)
			log := filepath.Join(t.TempDir(), "log")
			var out bytes.Buffer
			level := run(append([]string{"-log", log, "-level", "x"}, tt.args...), &out, io.Discard, tt.strict)
			if failed := strings.Contains(tt.last, " 1 failed"); failed != (level == 1) {
				t.Errorf("level's status = %d with %q", level, tt.last)
			}
			if status := run([]string{"-log", log, "-total"}, &out, io.Discard, tt.strict); status != tt.status {
				t.Errorf("total's status = %d, want %d", status, tt.status)
			}
			lines := strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
			if last := lines[len(lines)-1]; last != tt.last {
				t.Errorf("last line = %q, want %q", last, tt.last)
			}
		})
	}
}

func TestTotalOfNothingFails(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(log, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if status := run([]string{"-log", log, "-total"}, &out, &out, false); status != 1 {
		t.Errorf("status = %d, want 1", status)
	}
}

func FuzzTally(f *testing.F) {
	f.Add(twoPassOneSkip)
	f.Add(`{"Action":"fail","Package":"p","FailedBuild":"q"}`)
	f.Fuzz(func(t *testing.T, stream string) {
		var out bytes.Buffer
		tally := newTally(&out)
		if err := tally.Read(strings.NewReader(stream)); err != nil {
			t.Fatal(err)
		}
		tally.Finish()
		if tally.Failed > 0 && out.Len() == 0 {
			t.Error("a failure was counted and nothing was said")
		}
	})
}
