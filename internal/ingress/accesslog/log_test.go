package accesslog

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A log has a limited size, and two processes that write it lose nothing of it.
func TestRotation(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "access.log")
	first, err := open(path, 1000)
	if err != nil {
		t.Fatal(err)
	}
	second, err := open(path, 1000)
	if err != nil {
		t.Fatal(err)
	}
	const count = 60 // some 25 bytes each: two parts
	for n := range count {
		l := first
		if n%2 == 1 {
			l = second
		}
		l.Write(map[string]string{"n": fmt.Sprintf("%020d", n)})
	}
	seen := map[string]bool{}
	for _, part := range Parts(path) {
		data, err := os.ReadFile(part)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) > 2000 {
			t.Errorf("%s has %d bytes", part, len(data))
		}
		for line := range strings.Lines(string(data)) {
			seen[line] = true
		}
	}
	if len(seen) != count {
		t.Errorf("%d of %d lines are there", len(seen), count)
	}
	for range 1000 {
		first.Write(map[string]string{"n": "x"})
	}
	if parts := Parts(path); len(parts) != keptParts+1 {
		t.Errorf("the parts are %v", parts)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	first.Write("late")
	if first.Lost() != 0 {
		t.Error("a record after the end counts as lost")
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}
