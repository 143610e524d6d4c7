//go:build e2e

//e2e:bed systemd

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Commands that people know from docker and podman do here what they do there.
func TestCommandsOfEveryDay(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	host := freePort(t)
	ref, _ := b.push("shell:1", shellImage(t))
	path := b.define(
		ctr{Name: "web", Image: ref, Command: words("term ignore -- print from the web -- sleep forever"), Ports: []port{{Container: 80, Host: host}}, StopTimeout: 60},
		ctr{Name: "side", Essential: optional, Image: ref, Command: words("term ignore -- print from the side -- sleep forever"), StopTimeout: 60},
	)
	first := b.detach("--wait=running", "--name", b.family, path)

	if got, want := b.want(0, "port", b.family).out, fmt.Sprintf("80/tcp -> 0.0.0.0:%d\n", host); !strings.HasSuffix(got, want) {
		t.Errorf("port printed %q, want %q", got, want)
	}
	if got := b.want(0, "ps", "-o", `table {{.Name}}\t{{.PortList}}\t{{.Image}}`).out; !strings.HasPrefix(got, "NAME") || !strings.Contains(got, fmt.Sprintf(":%d->80/tcp", host)) || !strings.Contains(got, ref) {
		t.Errorf("ps printed %q", got)
	}
	if got := b.want(0, "exec", b.family, "sh", "-c", "echo $0", "--", "-x").out; got != "--\n" {
		t.Errorf("exec printed %q", got)
	}

	file := b.file("in.txt", "some text\n")
	b.want(0, "cp", file, b.family+"/web:/tmp/here")
	b.want(0, "cp", b.family+"/web:/tmp/here", filepath.Join(b.dir, "out.txt"))
	if text, err := os.ReadFile(filepath.Join(b.dir, "out.txt")); err != nil || string(text) != "some text\n" {
		t.Errorf("cp brought %q, %v", text, err)
	}

	if got := b.want(0, "restart", "--time", "0", b.family).out; got == first+"\n" || len(got) != len(first)+1 {
		t.Errorf("restart printed %q", got)
	}
	b.want(0, "wait", "--condition", "running", b.family)
	if now := b.inspect(b.family); now.ID == first || now.Status != "RUNNING" {
		t.Errorf("after restart: %s %s", now.ID, now.Status)
	}
	both := b.want(0, "logs", "-c", "side", first, b.family).out
	if strings.Count(both, "/side | from the side\n") != 2 || strings.Contains(both, "web |") {
		t.Errorf("logs of two tasks: %q", both)
	}
	// Both ignore SIGTERM, and have a minute.
	b.want(0, "stop", "-t", "1", b.family)
	if got := b.inspect(b.family); got.Status != "STOPPED" || got.codes() != "web=137 side=137" {
		t.Errorf("after stop: %s %s", got.Status, got.codes())
	}
	b.want(0, "rm", first, b.family)
}
