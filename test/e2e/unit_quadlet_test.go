//go:build e2e && bed_systemd

package e2e

import (
	"fmt"
	"testing"
)

// Quadlet came with Podman 4.4: the machine of Debian 12, which has 4.3.1, has no
// part in what is here.

func TestUnitStartsAfterAContainerOfQuadlet(t *testing.T) {
	u := newUnits(t)
	image := u.testbox()
	u.podman("pull", "--quiet", "--authfile", bed.auth, image)
	u.file("side.container", fmt.Sprintf("[Container]\nImage=%s\nPull=never\nExec=serve 8080\n[Service]\nTimeoutStopSec=5\n", image))
	u.made = append(u.made, u.family+"-side.service")
	u.startInOrder(u.family + "-side.container")
}
