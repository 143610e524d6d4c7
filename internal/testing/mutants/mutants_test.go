//go:build mutants

package mutants

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// tags are those the product is built with (hack/lib.sh).
const tags = "remote containers_image_openpgp"

// patience bounds a test run with a mutant, which may wait for what never happens.
const patience = 20 * time.Minute

// TestMutants compiles the tests with all mutants, shows that they pass with none
// switched on, and expects them to fail with each.
func TestMutants(t *testing.T) {
	s, dir := newSources(root), t.TempDir()
	overlay, err := writeOverlay(s, mutants, dir)
	if err != nil {
		t.Fatal(err)
	}
	quick := make(map[check]bool)
	packages := make(map[string]bool)
	for _, m := range mutants {
		quick[check{pkg: m.by.pkg, tests: cmp.Or(m.by.first, m.by.tests), flag: m.by.flag}] = true
		packages["./"+m.by.pkg] = true
	}
	args := append([]string{"test", "-c", "-vet=off", "-overlay", overlay, "-tags", tags, "-o", dir + "/"}, slices.Sorted(maps.Keys(packages))...)
	build := exec.Command(filepath.Join(root, "hack", "go"), args...)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("the tests with all mutants do not compile: %v\n%s", err, out)
	}
	// The whole model passes without mutants elsewhere; here its quick tests do.
	for c := range quick {
		t.Run("none/"+c.pkg+"/"+c.tests, func(t *testing.T) {
			t.Parallel()
			if out, err := c.run(t.Context(), dir, 0); err != nil {
				t.Fatalf("the tests fail without a mutant: %v\n%s", err, out)
			}
		})
	}
	for i, m := range mutants {
		_, missing := s.find(m)
		t.Run(m.property, func(t *testing.T) {
			t.Parallel()
			if missing != nil {
				t.Fatal(missing)
			}
			switch out, err := m.by.run(t.Context(), dir, i+1); {
			case err == nil:
				t.Errorf("%s %s pass with this mutant:\n%s", m.by.pkg, m.by.tests, out)
			case !strings.Contains(out, "--- FAIL: ") && (!strings.Contains(out, "panic: ") || strings.Contains(out, "panic: test timed out")):
				t.Errorf("no test has failed, but the run has: %v\n%s", err, out)
			}
		})
	}
}

// run runs the tests with one mutant on, 0 for none: first the quick ones, then the others.
func (c check) run(ctx context.Context, dir string, mutant int) (output string, err error) {
	if c.first != "" {
		if output, err = c.runTests(ctx, dir, mutant, c.first); err != nil {
			return output, err
		}
	}
	return c.runTests(ctx, dir, mutant, c.tests)
}

func (c check) runTests(ctx context.Context, dir string, mutant int, tests string) (output string, err error) {
	program := filepath.Join(dir, path.Base(c.pkg)+".test")
	cmd := exec.CommandContext(ctx, program, "-test.run="+tests, "-test.failfast", "-test.timeout="+patience.String())
	if c.flag != "" {
		cmd.Args = append(cmd.Args, c.flag)
	}
	cmd.Dir = filepath.Join(root, c.pkg)
	cmd.Env = append(os.Environ(), fmt.Sprint(switchEnv, "=", mutant))
	out, err := cmd.CombinedOutput()
	if err == nil && strings.Contains(string(out), "no tests to run") {
		err = fmt.Errorf("no test of %s matches %s", c.pkg, tests)
	}
	return string(out), err
}
