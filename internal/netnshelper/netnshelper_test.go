package netnshelper

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	self, small := filepath.Join(dir, "podtask"), filepath.Join(dir, program)
	for _, c := range []struct {
		mode os.FileMode // 0: the small program does not exist
		want []string
	}{{0, []string{self, Argument}}, {0o644, []string{self, Argument}}, {0o755, []string{small}}} {
		if c.mode != 0 {
			if err := os.WriteFile(small, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(small, c.mode); err != nil {
				t.Fatal(err)
			}
		}
		if got := Command(self); !slices.Equal(got, c.want) {
			t.Errorf("with mode %o: %q", c.mode, got)
		}
	}
}
