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

// A task on a network that a unit of Quadlet makes.
func TestUnitJoinsANetworkOfQuadlet(t *testing.T) {
	u := newUnits(t)
	u.file("front.network", "[Network]\n")
	serve := ctr{Name: "server", Command: words("serve 8080"), Environment: []envVar{{"GREETING", "hello"}}, StopTimeout: 2, Health: healthyIf("get http://127.0.0.1:8080/")}
	first := u.task("server", u.define(serve), "", "Network="+u.name("front.network"), "")
	second := u.task("client", u.define(ctr{Name: "app", Command: words("await http://server:8080/env/GREETING -- sleep forever"), StopTimeout: 2}), "After="+u.name("server.task"), "Network="+u.name("front.network"), "")
	u.systemctl("daemon-reload")
	u.systemctl("start", first, second)
	u.prints(u.name("client"), "app", "hello")
	u.systemctl("stop", second, first)
	network := "systemd-" + u.name("front")
	if got := u.podman("network", "ls", "--format", "{{.Name}}", "--filter", "name="+network); got != network {
		t.Errorf("networks: %s", got)
	}
	u.systemctl("stop", u.name("front-network.service"))
	u.podman("network", "rm", network)
}

// A task that asks for a pod and a volume of Quadlet by the names of their files.
func TestUnitRequiresAPodAndAVolumeOfQuadlet(t *testing.T) {
	u := newUnits(t)
	u.file("side.pod", "[Pod]\n")
	u.file("data.volume", "[Volume]\n")
	first := []string{u.name("side-pod.service"), u.name("data-volume.service")}
	u.made = append(u.made, first...)
	both := u.name("side.pod") + " " + u.name("data.volume")
	web := u.task("web", u.define(ctr{Name: "app", Command: words("term 0 -- sleep forever")}), "After="+both+"\nRequires="+both, "", "")
	u.systemctl("daemon-reload")
	u.systemctl("start", web)
	t.Cleanup(func() { u.podman("volume", "rm", "systemd-"+u.name("data")) })
	for _, s := range append(first, web) {
		if got := u.show(s, "ActiveState"); got != "active" {
			t.Errorf("%s is %s", s, got)
		}
	}
	if !u.hasVolume("systemd-" + u.name("data")) {
		t.Error("there is no volume")
	}
	u.systemctl("stop", first[0])
	if got := u.show(web, "ActiveState"); got != "inactive" {
		t.Errorf("without the pod that it requires the task is %s", got)
	}
}
