package logfiles

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A router that runs as any user reads a copy of the file; what is none is an error that names it.
func TestAConfigurationOfTheUserIsCopied(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := In(dir).Router("task")
	if err := r.Place([]byte("made")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "extra.conf")
	if err := os.WriteFile(path, []byte("[FILTER]"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // it may be repeated
		if err := r.PlaceExternal(path); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(r.External())
	info, _ := os.Stat(r.External())
	if err != nil || string(text) != "[FILTER]" || info.Mode().Perm() != 0o644 {
		t.Errorf("%q, %v, %v", text, info.Mode(), err)
	}
	for _, bad := range []string{dir, filepath.Join(dir, "absent")} {
		if err := r.PlaceExternal(bad); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
