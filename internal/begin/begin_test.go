package begin

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestNetnsHelper(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	self, small := filepath.Join(dir, "podtask"), filepath.Join(dir, netnsProgram)
	for _, c := range []struct {
		mode os.FileMode // 0: none
		want []string
	}{{0, []string{self, NetnsListen}}, {0o644, []string{self, NetnsListen}}, {0o755, []string{small}}} {
		if c.mode != 0 {
			if err := os.WriteFile(small, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(small, c.mode); err != nil {
				t.Fatal(err)
			}
		}
		if got := NetnsHelper(self); !slices.Equal(got, c.want) {
			t.Errorf("with mode %o: %q", c.mode, got)
		}
	}
}
