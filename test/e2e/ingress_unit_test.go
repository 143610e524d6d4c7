//go:build e2e && (bed_plain || bed_systemd)

package e2e

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// ingressUnits installs the units of contrib/systemd until the test ends.
func (b *box) ingressUnits() ingressProxy {
	t := b.t
	t.Helper()
	u := ingressProxy{plain: freePort(t), secure: freePort(t)}
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(home, ".config", "systemd", "user")
	systemctl := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("systemctl", append([]string{"--user"}, args...)...).CombinedOutput()
		if err != nil {
			said, _ := exec.Command("journalctl", "--user", "--no-pager", "-n", "40", "-u", "podtask-ingress.service").CombinedOutput()
			t.Fatalf("systemctl %v: %v %s\n%s", args, err, out, said)
		}
		return strings.TrimSpace(string(out))
	}
	units := []string{"podtask-ingress.service", "podtask-ingress-http.socket", "podtask-ingress-https.socket"}
	t.Cleanup(func() {
		systemctl(append([]string{"stop"}, units...)...)
		for _, name := range units {
			_ = os.Remove(filepath.Join(dir, name))
			_ = os.RemoveAll(filepath.Join(dir, name+".d"))
		}
		systemctl("daemon-reload")
	})
	settings := map[string]string{
		"podtask-ingress.service":      fmt.Sprintf("[Service]\nExecStart=\nExecStart=%s ingress serve\nEnvironment=XDG_STATE_HOME=%s\nBindPaths=%s\n", bed.podtask, b.stateHome(), b.dir), // it has a /tmp of its own
		"podtask-ingress-http.socket":  fmt.Sprintf("[Socket]\nListenStream=\nListenStream=127.0.0.1:%d\n", u.plain),
		"podtask-ingress-https.socket": fmt.Sprintf("[Socket]\nListenStream=\nListenStream=127.0.0.1:%d\n", u.secure),
	}
	writeUnits(t, dir, settings)
	systemctl("daemon-reload")
	systemctl("start", "podtask-ingress.service")
	u.pid = func() int {
		t.Helper()
		pid, err := strconv.Atoi(systemctl("show", "--property=MainPID", "--value", "podtask-ingress.service"))
		if err != nil || pid == 0 {
			t.Fatalf("no process: %v", err)
		}
		return pid
	}
	u.do = func(verb string) {
		t.Helper()
		if verb != "kill" { // it is started again
			systemctl(verb, "podtask-ingress.service")
		} else if err := syscall.Kill(u.pid(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	return u
}

// writeUnits writes units of contrib/systemd with settings, by the names of the units, to a directory.
func writeUnits(t *testing.T, dir string, settings map[string]string) {
	t.Helper()
	contrib := filepath.Join(filepath.Dir(os.Getenv("PODTASK_EXAMPLES")), "contrib", "systemd")
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		text, err := os.ReadFile(filepath.Join(contrib, name))
		if err == nil {
			err = os.MkdirAll(filepath.Join(dir, name+".d"), 0o700)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name+".d", "test.conf"), []byte(settings[name]), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
