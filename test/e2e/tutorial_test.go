//go:build e2e && bed_systemd

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"go.yaml.in/yaml/v3"
)

// tutorial is a reader who types the commands of the tutorial. Images of this bed stand in for
// public ones, and free ports for 8080.
type tutorial struct {
	*units
	program v1.Image
	image   string // its reference
	port    int
}

// commands are the lines of a page that are to be typed.
func commands(t *testing.T, page string) (lines []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(os.Getenv("PODTASK_DOCS"), page))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if command, ok := strings.CutPrefix(line, "    "); ok {
			lines = append(lines, strings.TrimSpace(command))
		}
	}
	return lines
}

// typed starts a line of a shell.
func (u *tutorial) typed(line string) *process {
	u.t.Helper()
	return u.startWith(func(cmd *exec.Cmd) {
		cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", line}
	})
}

// untilCtrlC types a line, waits until it has printed a text, and presses Ctrl-C.
func (u *tutorial) untilCtrlC(line, text string) {
	u.t.Helper()
	p := u.typed(line)
	eventually(u.t, fmt.Sprintf("%q of %s", text, line), func() bool { return strings.Contains(p.out.String()+p.err.String(), text) })
	p.interrupt()
	p.wait()
}

// prepare makes what podtask has written, or an example, usable in this bed.
func (u *tutorial) prepare(file, text string) {
	u.t.Helper()
	for _, public := range []string{"docker.io/library/nginx:alpine", "docker.io/library/nginx:1.29-alpine"} {
		text = strings.ReplaceAll(text, "image: "+public, "image: "+u.image)
	}
	text = strings.ReplaceAll(text, "hostPort: 8080", "hostPort: "+strconv.Itoa(freePort(u.t)))
	text = strings.ReplaceAll(text, "wget -q -O /dev/null", "/testbox get")
	text = strings.ReplaceAll(text, "Restart=on-failure", "Restart=on-failure\n"+u.environment()+"Environment=PODTASK_LIMITS=best-effort\n")
	u.box.file(file, text)
}

// written prepares a file that podtask has written.
func (u *tutorial) written(file string) {
	u.t.Helper()
	text, err := os.ReadFile(filepath.Join(u.box.dir, file))
	if err != nil {
		u.t.Fatal(err)
	}
	u.prepare(file, string(text))
}

// special are the lines that do not simply end with success.
func (u *tutorial) special() map[string]func(line string) {
	start := func(string) { u.agent() }
	sees := u.sees("tutorial.md")
	return map[string]func(line string){
		"podtask why hello":      sees,
		"podtask service ps web": sees,
		"podtask doctor":         func(line string) { u.typed(line).wait() }, // this host may lack something
		"podtask init hello":     func(line string) { u.typed(line).want(0); u.written("hello.yaml") },
		"podtask run hello.yaml": func(line string) { u.untilCtrlC(line, "HEALTHY") },
		"podtask logs -f hello":  func(line string) { u.typed(line).interruptUntilEnded() },
		"podtask exec -it hello web sh": func(string) {
			shell := u.onTerminal("exec", "-it", "hello", "web", "sh")
			shell.keysIn("exit 3\n")
			shell.want(3)
		},
		"cp /usr/share/doc/podtask/examples/web/task.yaml .":    func(string) { u.blog() },
		"cp /usr/share/doc/podtask/examples/service/web.yaml .": func(string) { u.prepare("web.yaml", example(u.t, "service/web.yaml")) },
		"podtask init --unit site":                              func(line string) { u.typed(line).want(0); u.written("site.task"); u.written("site.yaml") },
		"podtask unit install site.task": func(line string) {
			u.typed(line).want(0)
			u.t.Cleanup(func() {
				if u.podtask("unit", "ls", "--quiet").out != "" { // the page has not come so far
					u.systemctl("stop", "site-task.service")
					u.want(0, "unit", "rm", "--purge", "site")
				}
			})
		},
		"kill -9 $(podtask inspect hello --format '{{.Owner.PID}}')": func(string) {
			u.killOwner(u.inspect("hello").ID) // it waits until the process is gone
		},
		"systemctl --user enable --now podtask.socket podtask.service":  start,
		"systemctl --user disable --now podtask.socket podtask.service": func(string) {}, // the agent of the test ends with it
	}
}

// yamlAsJSON is a definition in JSON.
func yamlAsJSON(t *testing.T, text string) []byte {
	t.Helper()
	var definition map[string]any
	if err := yaml.Unmarshal([]byte(text), &definition); err != nil {
		t.Fatal(err)
	}
	src, err := json.Marshal(definition)
	if err != nil {
		t.Fatal(err)
	}
	return src
}

// blog is the example with a database, with testbox in the place of its programs.
func (u *tutorial) blog() {
	u.t.Helper()
	u.box.file("task.yaml", u.withTestbox(yamlAsJSON(u.t, example(u.t, "web/task.yaml")), u.testbox(), "none", ""))
	u.t.Cleanup(func() {
		_ = exec.Command("podman", "secret", "rm", "blog-db-password").Run()
		_ = exec.Command("podman", "volume", "rm", "--force", "blog-data").Run()
	})
}

// newTutorial gives a reader a box with an image and a program.
func newTutorial(t *testing.T) *tutorial {
	t.Helper()
	u := &tutorial{units: newUnits(t), port: freePort(t)}
	t.Cleanup(func() { u.podtask("rm", "--force", "--all") })
	shell, err := mutate.Config(shellImage(t), v1.Config{Env: []string{"PATH=/bin", "LD_LIBRARY_PATH=/lib"}, Cmd: []string{"/testbox", "serve", "80"}})
	if err != nil {
		t.Fatal(err)
	}
	u.program = shell
	u.image, _ = u.push("shell:1", shell)
	u.env = append(u.env, "PODTASK_LIMITS=best-effort", "PATH="+filepath.Dir(bed.podtask)+":"+os.Getenv("PATH"))
	return u
}

// typeAll types lines in their order. Those that are not special end with success.
func (u *tutorial) typeAll(lines []string, special map[string]func(line string)) {
	u.t.Helper()
	for line := range special {
		if !slices.Contains(lines, line) {
			u.t.Errorf("the page does not have %q", line)
		}
	}
	for _, line := range lines {
		u.t.Log("$", line)
		if do := special[line]; do != nil {
			do(line)
			continue
		}
		u.typed(strings.ReplaceAll(line, "8080=", strconv.Itoa(u.port)+"=")).want(0)
	}
}

// TestTutorial types the commands of docs/tutorial.md, in their order.
func TestTutorial(t *testing.T) {
	u := newTutorial(t)
	u.typeAll(commands(t, "tutorial.md"), u.special())
}
