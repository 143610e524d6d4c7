package cli

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/parts"
)

// core runs a command line in a build without parts.
func (w *world) core(args ...string) (stdout, stderr string, code int) {
	var out, err bytes.Buffer
	p := &command.Program{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &err, Getenv: w.getenv, Environ: func() []string { return nil }, Notify: func(chan<- os.Signal, ...os.Signal) {}}
	code = runLine(w.t.Context(), p, parts.Core(), append([]string{"podtask"}, args...))
	return out.String(), err.String(), code
}

// TestTheCoreSaysWhatItLacks: each command of each part is an error of one line that names the part.
func TestTheCoreSaysWhatItLacks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, a := range parts.Core().Absent {
		for _, path := range a.Commands {
			_, stderr, code := w.core(append(strings.Fields(path), "--flag", "x")...)
			if first, _, under := strings.Cut(path, " "); under && parts.Core().MissingCommand(first) != "" {
				path, a.Name = first, "" // it is missed first
			}
			want := "Error: podtask " + path + ": not in this build: it is the core of podtask without the part " + a.Name + "; install the whole podtask\n"
			if a.Name == "" {
				want = "Error: podtask " + path + ": " + parts.Core().MissingCommand(path) + "\n"
			}
			if code != command.ExitOwnFailure || stderr != want {
				t.Errorf("podtask %s: %d %q, want %q", path, code, stderr, want)
			}
		}
	}
	if _, stderr, code := w.core("nothing"); code != command.ExitOwnFailure || strings.Contains(stderr, "build") {
		t.Errorf("a command that no build has: %d %s", code, stderr)
	}
}

// TestTheCoreRefusesSettingsOfParts: a key that would do nothing is an error, not silence.
func TestTheCoreRefusesSettingsOfParts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, stderr, code := w.core("agent", "--aws-listen", "127.0.0.1:0")
	if code == 0 || !strings.Contains(stderr, "aws-listen: not in this build") || !strings.Contains(stderr, "part aws") {
		t.Errorf("%d %s", code, stderr)
	}
}

// TestTheCoreHasItsHelp: no group is empty, no command of a part is in it, and completion agrees.
func TestTheCoreHasItsHelp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	app := newApp(&command.Program{Stdout: io.Discard, Stderr: io.Discard}, parts.Core())
	for _, g := range programPage(app).Groups {
		if len(g.Items) == 0 || g.Title == "" {
			t.Errorf("the group %q has %d commands", g.Title, len(g.Items))
		}
	}
	completed, _, _ := w.core("__complete", "--", "")
	for _, a := range parts.Core().Absent {
		for _, path := range a.Commands {
			if name := strings.Fields(path); len(name) == 1 && (app.Command(name[0]) != nil || strings.Contains("\n"+completed, "\n"+path+"\n")) {
				t.Errorf("the core has the command %s of the part %s", path, a.Name)
			}
		}
	}
	for _, c := range []string{"run", "ps", "service", "agent", "unit", "doctor"} {
		if app.Command(c) == nil {
			t.Errorf("the core has no %s", c)
		}
	}
	file := filepath.Join(w.dir, "web.json")
	if err := os.WriteFile(file, []byte(`{"family":"web","containerDefinitions":[{"name":"app","image":"app:1"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, stderr, code := w.core("validate", file); code != 0 || !strings.Contains(out, "valid") {
		t.Errorf("validate: %d %s%s", code, out, stderr)
	}
}
