package cli

import (
	"io"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/part"
	"github.com/podtask/podtask/internal/parts"
	"github.com/urfave/cli/v2"
)

// allRoutes returns the routes of the core and of all parts.
func allRoutes() map[string]route {
	all := maps.Clone(routes)
	for _, p := range parts.Build().Parts {
		if p.Routes != nil {
			for name := range p.Routes() {
				all[name], _ = routeOf(parts.Build(), name)
			}
		}
	}
	return all
}

// TestEveryCommandHasARoute: for each command, hidden ones too, it is known what becomes of it if a host
// is chosen; and a reason is one sentence.
func TestEveryCommandHasARoute(t *testing.T) {
	t.Parallel()
	app := newApp(&command.Program{Stdout: io.Discard, Stderr: io.Discard}, parts.Build())
	seen, all := map[string]bool{}, allRoutes()
	var walk func(commands []*cli.Command, before string)
	walk = func(commands []*cli.Command, before string) {
		for _, c := range commands {
			if isGroup(c) {
				walk(c.Subcommands, before+c.Name+" ")
				continue
			}
			seen[before+c.Name] = true
			if _, ok := all[before+c.Name]; !ok {
				t.Errorf("podtask %s: say in routes whether it runs on another host, on this machine only, or on none, and why", before+c.Name)
			}
		}
	}
	walk(app.Commands, "")
	for name, r := range all {
		if !seen[name] {
			t.Errorf("routes has %q, which is no command", name)
		}
		if needs := r.place == part.Here || r.place == part.Refused; needs != (r.why != "") || strings.HasSuffix(r.why, ".") {
			t.Errorf("podtask %s: its reason is %q", name, r.why)
		}
	}
}

// TestCommandsThatWorkOnNoOtherHostSayWhy: with --host each of them fails with its reason and connects to nothing.
func TestCommandsThatWorkOnNoOtherHostSayWhy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, r := range allRoutes() {
		if r.place != part.Here && r.place != part.Refused {
			continue
		}
		_, stderr, code := w.podtask(append([]string{"--host", "ssh://nowhere.invalid"}, strings.Fields(name)...)...)
		if code != command.ExitOwnFailure || !strings.Contains(stderr, r.why) || !strings.Contains(stderr, "ssh://nowhere.invalid") {
			t.Errorf("podtask %s: %d %s", name, code, stderr)
		}
	}
	for _, args := range [][]string{{"import", "compose.yaml"}, {"import", "-"}, {"generate", "--from", "compose.yaml"}} {
		if _, stderr, code := w.podtask(append([]string{"--host", "ssh://nowhere.invalid"}, args...)...); code != command.ExitOwnFailure || !strings.Contains(stderr, "unit install") {
			t.Errorf("podtask %q: %d %s", args, code, stderr)
		}
	}
	if _, stderr, code := w.podtask("--host", "ssh://a,b,c", "service", "update", "web"); code != command.ExitOwnFailure || !strings.Contains(stderr, "Kubernetes and ECS") {
		t.Errorf("several hosts: %d %s", code, stderr)
	}
	for _, bad := range []string{"ssh://-oProxyCommand=x", "-oProxyCommand=x", "", "none"} {
		if _, stderr, code := w.podtask("--host="+bad, "ps"); code != command.ExitOwnFailure || !strings.HasPrefix(stderr, "Error: ") {
			t.Errorf("%q: %d %s", bad, code, stderr)
		}
	}
}

func TestContexts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := func(want int, args ...string) string {
		t.Helper()
		out, stderr, code := w.podtask(args...)
		if code != want {
			t.Errorf("%q: %d %s", args, code, stderr)
		}
		return out + stderr
	}
	run(0, "context", "add", "box", "ssh://me@box:2222")
	run(0, "context", "add", "box", "ssh://me@box:2222") // again
	run(command.ExitOwnFailure, "context", "add", "box", "ssh://other")
	run(0, "context", "add", "--replace", "box", "ssh://me@box")
	run(command.ExitOwnFailure, "context", "add", "local", "ssh://x")
	run(command.ExitOwnFailure, "context", "add", "x y", "ssh://x")
	run(command.ExitOwnFailure, "context", "use", "none")
	run(0, "context", "use", "box")
	if out := run(0, "context", "ls", "--format", "{{.Name}} {{.Host}} {{.Current}}"); out != "local  false\nbox ssh://me@box true\n" {
		t.Errorf("ls: %q", out)
	}
	if out := run(command.ExitOwnFailure, "test"); !strings.Contains(out, "does not work on ssh://me@box") {
		t.Errorf("the current context does not count: %s", out)
	}
	w.env = map[string]string{"SYSTEMD_EXEC_PID": strconv.Itoa(os.Getpid())}
	if out := run(0, "ps"); !strings.HasPrefix(out, "There are no tasks.") {
		t.Errorf("a service: %s", out)
	}
	w.env["PODTASK_HOST"] = "box"
	if out := run(command.ExitOwnFailure, "test"); !strings.Contains(out, "does not work on ssh://me@box") {
		t.Errorf("PODTASK_HOST does not count: %s", out)
	}
	w.env = nil
	if out := run(0, "--host", "local", "ps"); !strings.HasPrefix(out, "There are no tasks.") {
		t.Errorf("local: %s", out)
	}
	if out := run(command.ExitOwnFailure, "context", "rm", "box"); !strings.Contains(out, "in use") {
		t.Errorf("rm: %s", out)
	}
	if out := run(0, "__complete", "--", "context", "use", ""); out != "local\nbox\n" {
		t.Errorf("completion: %q", out)
	}
	if out := run(0, "__complete", "--", "--host", "b"); out != "box\n" {
		t.Errorf("completion of --host: %q", out)
	}
	run(0, "context", "use", "local")
	run(0, "context", "rm", "box")
	path := filepath.Join(w.dir, ".config", "podtask", "contexts.json")
	if err := os.WriteFile(path, []byte(`{"current":"x","contexts":[{"name":"-","host":"ssh://-x"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := run(command.ExitOwnFailure, "context", "ls"); !strings.Contains(out, path) || !strings.Contains(out, "contexts[0].host") || !strings.Contains(out, "current") {
		t.Errorf("a damaged file: %s", out)
	}
}
