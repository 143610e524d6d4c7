//go:build e2e && nightly && bed_systemd

package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// The definitions of production run as the task of a unit too, with the same configuration.
func TestProductionDefinitionRunsAsAUnit(t *testing.T) {
	for _, shape := range productionShapes {
		t.Run(shape, func(t *testing.T) {
			u := newUnits(t)
			image, _ := u.push("app:1", u.freshImage("app"))
			u.answerReferences()
			service := u.task("web", u.production(shape, image, "one"), "", "Limits=best-effort", fmt.Sprintf("Environment=XDG_CONFIG_HOME=%s", filepath.Join(u.box.dir, "config")))
			u.systemctl("daemon-reload")
			u.systemctl("start", service)
			u.checkProduction(u.name("web"), "one")
			if got := u.journal() + u.systemctl("show", service); strings.Contains(got, marked) {
				t.Error("systemd shows a secret")
			}
			u.systemctl("stop", service)
		})
	}
}
