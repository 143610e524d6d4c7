package main

import (
	"bufio"
	"errors"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The test program becomes testbox when it is asked to.
func TestMain(m *testing.M) {
	if os.Getenv("RUN_AS_TESTBOX") != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func testbox(t *testing.T, steps string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, strings.Fields(steps)...)
	cmd.Env = append(os.Environ(), "RUN_AS_TESTBOX=1", "COLOUR=blue")
	return cmd
}

func code(t *testing.T, err error) int {
	t.Helper()
	var exit *exec.ExitError
	if err == nil {
		return 0
	}
	if !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return exit.ExitCode()
}

func TestSteps(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f, g := filepath.Join(dir, "f"), filepath.Join(dir, "g")
	server := httptest.NewServer(nil) // 404 for everything
	t.Cleanup(server.Close)
	for _, tc := range []struct {
		steps, stdout string
		code          int
	}{
		{"", "", 0},
		{"print hello world", "hello world\n", 0},
		{"print a -- exit 3 -- print b", "a\n", 3},
		{"eprint a -- lines 2", "line 1\nline 2\n", 0},
		{"env COLOUR -- env NO_SUCH_VARIABLE -- print b", "COLOUR=blue\n", 1},
		{"exists " + f, "", 1},
		{"write " + f + " some text -- wait " + f + " -- exists " + f + " -- cat " + f + " -- remove " + f + " -- exists " + f, "some text\n", 1},
		{"tally " + g + " 2", "", 1},
		{"tally " + g + " 2", "", 0},
		{"tally " + g + " 2", "", 0},
		{"alloc 2 -- burn 1ms -- sleep 1ms -- print done", "done\n", 0},
		{"get " + server.URL, "", 1},
		{"cannot exit many -- print a", "cannot exit\na\n", 0},
		{"cannot print a", "a\n", 1},
		{"mount /proc", "/proc proc rw\n", 0},
		{"mount /nowhere", "", 1},
		{"limit dances", "", 1},
		{"status Nothing", "", 1},
		{"resolve 192.0.2.1", "192.0.2.1 192.0.2.1\n", 0},
		{"dance", "", 1},
		{"exit", "", 1},
		{"exit many", "", 1},
		{"print a -- -- print b", "a\n", 1},
	} {
		out, err := testbox(t, tc.steps).Output()
		if string(out) != tc.stdout || code(t, err) != tc.code {
			t.Errorf("%q: printed %q, code %d; want %q, %d", tc.steps, out, code(t, err), tc.stdout, tc.code)
		}
	}
}

func TestEveryStepIsDocumented(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	doc, _, _ := strings.Cut(string(source), "\npackage main")
	for verb := range steps {
		if !strings.Contains(doc, "//\t"+verb+" ") {
			t.Errorf("step %s is not in the command's documentation", verb)
		}
	}
}

// started runs testbox until it has printed a line, and returns that.
func started(t *testing.T, steps string) (*exec.Cmd, string) {
	t.Helper()
	cmd := testbox(t, steps)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return cmd, strings.TrimSpace(line)
}

func TestSignals(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		steps   string
		signals []syscall.Signal
		code    int
	}{
		{"print ready -- sleep forever", []syscall.Signal{syscall.SIGTERM}, 143},
		{"print ready -- sleep forever", []syscall.Signal{syscall.SIGINT}, 130},
		{"term 5 -- print ready -- sleep 1h", []syscall.Signal{syscall.SIGTERM}, 5},
		{"term ignore -- print ready -- sleep 1h", []syscall.Signal{syscall.SIGTERM, syscall.SIGINT}, 130},
	} {
		cmd, _ := started(t, tc.steps)
		for _, s := range tc.signals {
			if err := cmd.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
		}
		if got := code(t, cmd.Wait()); got != tc.code {
			t.Errorf("%q with %v: code %d, want %d", tc.steps, tc.signals, got, tc.code)
		}
	}
}

func TestServeOutlivesTheSteps(t *testing.T) {
	t.Parallel()
	cmd, port := started(t, "serve 0")
	out, err := testbox(t, "await http://127.0.0.1:"+port+"/ -- get http://127.0.0.1:"+port+"/env/COLOUR").Output()
	if err != nil || !strings.HasSuffix(string(out), "\nblue\n") {
		t.Errorf("asked, it says %q, %v", out, err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := code(t, cmd.Wait()); got != 143 {
		t.Errorf("code %d, want 143", got)
	}
}
