//go:build e2e

package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/podtask/podtask/internal/testing/registrytest"
)

// An image says of itself that it is a task, of a service, and to be updated with a unit. None of it
// is the container's, and podman auto-update works for the user's other containers.
func TestLabelsOfAnImageAreNotOurs(t *testing.T) {
	b := newBox(t)
	victim := b.detach("--wait=running", b.waiter())
	claims := map[string]string{
		"io.containers.autoupdate": "registry", "io.containers.autoupdate.authfile": "/etc/passwd", "PODMAN_SYSTEMD_UNIT": "evil.service",
		"podtask.task-id": b.inspect(victim).ID, "podtask.spec": "x", "podtask.service": "web", "podtask.deployment": "d", "podtask.state-dir": "/",
		"podtask.tag.team": "red", "com.amazonaws.ecs.cluster": "prod", "team": "blue",
	}
	img, err := registrytest.Image(v1.Config{Entrypoint: []string{"/testbox"}, Labels: claims}, registrytest.File{Path: "/testbox", Data: bed.testbox})
	if err != nil {
		t.Fatal(err)
	}
	ref, _ := b.push("claims:1", img)
	id := b.detach("--wait=running", b.define(
		ctr{Name: "one", Image: ref, Command: words("sleep forever")},
		ctr{Name: "two", Image: ref, Command: words("sleep forever"), More: obj{"user": "7"}},
	))
	for _, c := range b.inspect(id).Containers {
		got := map[string]string{}
		if err := json.Unmarshal([]byte(b.podman("inspect", "--format", "{{json .Config.Labels}}", c.RuntimeID)), &got); err != nil {
			t.Fatal(err)
		}
		for key, claim := range claims {
			if (got[key] == claim) != (key == "team") {
				t.Errorf("%s has the label %s=%q", c.Name, key, got[key])
			}
		}
		if got["io.containers.autoupdate"] != "disabled" {
			t.Errorf("%s: io.containers.autoupdate is %q", c.Name, got["io.containers.autoupdate"])
		}
	}
	if out := b.podman("auto-update", "--dry-run"); strings.Contains(out, "claims") {
		t.Errorf("podman auto-update names the task: %s", out)
	}

	b.podman("run", "--detach", "--name", b.family+"-own", "--label", "io.containers.autoupdate=disabled", ref, "sleep", "forever")
	b.want(0, "rm", "--force", victim)
	b.want(0, "gc")
	if out := b.podman("ps", "--format", "{{.Names}}"); !strings.Contains(out, b.family+"-own") {
		t.Errorf("the user's own container of that image is gone: %s", out)
	}
	b.podman("rm", "--force", "--time", "0", b.family+"-own")
	b.want(0, "rm", "--force", id)
}
