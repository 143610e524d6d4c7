//go:build e2e

//e2e:bed plain

package e2e

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podtask/podtask/internal/testing/registrytest"
)

func TestExecShellOnATerminal(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.shell()
	sh := b.onTerminal("exec", b.family) // a shell
	before := sh.settings()
	sh.see("#")
	sh.keysIn("stty size\n")
	sh.see("24 80")
	sh.resize(50, 132)
	eventually(t, "the new size", func() bool {
		sh.keysIn("stty size\n")
		return sh.screen.cut("50 132")
	})
	interruptAndExit(sh, before, func() {
		eventually(t, "the sleep", func() bool { return strings.Contains(b.top(), "sleep 1000") })
	})
}

// interruptAndExit has a shell interrupt a program and end with 7, after which the terminal has the
// settings it had before. asleep waits until the program runs.
func interruptAndExit(sh *terminal, before unix.Termios, asleep func()) {
	sh.t.Helper()
	sh.keysIn("echo be''gun; sleep 1000\n")
	sh.see("begun")
	asleep()
	sh.keysIn("\x03")
	sh.keysIn("echo it was $?\n")
	sh.see("it was 130")
	sh.keysIn("exit 7\n")
	sh.want(7)
	if after := sh.settings(); after != before {
		sh.t.Errorf("the terminal was left as %+v, it was %+v", after, before)
	}
}

func TestExecDetachesFromATerminal(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.shell()
	for _, tt := range []struct {
		flags []string
		keys  string
	}{
		{[]string{"exec", "-it"}, "\x10\x11"},
		{[]string{"exec", "-it", "--detach-keys", "ctrl-a,d"}, "\x01d"},
	} {
		sh := b.onTerminal(append(tt.flags, b.family, "--", "sh", "-c", "echo re''ady; exec sleep 2000")...)
		sh.see("ready")
		sh.keysIn(tt.keys)
		sh.want(0)
	}
	if n := strings.Count(b.top(), "sleep 2000"); n != 2 {
		t.Errorf("%d of 2 commands run on:\n%s", n, b.top())
	}
}

func TestExecWithoutATerminal(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.shell()
	r := b.want(3, "exec", "-e", "A=one,two", "-w", "/tmp", "-u", "7:8", b.family, "app", "--", "sh", "-c", "echo $A $PWD; echo apart >&2; exit 3")
	if r.out != "one,two /tmp\n" || r.err != "apart\n" {
		t.Errorf("out %q, err %q", r.out, r.err)
	}
	if r := b.want(0, "exec", "-u", "7:8", b.family, "--", "sh", "-c", "while read -r l; do case $l in Uid:*|Gid:*) echo $l; esac; done < /proc/self/status"); !strings.Contains(r.out, "Uid: 7 ") || !strings.Contains(r.out, "Gid: 8 ") {
		t.Errorf("it ran as %q", r.out)
	}
	for range 5 { // what is there at once must not be lost
		if r := b.want(0, "exec", b.family, "/testbox", "print", "at once"); r.out != "at once\n" {
			t.Fatalf("it printed %q", r.out)
		}
	}
	big := registrytest.Random(1<<20, 9)
	cat := b.startWith(func(cmd *exec.Cmd) { cmd.Stdin = bytes.NewReader(big) }, "exec", "-i", b.family, "--", "cat").want(0)
	if cat.out != string(big) {
		t.Errorf("%d bytes came back of %d, or others", len(cat.out), len(big))
	}
	// Without -i the command has no input, whatever ours is.
	if r := b.startWith(func(cmd *exec.Cmd) { cmd.Stdin = strings.NewReader("x") }, "exec", b.family, "--", "cat").want(0); r.out != "" {
		t.Errorf("it read %q", r.out)
	}
}

func TestExecPassesSignalsOn(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.shell()
	run := b.start("exec", b.family, "--", "/testbox", "print", "ready", "--", "sleep", "forever")
	eventually(t, "the command", func() bool { return strings.Contains(run.out.String(), "ready") })
	run.interrupt()
	run.want(130)
}

// Podman lets a command run on whose client has gone.
func TestExecThatIsKilledLeavesNoCommand(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.shell()
	plain := b.start("exec", b.family, "--", "sh", "-c", "echo ready; sleep 3000")
	eventually(t, "the command", func() bool { return strings.Contains(plain.out.String(), "ready") })
	sh := b.onTerminal("exec", "-it", b.family, "--", "sh", "-c", "trap '' HUP; echo re''ady; sleep 4000")
	sh.see("ready")
	plain.kill()
	sh.kill()
	eventually(t, "the end of both commands", func() bool { return !strings.Contains(b.top(), "sleep 3000") && !strings.Contains(b.top(), "sh -c") })
	if got := b.inspect(b.family); got.Status != "RUNNING" {
		t.Errorf("the task is %s", got.Status)
	}
}

func TestExecRefuses(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.shell()
	ref, _ := b.push("shell:1", shellImage(t))
	for _, tt := range []struct {
		args string
		code int
		says string
	}{
		{"NAME -- nosuch", 127, `container app of task NAME has no command "nosuch"`},
		{"NAME -- /bin/noexec", 126, `container app of task NAME cannot run "/bin/noexec"`},
		{"NAME nosuch -- sh", 125, `task NAME has no container "nosuch": it has app`},
		{"NAME", 125, "no COMMAND to run: write `podtask exec NAME -- COMMAND`"},
		{"nosuch -- sh", 125, "nosuch"},
		{"-it NAME -- sh", 125, "-t needs a terminal"},
		{"NAME -c x", 125, "unknown flag -c: the flags of the command to run follow it, or --"},
		{"-w /nosuch NAME -- sh", 125, "has no directory /nosuch"},
	} {
		r := b.podtask(append([]string{"exec"}, words(strings.ReplaceAll(tt.args, "NAME", b.family))...)...)
		if says := strings.ReplaceAll(tt.says, "NAME", b.family); r.code != tt.code || r.out != "" || !strings.Contains(r.err, says) {
			t.Errorf("%s: code %d, want %d: %s%s", tt.args, r.code, tt.code, r.out, r.err)
		}
	}
	b.want(0, "stop", "--time", "0", b.family)
	if r := b.want(125, "exec", b.family, "--", "sh"); !strings.Contains(r.err, "has stopped") || !strings.Contains(r.err, "podtask why "+b.family) {
		t.Errorf("stopped: %s", r.err)
	}
	two := b.detach("--wait=running", b.define(ctr{Name: "one", Image: ref, Command: words("sleep forever")}, ctr{Name: "two", Image: ref, Command: words("sleep forever")}))
	if r := b.want(125, "exec", two, "--", "sh"); !strings.Contains(r.err, "name one of one, two") {
		t.Errorf("two containers: %s", r.err)
	}
	b.want(0, "exec", two, "two", "/testbox", "print", "x")
}

// top lists what runs in the family's containers.
func (b *box) top() string {
	b.t.Helper()
	var all strings.Builder
	for name := range strings.FieldsSeq(b.running()) {
		all.WriteString(b.podman("top", name, "args") + "\n")
	}
	return all.String()
}
