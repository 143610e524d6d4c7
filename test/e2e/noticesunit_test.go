//go:build e2e && (bed_systemd || bed_vm)

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestUnitsTellWithoutAnAgent: systemd starts podtask-notify.service when the service of a unit has failed, and that tells.
func TestUnitsTellWithoutAnAgent(t *testing.T) {
	u := newUnits(t)
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	told := filepath.Join(u.box.dir, "told")
	config := filepath.Join(home, ".config", "podtask", "podtask.toml")
	if _, err := os.Stat(config); err == nil {
		t.Fatalf("%s is there already", config)
	}
	text := fmt.Sprintf("[[notify]]\nname = \"night\"\non = [\"failed\"]\nto = [\"/bin/sh\", \"-c\", \"cat >> %s\"]\n", told)
	if err := os.MkdirAll(filepath.Dir(config), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(config); err != nil {
			t.Error(err)
		}
	})
	u.contrib("podtask-notify.service", fmt.Sprintf("[Service]\nExecStart=\nExecStart=%s notify send\nEnvironment=XDG_STATE_HOME=%s\n", bed.podtask, u.stateHome()))
	service := u.task("web", u.define(ctr{Name: "app", Command: words("exit 3")}), "", "", "")
	u.systemctl("daemon-reload")
	if got := u.show(service, "OnFailure"); got != "podtask-notify.service" {
		t.Errorf("OnFailure=%s", got)
	}
	_ = exec.CommandContext(t.Context(), "systemctl", "--user", "start", service).Run() // it fails, or has begun and fails then
	eventually(t, "a notice", func() bool {
		text, _ := os.ReadFile(told)
		return strings.Contains(string(text), u.name("web")+" has failed") && strings.Contains(string(text), `"exitCode":3`)
	})
	u.becomes("podtask-notify.service", "ActiveState", "inactive")
	if got := u.show("podtask-notify.service", "Result"); got != "success" {
		t.Errorf("podtask-notify.service: %s\n%s", got, u.journal())
	}
}
