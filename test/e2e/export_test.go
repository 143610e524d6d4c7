//go:build e2e && bed_systemd

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// exported is a task of a server that waits for a job, as other tools run it too.
func exported(at int) def {
	return def{Containers: []ctr{
		{
			Name: "app", Command: words("term 0 -- serve 8080 -- write /tmp/well"), Health: healthyIf("exists /tmp/well"), StopTimeout: 2,
			Environment: []envVar{{"GREETING", `it's "$HOME" 100%`}}, Ports: []port{{Container: 8080, Host: at}}, DependsOn: []on{{"prepare", "SUCCESS"}},
		},
		{Name: "prepare", Command: words("print prepared"), Essential: optional, StopTimeout: 2},
	}}
}

// The files that are made of a task that runs are those that Podman, podman-compose and Quadlet's own generator take, and do the same.
func TestGenerateForOthers(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	at := freePort(t)
	const greeting = `it's "$HOME" 100%`
	id := b.detach(b.write(exported(at)), "--wait=healthy")
	b.wantAnswer(at, greeting)
	dir := filepath.Join(b.dir, "made")
	for _, target := range []string{"kubernetes", "compose", "quadlet"} {
		r := b.want(0, "generate", target, id, "--name", b.family, "--output", dir)
		if !strings.Contains(r.err, "Lost: ") || !strings.Contains(r.err, "Next: ") {
			t.Errorf("%s: %s", target, r.err)
		}
	}
	if r := b.want(125, "generate", "compose", id, "--output", dir); !strings.Contains(r.err, "already exists") {
		t.Errorf("files that are there: %s", r.err)
	}
	b.want(0, "stop", id)

	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir, cmd.Env = dir, append(b.env, "QUADLET_UNIT_DIRS="+dir)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	manifest := filepath.Join(dir, b.family+".kube.yaml")
	run("podman", "kube", "play", manifest)
	b.wantAnswer(at, greeting)
	run("podman", "kube", "down", "--force", manifest)

	run("podman-compose", "-f", "compose.yaml", "up", "-d")
	b.wantAnswer(at, greeting)
	run("podman-compose", "-f", "compose.yaml", "down", "--volumes", "-t", "2")

	units := run("/usr/libexec/podman/quadlet", "-dryrun", "-user")
	for _, want := range []string{"---" + b.family + "-pod.service---", "---" + b.family + "-app.service---", fmt.Sprintf("--publish %d:8080", at), "Requires=" + b.family + "-prepare.service"} {
		if !strings.Contains(units, want) {
			t.Errorf("Quadlet makes no %s:\n%s", want, units)
		}
	}
	b.quadlet(id, at, greeting)
}

// quadlet runs what was made for Quadlet by the systemd of the user, as people do.
func (b *box) quadlet(id string, at int, greeting string) {
	b.t.Helper()
	home, err := os.UserHomeDir()
	if err != nil {
		b.t.Fatal(err)
	}
	to := filepath.Join(home, ".config", "containers", "systemd", b.family)
	manager := func(args ...string) {
		b.t.Helper()
		if out, err := exec.Command("systemctl", append([]string{"--user"}, args...)...).CombinedOutput(); err != nil {
			b.t.Errorf("systemctl --user %s: %v %s", strings.Join(args, " "), err, out)
		}
	}
	b.t.Cleanup(func() {
		_ = os.RemoveAll(to)
		manager("daemon-reload")
	})
	b.want(0, "generate", "quadlet", id, "--name", b.family, "--output", to)
	manager("daemon-reload")
	manager("start", b.family+"-pod.service")
	b.wantAnswer(at, greeting)
	manager("stop", b.family+"-pod.service")
}
