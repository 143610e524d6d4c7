//go:build !race

package cli

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"
)

// The limit of the heap is raised before packages have allocated what begins a collection, about 3 MB. All of them, with those of tests, allocate no more
// than they did.
func TestPackagesInitializeWithoutACollection(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^$")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1", "GOGC=")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	const most, mostBefore = 4900 << 10, 2560 << 10
	sum, before := 0, -1
	for _, m := range regexp.MustCompile(`(?m)^init (\S+) .* clock, (\d+) bytes`).FindAllStringSubmatch(string(out), -1) {
		if m[1] == "github.com/podtask/podtask/internal/cli/heap" {
			before = sum
		}
		n, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	if before < 0 || before > mostBefore || sum > most {
		t.Errorf("packages allocate %d bytes, %d before the limit is raised; want at most %d and %d", sum, before, most, mostBefore)
	}
	t.Logf("packages allocate %d bytes, %d before the limit is raised", sum, before)
}
