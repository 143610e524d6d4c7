//go:build e2e

package e2e

import (
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/podtask/podtask/internal/testing/registrytest"
)

// x-podtask.emptyCommand runs the entry point of an image without its command, and stopSignal is the signal that Podman sends.
func TestAnEmptyCommandAndAStopSignal(t *testing.T) {
	b := newBox(t)
	img, err := registrytest.Image(v1.Config{Entrypoint: []string{"/testbox", "term", "0"}, Cmd: []string{"--", "exit", "7"}}, registrytest.File{Path: "/testbox", Data: bed.testbox})
	if err != nil {
		t.Fatal(err)
	}
	ref, _ := b.push("emptied:1", img)
	b.want(7, "run", "--rm", b.define(ctr{Name: "app", Image: ref}))
	b.want(0, "run", "--rm", b.define(ctr{Name: "app", Image: ref, More: obj{"x-podtask": obj{"emptyCommand": true}}}))
	id := b.detach("--wait=running", b.define(ctr{Name: "app", Image: ref, Command: words("-- sleep forever"), More: obj{"x-podtask": obj{"stopSignal": "SIGUSR1"}}}))
	if got := b.podman("inspect", "--format", "{{.Config.StopSignal}}", b.inspect(id).Containers[0].RuntimeID); got != "SIGUSR1" && got != "10" {
		t.Errorf("the stop signal is %s", got)
	}
	b.want(0, "rm", "--force", id)
}
