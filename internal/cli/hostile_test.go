package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/creack/pty"
	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/engine/act/observe"
	"github.com/podtask/podtask/internal/ingress"
	"github.com/podtask/podtask/internal/parts"
	"github.com/podtask/podtask/pkg/lifecycle"
	"golang.org/x/sys/unix"
)

// steering is text that steers terminals, makes them answer or hides what is written.
const steering = "x\x1b]0;title\a\x1b]52;c;eA==\x07\x1b[6n\x1b[c\x1b[&u\x1b[1$u\x1b[?4m\x1b[?1003h\x1b[>1u\x1b[2h\x1b[?1049h\x1b[?25l\x9b6n\u009b6n\u009d0;t\x07\x1bZ\x1bc\x1bP$q\x1b\\\u202egpj\u2066\u200b\x0e"

// All that a command prints to a terminal passes one filter, whatever prints it.
func TestNoDoorPrintsWhatSteersATerminal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := w.t.TempDir()
	stateDir, _, err := command.Dirs(w.getenv, "")
	if err != nil {
		t.Fatal(err)
	}
	logFile := ingress.AccessLogPath(stateDir)
	if err := os.MkdirAll(filepath.Dir(logFile), 0o700); err != nil {
		t.Fatal(err)
	}
	record, err := json.Marshal(map[string]string{"path": steering, "userAgent": steering})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(logFile, append(record, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
	bad := filepath.Join(dir, "bad.json")
	if err := os.WriteFile(bad, []byte(`{"family": "`+strings.ReplaceAll(steering, "\x1b", `\u001b`)+`", "`+steering+`": 1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	line := func(args ...string) func(*command.Program) error {
		return func(p *command.Program) error {
			runLine(context.WithoutCancel(t.Context()), p, parts.Build(), append([]string{"podtask"}, args...))
			return nil
		}
	}
	for name, print := range map[string]func(*command.Program) error{
		"an access log":  line("ingress", "logs"),
		"a bad file":     line("validate", bad),
		"a missing file": line("validate", dir+"/"+steering),
		"a usage error":  line("ps", "--"+steering),
		"an argument":    line(steering),
		"JSON":           func(p *command.Program) error { return console.WriteJSON(p.Stdout, steering) },
		"YAML":           func(p *command.Program) error { return console.WriteYAML(p.Stdout, strings.ToValidUTF8(steering, "")) },
		"a table":        func(p *command.Program) error { return console.WriteTable(p.Stdout, [][]string{{steering, steering}}) },
		"a template":     func(p *command.Program) error { return console.WriteTemplate(p.Stdout, "{{.}}", []string{steering}) },
		"a log": func(p *command.Program) error {
			return console.NewLogPrinter(p.Stdout, p.Stderr, lifecycle.State{}, w.getenv).Line(observe.LogLine{Text: steering, Stream: "stderr"})
		},
		"a line over bars": func(p *command.Program) error {
			_, err := io.WriteString(console.NewPullView("auto", p.Stderr, w.getenv).Above(p.Stderr), steering+"\n")
			return err
		},
		"a warning": func(p *command.Program) error { p.Warn("%s", steering); return nil },
	} {
		got := onTerminal(t, w, print)
		if got == "" {
			t.Errorf("%s printed nothing", name)
		}
		for _, r := range strings.NewReplacer("\x1b[?25h", "", "\x1b[?25l", "", "\x1b[0m", "").Replace(got) {
			if unicode.IsControl(r) && !strings.ContainsRune("\r\n\t", r) || unicode.Is(unicode.Cf, r) {
				t.Errorf("%s prints %U: %q", name, r, got)
				break
			}
		}
		if strings.LastIndex(got, "\x1b[?25l") > strings.LastIndex(got, "\x1b[?25h") {
			t.Errorf("%s hides the cursor: %q", name, got)
		}
	}
}

// A named pipe or a device in the place of a file is an error of its own at once, for whatever reads it.
func TestPipesAndDevicesHoldUpNoCommand(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := t.TempDir()
	pipe, good, tests := filepath.Join(dir, "pipe"), filepath.Join(dir, "good.json"), filepath.Join(dir, "a.test.yaml")
	if err := errors.Join(unix.Mkfifo(pipe, 0o600), unix.Mkfifo(tests, 0o600), unix.Mkfifo(filepath.Join(dir, "other.lock"), 0o600), os.WriteFile(good, []byte(`{"family": "web", "containerDefinitions": [{"name": "a", "image": "b"}]}`), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, hostile := range []string{pipe, "/dev/zero"} {
		for _, args := range [][]string{
			{"validate", hostile}, {"plan", hostile}, {"lock", hostile}, {"run", hostile}, {"run", "--dry-run", good, "--override", hostile}, {"run", "--dry-run", good, "--env-file", hostile}, {"plan", good, "--override", hostile},
			{"run", "--dry-run", good, "--locked=" + hostile}, {"import", hostile}, {"test", "--list", hostile}, {"taskdef", "register", hostile},
		} {
			_, stderr, code := w.podtask(args...)
			if code == 0 || !strings.Contains(stderr, hostile+" is a ") {
				t.Errorf("%q: %d %q", args, code, stderr)
			}
		}
	}
	if _, stderr, code := w.podtask("test", "--list", dir); code == 0 || !strings.Contains(stderr, "named pipe") {
		t.Errorf("%d %q", code, stderr)
	}
}

// onTerminal returns what a command prints to a terminal, as Main sets it up.
func onTerminal(t *testing.T, w *world, print func(*command.Program) error) string {
	t.Helper()
	screen, line, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer screen.Close()
	p := &command.Program{
		Stdin: strings.NewReader(""), Stdout: command.ToTerminal(line), Stderr: command.ToTerminal(line), Getenv: w.getenv, Environ: func() []string { return nil }, Executable: os.Executable,
		Notify: func(chan<- os.Signal, ...os.Signal) {}, Patience: time.Second,
	}
	text := make(chan string)
	go func() {
		got, _ := io.ReadAll(screen) // EIO when the line is closed
		text <- string(got)
	}()
	if err := print(p); err != nil {
		t.Error(err)
	}
	command.ResetTerminal(p.Stdout)
	command.ResetTerminal(p.Stderr)
	if err := line.Close(); err != nil {
		t.Fatal(err)
	}
	return <-text
}
