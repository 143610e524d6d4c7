//go:build e2e && nightly

package e2e

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/podtask/podtask/internal/testing/registrytest"
)

// TestPullSpeed pulls the same digest in turn with podman pull and in a task, from
// the last digest to the end of the pull, and prints how the two compare, as a row of
// benchmarks (hack/bench). It is a measurement: it fails only when a pull does.
func TestPullSpeed(t *testing.T) {
	b := newBox(t)
	img, err := registrytest.Image(v1.Config{Entrypoint: []string{"/testbox"}},
		registrytest.File{Path: "/testbox", Data: bed.testbox},
		registrytest.File{Path: "/data", Data: registrytest.Random(48<<20, 7)})
	if err != nil {
		t.Fatal(err)
	}
	ref, digest := b.push("big:1", img)
	name := strings.TrimSuffix(ref, ":1")
	canonical := name + "@" + digest
	remove := func() {
		// By its name it would lose that name only.
		if id, err := exec.Command("podman", "image", "inspect", "--format", "{{.Id}}", canonical).Output(); err == nil {
			b.podman("rmi", "--force", strings.TrimSpace(string(id)))
		}
	}
	var ours, theirs []time.Duration
	for range 15 {
		remove()
		begin := time.Now()
		b.podman("pull", "-q", "--authfile", bed.auth, canonical)
		theirs = append(theirs, time.Since(begin))
		remove()
		id := strings.TrimSpace(b.want(0, "run", "-d", "--wait=stopped", "--pull", "always", b.hello(ref)).out)
		ours = append(ours, b.pullTime(id))
		b.want(0, "rm", id)
	}
	remove()
	slices.Sort(ours)
	slices.Sort(theirs)
	t.Logf("podtask %v, podman pull %v", ours, theirs)
	n := len(ours)
	t.Logf("BenchmarkPull/%s %d %d ns/op %.2f task/podman", bed.name, n, ours[n/2].Nanoseconds(), ours[n/2].Seconds()/theirs[n/2].Seconds())
}

// pullTime is the time between the digest and the end of the pull.
func (b *box) pullTime(id string) time.Duration {
	b.t.Helper()
	at := map[string]time.Time{}
	for line := range strings.Lines(b.want(0, "events", "--stream=false", "--since", "0", "--filter", "task="+id, "--format", "json").out) {
		var e struct {
			At                time.Time
			Container, Status string
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			b.t.Fatal(err)
		}
		at[fmt.Sprint(e.Container, " ", e.Status)] = e.At
	}
	begin, end := at["app MANIFEST_PULLED"], at["app PULLED"]
	if begin.IsZero() || end.IsZero() {
		b.t.Fatalf("no times in %v", at)
	}
	return end.Sub(begin)
}
