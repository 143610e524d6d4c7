//go:build e2e && bed_systemd

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// A task in a unit sleeps when it has had no connection for a time, and its socket wakes it: many first connections wait and start it
// once; an open one keeps it awake; a killed podtask or forwarder breaks what is open, and the next connection is answered; where
// the task cannot start, connections end and the next one tries again.
func TestUnitWakesByItsSocket(t *testing.T) {
	u := newUnits(t)
	at, behind := freePort(t), freePort(t)
	c := served("one")
	service := u.task("web", u.define(c), "StartLimitIntervalSec=0", fmt.Sprintf("ListenStream=127.0.0.1:%d\nPublishPort=127.0.0.1:%d:8080\nSleepAfter=2s", at, behind), "")
	socket, proxy := strings.TrimSuffix(service, ".service")+".socket", strings.TrimSuffix(service, ".service")+"-proxy.service"
	u.made = append(u.made, proxy, socket) // the last is stopped first
	u.systemctl("daemon-reload")
	if got := u.show("sockets.target", "Wants"); !strings.Contains(got, socket) {
		t.Errorf("sockets.target wants %s", got)
	}
	for _, unit := range []string{service, socket, proxy} {
		if out, err := exec.Command("systemd-analyze", "--user", "verify", u.show(unit, "FragmentPath")).CombinedOutput(); err != nil || strings.Contains(string(out), u.family) {
			t.Errorf("systemd-analyze: %v %s", err, out)
		}
	}
	u.systemctl("start", socket)
	ask := func() (string, error) { return askURL(fresh(), fmt.Sprintf("http://127.0.0.1:%d", at)) }
	asleep := func() {
		t.Helper()
		u.becomes(service, "ActiveState", "inactive")
		u.becomes(socket, "SubState", "listening")
		if left := u.objects(); left != "" {
			t.Errorf("left of a task that sleeps:\n%s", left)
		}
	}
	starts := func() int { return strings.Count(u.journal(), "Starting "+service) } // of earlier runs of the test, too
	before := starts()
	asleep()
	if r := u.want(0, "unit", "ls"); !strings.Contains(r.out, "asleep") {
		t.Errorf("ls printed %s", r.out)
	}

	visit(t, 100, ask)
	if n := starts() - before; n != 1 {
		t.Errorf("100 first connections started it %d times", n)
	}
	kept := openLine(t, at)
	kept.wantAnswer("at first")
	idle := time.Now()
	eventually(t, "twice the time after which it sleeps", func() bool { return time.Since(idle) > 5*time.Second })
	kept.wantAnswer("after a while")
	if got := u.show(service, "ActiveState"); got != "active" {
		t.Errorf("with an open connection it is %s", got)
	}
	kept.Close()
	asleep()

	for _, killed := range []string{service, proxy} {
		visit(t, 1, ask)
		u.systemctl("kill", "--signal=KILL", "--kill-whom=main", killed)
		asleepOrFailed := func() bool { s := u.show(service, "ActiveState"); return s == "inactive" || s == "failed" }
		eventually(t, "the end of a task without its "+killed, asleepOrFailed)
		u.becomes(socket, "SubState", "listening") // connections before that are closed
		visit(t, 20, ask)
		asleep()
	}
	// podtask is killed while it wakes.
	var held sync.WaitGroup
	held.Go(func() { _, _ = ask() }) // it ends with the attempt, or is answered
	u.becomes(service, "ActiveState", "activating")
	u.systemctl("kill", "--signal=KILL", "--kill-whom=main", service)
	held.Wait()
	u.becomes(socket, "SubState", "listening")
	visit(t, 20, ask)
	asleep()

	// A definition that cannot be read: the connection ends, and does not start it again and again.
	text, err := os.ReadFile(u.files[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(u.files[0], []byte(strings.Replace(string(text), "\nDefinition=", "\nDefinition=/missing", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	u.systemctl("daemon-reload")
	before = starts()
	if text, err := ask(); err == nil {
		t.Errorf("a task without a definition answered %q", text)
	}
	u.becomes(socket, "SubState", "listening")
	if n := starts() - before; n != 1 {
		t.Errorf("one connection started it %d times", n)
	}

	// One that does not become healthy in its time: likewise.
	sick := c
	sick.Health = healthyIf("exists /tmp/never")
	sick.Health.Retries = 1
	at, behind = freePort(t), freePort(t)
	service = u.task("sick", u.define(sick), "StartLimitIntervalSec=0", fmt.Sprintf("ListenStream=127.0.0.1:%d\nPublishPort=127.0.0.1:%d:8080\nSleepAfter=2s", at, behind), "TimeoutStartSec=3")
	socket = strings.TrimSuffix(service, ".service") + ".socket"
	u.made = append(u.made, socket)
	u.systemctl("daemon-reload")
	u.systemctl("start", socket)
	before = starts()
	if text, err := ask(); err == nil {
		t.Errorf("a task that is not healthy answered %q", text)
	}
	u.becomes(socket, "SubState", "listening")
	u.becomes(service, "ActiveState", "failed")
	if n := starts() - before; n != 1 {
		t.Errorf("one connection started it %d times", n)
	}
}
