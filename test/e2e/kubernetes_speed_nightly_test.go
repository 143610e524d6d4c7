//go:build e2e && kubernetes && nightly

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestPodSpeed has a Pod made in the API of a cluster and the same one by podman kube play, in turn, and prints how long the
// Pod takes from its creation to its schedule and to Ready, and kube play in all. It is a measurement: it fails only
// when a command does.
func TestPodSpeed(t *testing.T) {
	plane := newPlane(t)
	n := newNode(t, plane, "edge1")
	image := n.testbox()
	n.podman("pull", "-q", "--authfile", bed.auth, image)
	for _, containers := range []int{1, 3} {
		t.Run(fmt.Sprint(containers), func(t *testing.T) {
			var manifest strings.Builder
			fmt.Fprint(&manifest, "apiVersion: v1\nkind: Pod\nmetadata: {name: quick}\nspec:\n  terminationGracePeriodSeconds: 1\n  automountServiceAccountToken: false\n  containers:\n")
			for i := range containers {
				fmt.Fprintf(&manifest, "  - {name: c%d, image: %q, imagePullPolicy: Never, args: [sleep, 1h]}\n", i, image)
			}
			file := filepath.Join(t.TempDir(), "pod.yaml")
			if err := os.WriteFile(file, []byte(manifest.String()), 0o600); err != nil {
				t.Fatal(err)
			}
			var scheduled, ready, played []time.Duration
			for range 6 {
				s, r := n.timePod(t, file)
				scheduled, ready = append(scheduled, s), append(ready, r)
				begin := time.Now()
				n.podman("kube", "play", "--quiet", file)
				played = append(played, time.Since(begin))
				n.podman("pod", "rm", "--force", "--time", "0", "quick")
			}
			median := func(times []time.Duration) time.Duration { // the first finds cold caches
				sorted := slices.Sorted(slices.Values(times[1:]))
				return sorted[len(sorted)/2]
			}
			t.Logf("scheduled after %v, ready after %v, kube play took %v", scheduled, ready, played)
			most := float64(median(scheduled)) + 1.2*float64(median(played))
			t.Logf("BenchmarkPod/%s/%d %d %d ns/op %.2f task/podman", bed.name, containers, len(ready)-1, median(ready).Nanoseconds(), float64(median(ready))/most)
		})
	}
}

// podConditions are the conditions of a Pod.
type podConditions struct {
	Status struct {
		Conditions []struct{ Type, Status string }
	}
}

func (c podConditions) is(kind string) bool {
	return slices.Contains(c.Status.Conditions, struct{ Type, Status string }{kind, "True"})
}

// timePod creates a Pod, and deletes it when it is ready. It returns how long after its creation it had a node and was ready.
func (n *node) timePod(t *testing.T, file string) (scheduled, ready time.Duration) {
	t.Helper()
	watch := n.plane.Command(t.Context(), n.plane.Admin, "get", "pods", "--field-selector=metadata.name=quick", "--watch", "-o", "json")
	out, err := watch.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said syncBuffer
	watch.Stderr = &said
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = watch.Process.Kill(); _ = watch.Wait() }()
	changes := make(chan podConditions)
	go func() {
		defer close(changes)
		for d := json.NewDecoder(out); ; {
			var c podConditions
			if d.Decode(&c) != nil {
				return
			}
			changes <- c
		}
	}()
	created := make(chan error, 1)
	go func() {
		_, err := n.plane.Kubectl(t.Context(), "", "create", "-f", file)
		created <- err
	}()
	limit := time.After(patience)
	var begin time.Time
	for ready == 0 {
		select {
		case c, more := <-changes:
			if !more {
				t.Fatalf("the watch has ended: %s", &said)
			}
			if begin.IsZero() {
				begin = time.Now()
			}
			if scheduled == 0 && c.is("PodScheduled") {
				scheduled = time.Since(begin)
			}
			if c.is("Ready") {
				ready = time.Since(begin)
			}
		case <-limit:
			t.Fatalf("the Pod is not ready\n%s", n.state())
		}
	}
	if err := <-created; err != nil {
		t.Fatal(err)
	}
	n.kubectl("delete", "pod/quick", "--wait")
	return scheduled, ready
}
