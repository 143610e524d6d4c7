package sim

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares with a file of testdata, or writes it.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got == string(want) {
		return
	}
	g, w := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range max(len(g), len(w)) {
		if i >= len(g) || i >= len(w) || g[i] != w[i] {
			t.Fatalf("%s:%d: it is\n%s\nnot\n%s\n(go test ./internal/testing/sim -update rewrites the file)",
				path, i+1, strings.Join(g[i:min(i+8, len(g))], "\n"), strings.Join(w[min(i, len(w)):min(i+8, len(w))], "\n"))
		}
	}
}

func TestScripts(t *testing.T) {
	t.Parallel()
	scripts, err := filepath.Glob("testdata/*.script.txt")
	if err != nil || len(scripts) < 8 {
		t.Fatal(scripts, err)
	}
	for _, path := range scripts {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".script.txt"), func(t *testing.T) {
			t.Parallel()
			script, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Play(string(script))
			if err != nil {
				t.Fatal(err)
			}
			golden(t, path, got)
		})
	}
}

func TestScriptsSayWhatIsWrongWithThem(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		"works resolve web":                               "nothing was submitted",
		"container web\nsubmit\nworks pull web":           "no pull of web is in flight",
		"container web\nsubmit\ndance":                    "no such command",
		"container web\nsubmit\nexit web 1":               "it does not run",
		"container web\nsubmit\ncrash\ntimer":             "restart it",
		"container web\nsubmit\nfail resolve web":         "which class",
		"container web\nsubmit\ncancelled resolve web":    "it was not cancelled",
		"container web, slowly":                           "no such clause",
		"container web, after db START":                   "no such container above",
		"container web, check 5s\nsubmit":                 "no such clause",
		"container web, optional\nsubmit":                 "essential",
		"container web\nsubmit\nunhealthy web":            "no health check is in flight",
		"container web\nsubmit\nfail resolve web strange": "none of",
		"container web\nsubmit\ntimer":                    "no timer",
	} {
		if _, err := Play(script); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", script, err, want)
		}
	}
}
