//go:build e2e && (bed_plain || bed_systemd)

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"syscall"

	"github.com/podtask/podtask/internal/ingress"
)

// ingressProcess runs the proxy without a service manager until the test ends.
func (b *box) ingressProcess() ingressProxy {
	t := b.t
	t.Helper()
	u := ingressProxy{plain: freePort(t), secure: freePort(t)}
	find := func() int {
		var s ingress.Status
		if r := b.podtask("ingress", "status", "--format=json"); json.Unmarshal([]byte(r.out), &s) != nil {
			return 0
		}
		return s.PID
	}
	signal := func(s syscall.Signal) (pid int) {
		t.Helper()
		pid = u.pid()
		if err := syscall.Kill(pid, s); err != nil {
			t.Fatal(err)
		}
		return pid
	}
	gone := func(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }
	u.pid = func() int {
		t.Helper()
		pid := find()
		if pid == 0 {
			t.Fatal("no process")
		}
		return pid
	}
	u.do = func(verb string) {
		t.Helper()
		switch verb {
		case "reload":
			signal(syscall.SIGHUP)
			return
		case "stop", "restart", "kill":
			how := syscall.SIGTERM
			if verb == "kill" {
				how = syscall.SIGKILL
			}
			pid := signal(how)
			eventually(t, "the end of the proxy", func() bool { return gone(pid) })
		}
		if verb == "stop" {
			return
		}
		b.start("ingress", "serve", fmt.Sprintf("--http=127.0.0.1:%d", u.plain), fmt.Sprintf("--https=127.0.0.1:%d", u.secure))
		eventually(t, "a proxy that answers", func() bool { return find() != 0 })
	}
	t.Cleanup(func() {
		if pid := find(); pid != 0 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	u.do("start")
	return u
}
