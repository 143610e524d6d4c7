package system

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/podtask/podtask/internal/host/doctor"
	"github.com/podtask/podtask/internal/unitfile/unitdir"
)

// agentFinding says whether the agent starts at boot if there are services, which it runs. dirs are the directories in which
// systemd notes what is enabled.
func agentFinding(stateDir string, dirs []string) doctor.Finding {
	f := doctor.Finding{Check: "agent", Level: doctor.OK, Text: "there is no service for an agent to run"}
	records, err := os.ReadDir(filepath.Join(stateDir, "services"))
	if err != nil || len(records) == 0 {
		return f
	}
	enabled := func(unit, target string) bool {
		return slices.ContainsFunc(dirs, func(dir string) bool {
			_, err := os.Lstat(filepath.Join(dir, target+".wants", unit))
			return err == nil
		})
	}
	f.Text = "nothing keeps the agent from starting at boot"
	if enabled("podtask.socket", "sockets.target") && !enabled("podtask.service", "default.target") {
		f.Level, f.Text = doctor.Warn, "at boot, services start only when a command asks the agent: its socket is enabled, and the agent is not"
		f.Fix = "systemctl --user enable podtask.service"
	}
	return f
}

// enabledDirs are the directories in which systemd notes what units of a user are enabled.
func enabledDirs(getenv func(string) string) []string {
	dirs := []string{"/etc/systemd/user"}
	if own := unitdir.Services(getenv); own != "" {
		dirs = append(dirs, own)
	}
	return dirs
}
