package system

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/podtask/podtask/internal/host/doctor"
)

// A host with services whose agent waits for a command at boot is told so.
func TestServicesNeedAnAgentAtBoot(t *testing.T) {
	t.Parallel()
	stateDir, units := t.TempDir(), t.TempDir()
	touch := func(path ...string) {
		t.Helper()
		file := filepath.Join(path...)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := func(level doctor.Level, fix string) {
		t.Helper()
		if f := agentFinding(stateDir, []string{t.TempDir(), units}); f.Level != level || f.Fix != fix || f.Check != "agent" || f.Text == "" {
			t.Errorf("%+v", f)
		}
	}
	touch(units, "sockets.target.wants", "podtask.socket")
	want(doctor.OK, "")
	touch(stateDir, "services", "web")
	want(doctor.Warn, "systemctl --user enable podtask.service")
	touch(units, "default.target.wants", "podtask.service")
	want(doctor.OK, "")
}
