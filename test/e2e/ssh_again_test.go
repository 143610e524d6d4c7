//go:build e2e

//e2e:bed systemd

package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
)

// Commands that follow something connect again after the connection broke, and continue where their output ended:
// nothing is missing, and nothing comes twice.
func TestHostBySSHConnectsAgain(t *testing.T) {
	t.Parallel()
	far, near, _ := newSSHBox(t)
	ref, _ := far.push("shell:1", shellImage(t))
	far.detach("--wait=running", "--name", far.family, far.define(ctr{Name: "app", Image: ref, Ports: []port{{Container: 8080, Host: freePort(t)}},
		More: obj{"entryPoint": []string{"sh", "-c"}}, Command: []string{"echo number 0; i=1; while sleep 0.2; do echo number $i; i=$((i+1)); done"}}))
	cut := func(p *process, again int) {
		t.Helper()
		if err := syscall.Kill(sshOf(p), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		eventually(t, strings.Join(p.cmd.Args[1:], " ")+" to connect again", func() bool { return strings.Count(p.err.String(), "connected to ") == again })
	}

	logs := far.start("logs", "-f", far.family)
	events := far.start("events", "--since", "1h", "--format", "{{.Seq}}")
	for again := 1; again <= 2; again++ {
		before := strings.Count(logs.out.String(), "\n")
		eventually(t, "lines", func() bool {
			return strings.Count(logs.out.String(), "\n") > before+3 && strings.Contains(events.out.String(), "\n")
		})
		cut(logs, again)
		cut(events, again)
	}
	near.want(0, "stop", "-t", "0", far.family)
	if r := logs.wait(); r.code != 0 {
		t.Errorf("logs ended with %d %s", r.code, r.err)
	}
	for i, line := range strings.Split(strings.TrimSpace(logs.out.String()), "\n") {
		if want := fmt.Sprintf("app | number %d", i); line != want {
			t.Fatalf("line %d is %q, want %q", i, line, want)
		}
	}
	want := near.want(0, "events", "--stream=false", "--format", "{{.Seq}}").out
	eventually(t, "all events", func() bool { return events.out.String() == want })
	events.interrupt()
	events.want(130)

	// Without a server there is no connection; Ctrl-C ends the wait for it.
	far.want(0, "restart", far.family)
	far.want(0, "wait", "--condition=running", far.family) // before, it has no port to forward
	ports := far.start("port-forward", far.family, "0:8080")
	eventually(t, "the forwarded port", func() bool { return strings.Contains(ports.out.String(), " -> ") })
	cut(ports, 1)
	ports.interrupt()
	ports.want(130)
}
