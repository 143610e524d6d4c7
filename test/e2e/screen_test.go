//go:build e2e && bed_systemd

package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// screen is a terminal of tmux with a shell in it, on which a person sees podtask.
type screen struct {
	b      *box
	socket string
}

// shells are the interactive shells of which podtask completes lines, and what switches
// that on in each.
var shells = map[string]struct{ program, setUp string }{
	"bash": {"bash --norc --noprofile -i", "source <(podtask completion bash)"},
	"zsh":  {"zsh -f -i", "autoload -U compinit && compinit -u -D && source <(podtask completion zsh)"},
	"fish": {"fish --no-config -i", "podtask completion fish | source"},
}

// onScreen starts a shell on a screen of 24 lines.
func (b *box) onScreen(shell string, columns int) *screen {
	b.t.Helper()
	s := &screen{b: b, socket: filepath.Join(b.dir, "tmux")}
	s.tmux("-f", "/dev/null", "-u", "new-session", "-d", "-x", fmt.Sprint(columns), "-y", "24", shells[shell].program)
	b.t.Cleanup(func() { _ = s.command("kill-server").Run() })
	s.sees("a prompt", func(shown string) bool { return strings.TrimSpace(shown) != "" })
	return s
}

func (s *screen) command(args ...string) *exec.Cmd {
	cmd := exec.Command("tmux", append([]string{"-S", s.socket}, args...)...)
	cmd.Dir = s.b.dir
	for _, v := range s.b.env {
		if !strings.HasPrefix(v, "NO_COLOR=") && !strings.HasPrefix(v, "PATH=") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "LC_ALL=C.UTF-8", "TERM=xterm-256color", "PATH="+filepath.Dir(bed.podtask)+":/usr/local/bin:/usr/bin:/bin")
	return cmd
}

func (s *screen) tmux(args ...string) string {
	s.b.t.Helper()
	out, err := s.command(args...).CombinedOutput()
	if err != nil {
		s.b.t.Fatalf("tmux %v: %v %s", args, err, out)
	}
	return string(out)
}

// keys types text as it is; press presses keys by tmux's names.
func (s *screen) keys(text string) { s.b.t.Helper(); s.tmux("send-keys", "-l", text) }
func (s *screen) press(names ...string) {
	s.b.t.Helper()
	s.tmux(append([]string{"send-keys"}, names...)...)
}

// line types a line.
func (s *screen) line(text string) { s.b.t.Helper(); s.keys(text); s.press("Enter") }

// shown is what is on the screen.
func (s *screen) shown() string { s.b.t.Helper(); return s.tmux("capture-pane", "-p") }

// sees waits until the screen is as wanted.
func (s *screen) sees(what string, wanted func(shown string) bool) {
	s.b.t.Helper()
	var last string
	defer func() {
		if s.b.t.Failed() {
			s.b.t.Logf("the screen:\n%s", last)
		}
	}()
	eventually(s.b.t, what, func() bool { last = s.shown(); return wanted(last) })
}

func (s *screen) has(text string) {
	s.b.t.Helper()
	s.sees(text+" on the screen", func(shown string) bool { return strings.Contains(shown, text) })
}

// Each shell completes commands, flags, tasks and containers that are there now.
func TestShellsComplete(t *testing.T) {
	t.Parallel()
	for shell, its := range shells {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			b.detach("--wait=running", "--name", "web-"+b.family, b.define(
				ctr{Name: "server", Command: words("sleep forever"), StopTimeout: 1}, ctr{Name: "other", Command: words("sleep forever"), StopTimeout: 1}))
			s := b.onScreen(shell, 200)
			s.line(its.setUp + " && echo it is se''t")
			s.has("it is set")
			s.keys("podtask inspe")
			s.press("Tab")
			s.has("podtask inspect")
			s.press("C-u")
			s.keys("podtask logs --foll")
			s.press("Tab")
			s.has("podtask logs --follow")
			s.keys("we")
			s.press("Tab")
			s.has("podtask logs --follow web-" + b.family)
			s.keys("ser")
			s.press("Tab")
			s.has("podtask logs --follow web-" + b.family + " server")
		})
	}
}

// A task in the foreground, the live table, and Ctrl-C, as a person sees them.
func TestScreenOfATask(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	task := b.define(
		ctr{Name: "init", Command: words("print prepared"), Essential: optional},
		ctr{Name: "app", Command: words("print hello -- wait /tmp/go -- exit 3"), DependsOn: []on{{"init", "SUCCESS"}}})
	s := b.onScreen("bash", 80)
	s.line("podtask run --name " + b.family + " " + task + "; echo it ended with $?")
	for _, want := range []string{"hello", "init", "prepared", "app"} { // lines of two containers come in any order
		s.has(want)
	}
	b.tell(b.family, "app", "/tmp/go")
	s.has("it ended with 3")
	b.want(0, "rm", b.family)

	id := b.detach("--wait=running", "--name", b.family, b.define(ctr{Name: "app", Command: words("print hello -- sleep forever"), StopTimeout: 1}))
	s.line("clear; podtask stats --interval 200ms")
	s.has(b.family)
	s.sees("one table, whose lines are drawn again", func(shown string) bool {
		return strings.Count(shown, "CPU") == 1 && strings.Count(shown, b.family) == 1
	})
	s.press("C-c")
	s.line("clear; podtask logs -f " + b.family)
	s.has("hello")
	s.press("C-c")
	s.line("clear; echo the shell is ba''ck")
	s.has("the shell is back")
	b.want(0, "rm", "-f", id)
}

// Forty columns are enough: no line of a list is broken.
func TestNarrowScreen(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	id := b.detach("--wait=running", "--name", b.family, b.define(ctr{Name: "app", Command: words("sleep forever"), StopTimeout: 1}))
	s := b.onScreen("bash", 40)
	for _, command := range []string{"ps", "stats --no-stream"} {
		end := "end of " + words(command)[0]
		s.line("clear; podtask " + command + "; echo '' " + end)
		s.has("\n " + end)
		table, _, _ := strings.Cut(s.shown(), " "+end)
		want := map[string]int{"ps": 2, "stats --no-stream": 3}[command] // with the header
		if got := strings.Count(table, "\n"); got != want {
			t.Errorf("%s takes %d lines, want %d:\n%s", command, got, want, table)
		}
	}
	b.want(0, "rm", "-f", id)
}
