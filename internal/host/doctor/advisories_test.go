package doctor_test

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"

	"github.com/blang/semver/v4"

	"github.com/podtask/podtask/internal/host/doctor"
)

// advisories returns what is said about holes of Podman.
func (p *patient) advisories(t *testing.T) doctor.Finding {
	t.Helper()
	for _, f := range p.findings(t) {
		if f.Check == "advisories" {
			return f
		}
	}
	t.Fatal("nothing is said about holes")
	return doctor.Finding{}
}

func TestKnownHolesOfPodman(t *testing.T) {
	t.Parallel()
	for version, affected := range map[string]bool{
		"4.3.1": true, "4.9.3": true, "5.4.2": true, "5.8.9": true, "5.8.10": false, "5.9.0": false,
		"6.0.2": true, "6.1.0": true, "6.2.0": false, "6.3.1": false, "7.0.0": false,
	} {
		p := healthy()
		p.Podman.Version, p.updates = semver.MustParse(version), "enabled"
		p.set("etc/containers/policy.json", `{"default":[{"type":"sigstoreSigned"}]}`)
		f := p.advisories(t)
		named := strings.Contains(f.Text, "CVE-2026-121885") && strings.Contains(f.Text, "CVE-2026-111361")
		if named != affected || (f.Level == doctor.Warn) != affected || (f.Fix != "") != affected {
			t.Errorf("Podman %s: %+v", version, f)
		}
	}
}

// A warning has a cause on this host and goes when that has gone.
func TestHolesThatAreOpenHere(t *testing.T) {
	t.Parallel()
	p := healthy()
	if f := p.advisories(t); f.Level != doctor.OK || !strings.Contains(f.Fix, "CVE-2026-121885, CVE-2026-111361") {
		t.Errorf("nothing opens the holes: %+v", f)
	}
	p.updates = "enabled"
	f := p.advisories(t)
	if f.Level != doctor.Warn || strings.Contains(f.Text, "CVE-2026-111361") || !strings.Contains(f.Fix, "disable --now podman-auto-update.timer") {
		t.Errorf("with Podman's own updates: %+v", f)
	}
	p.programs, p.changelog = append(p.programs, "rpm"), "- fix CVE-2026-121885 (RHEL-1)"
	if f := p.advisories(t); f.Level != doctor.OK {
		t.Errorf("repaired by an rpm: %+v", f)
	}
	p.changelog = ""
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write([]byte("libpod (5.4.2+ds1-2+deb13u2)\n  * CVE-2026-121885\n"))
	_ = w.Close()
	p.set("usr/share/doc/podman/changelog.Debian.gz", packed.String())
	if f := p.advisories(t); f.Level != doctor.OK {
		t.Errorf("repaired by a deb: %+v", f)
	}
}
