package archtest

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// notForOSSFuzz are targets of other modules than the product's.
var notForOSSFuzz = []string{"podman-crash FuzzSplit"}

var fuzzTarget = regexp.MustCompile(`(?m)^func (Fuzz\w*)\(`)

// OSS-Fuzz gets every target of the tree, under a name of its own in which there is no "podman": Podman's library in C looks for it.
func TestOSSFuzzGetsEveryTarget(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("hack/oss-fuzz/targets")
	cmd.Dir = root(t)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var listed, names []string
	for line := range strings.Lines(string(out)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(fields) != 5 {
			t.Fatalf("%q", line)
		}
		dir, err := filepath.Rel(root(t), fields[1])
		if err != nil {
			t.Fatal(err)
		}
		listed = append(listed, dir+" "+fields[2])
		names = append(names, fields[3])
		if strings.Contains(fields[3], "podman") {
			t.Errorf("the fuzzer %s has the word podman in its name", fields[3])
		}
	}
	slices.Sort(names)
	if n := len(slices.Compact(slices.Clone(names))); n != len(names) {
		t.Errorf("%d fuzzers have %d names", len(names), n)
	}
	want := fuzzTargets(t)
	listed = append(listed, notForOSSFuzz...)
	slices.Sort(listed)
	slices.Sort(want)
	for _, target := range want {
		if !slices.Contains(listed, target) {
			t.Errorf("hack/oss-fuzz/targets misses %s", target)
		}
	}
	if len(listed) != len(want) || len(want) < 100 {
		t.Errorf("hack/oss-fuzz/targets lists %d targets, and the tree has %d", len(listed), len(want))
	}
}

// fuzzTargets are all targets of the tree, as directories and functions.
func fuzzTargets(t *testing.T) (all []string) {
	t.Helper()
	for _, path := range trackedFiles(t) {
		if !strings.HasSuffix(path, "_test.go") || slices.Contains(strings.Split(path, "/"), "testdata") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root(t), path))
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed and not yet committed
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range fuzzTarget.FindAllSubmatch(text, -1) {
			all = append(all, filepath.Dir(path)+" "+string(found[1]))
		}
	}
	return all
}
