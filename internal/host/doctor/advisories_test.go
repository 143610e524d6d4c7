package doctor_test

import (
	"strings"
	"testing"

	"github.com/blang/semver/v4"

	"github.com/podtask/podtask/internal/host/doctor"
)

func TestKnownHolesOfPodman(t *testing.T) {
	t.Parallel()
	for version, affected := range map[string]bool{
		"4.3.1": true, "4.9.3": true, "5.4.2": true, "5.8.9": true, "5.8.10": false, "5.9.0": false,
		"6.0.2": true, "6.1.0": true, "6.2.0": false, "6.3.1": false, "7.0.0": false,
	} {
		p := healthy()
		p.Podman.Version = semver.MustParse(version)
		for _, f := range p.findings(t) {
			if f.Check != "advisories" {
				continue
			}
			named := strings.Contains(f.Text, "CVE-2026-121885") && strings.Contains(f.Text, "CVE-2026-111361")
			if named != affected || (f.Level == doctor.Warn) != affected || (f.Fix != "") != affected {
				t.Errorf("Podman %s: %+v", version, f)
			}
		}
	}
}
