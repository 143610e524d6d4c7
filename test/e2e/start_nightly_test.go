//go:build e2e && nightly

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestStartSpeed starts the same containers in turn with podman kube play and as a
// task, from images that are there, until all run, and removes them again, and prints
// how the two compare, as rows of benchmarks (hack/bench). It is a measurement: it
// fails only when a command does.
func TestStartSpeed(t *testing.T) {
	for _, n := range []int{1, 3, 10} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			b := newBox(t)
			image := b.testbox()
			b.podman("pull", "-q", "--authfile", bed.auth, image)
			var containers []ctr
			var pod strings.Builder
			fmt.Fprintf(&pod, "apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec:\n  terminationGracePeriodSeconds: 5\n  containers:\n", b.family)
			for i := range n {
				name := fmt.Sprint("c", i)
				containers = append(containers, ctr{Name: name, Command: words("sleep 1h")})
				fmt.Fprintf(&pod, "  - {name: %s, image: %q, imagePullPolicy: Never, args: [sleep, 1h]}\n", name, image)
			}
			definition, play := b.write(def{Network: "awsvpc", Containers: containers}), filepath.Join(b.dir, "pod.yaml")
			if err := os.WriteFile(play, []byte(pod.String()), 0o600); err != nil {
				t.Fatal(err)
			}
			var start, remove, theirStart, theirRemove []time.Duration
			timed := func(times *[]time.Duration, do func()) {
				begin := time.Now()
				do()
				*times = append(*times, time.Since(begin))
			}
			for range 9 {
				timed(&theirStart, func() { b.podman("kube", "play", "--quiet", play) })
				timed(&theirRemove, func() { b.podman("kube", "down", play) })
				var id string
				timed(&start, func() {
					id = strings.TrimSpace(b.want(0, "run", "-d", "--wait=running", "--pull", "never", definition).out)
				})
				timed(&remove, func() { b.want(0, "rm", "--force", id) })
			}
			row := func(what string, ours, theirs []time.Duration) {
				slices.Sort(ours)
				slices.Sort(theirs)
				t.Logf("podtask %v, podman %v", ours, theirs)
				m := len(ours) / 2
				t.Logf("Benchmark%s/%s/%d %d %d ns/op %.2f task/podman", what, bed.name, n, len(ours), ours[m].Nanoseconds(), ours[m].Seconds()/theirs[m].Seconds())
			}
			row("Start", start, theirStart)
			row("Remove", remove, theirRemove)
		})
	}
}
