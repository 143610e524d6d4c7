//go:build e2e

//e2e:bed plain

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// mistakes is a definition with five mistakes, and their places.
const mistakes = `{
  "family": "five",
  "containerDefinitions": [
    {"name": "a", "image": "Not/A/Reference", "dependsOn": [{"containerName": "z", "condition": "START"}]},
    {"name": "a", "image": "app:1", "stopTimeout": "soon", "command": "print hello"}
  ]
}`

var places = []string{
	"/containerDefinitions/0/image",
	"/containerDefinitions/0/dependsOn/0/containerName",
	"/containerDefinitions/1/name",
	"/containerDefinitions/1/stopTimeout",
	"/containerDefinitions/1/command",
}

func TestFiveMistakes(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	path := filepath.Join(b.dir, "five.json")
	if err := os.WriteFile(path, []byte(mistakes), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, r := range []result{b.want(1, "validate", path), b.want(125, "run", path)} {
		for _, place := range places {
			if strings.Count(r.out+r.err, place+" ")+strings.Count(r.out+r.err, place+":") == 0 {
				t.Errorf("no message for %s:\n%s%s", place, r.out, r.err)
			}
		}
	}
	if got := b.want(0, "ps", "-a", "-q").out; got != "" {
		t.Errorf("something was made: %s", got)
	}
}

func TestEnvironmentThatCannotWork(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		// spoil changes the environment of the box.
		spoil func(t *testing.T, b *box)
		want  []string // in the error
	}{
		{"state directory cannot be written", func(t *testing.T, b *box) {
			dir := filepath.Join(t.TempDir(), "state")
			if err := os.Mkdir(dir, 0o500); err != nil {
				t.Fatal(err)
			}
			b.env = append(b.env, "XDG_STATE_HOME="+dir)
		}, []string{"state", "permission denied", "XDG_STATE_HOME"}},
		{"no podman", func(t *testing.T, b *box) {
			b.env = append(b.env, "PATH="+t.TempDir(), "XDG_RUNTIME_DIR="+shortDir(t))
		}, []string{"podman", "install Podman"}},
		{"no runtime directory", func(_ *testing.T, b *box) {
			b.env = append(b.env, "XDG_RUNTIME_DIR=")
		}, []string{"XDG_RUNTIME_DIR"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			good, path := b.env, b.hello(b.testbox())
			tc.spoil(t, b)
			for _, args := range [][]string{{"run", path}, {"run", "-d", path}} {
				r := b.want(125, args...)
				for _, want := range tc.want {
					if !strings.Contains(r.err, want) {
						t.Errorf("the error does not name %q: %s", want, r.err)
					}
				}
				if n := strings.Count(r.err, "Error:"); n != 1 || strings.Contains(r.err, "goroutine ") {
					t.Errorf("%d errors:\n%s", n, r.err)
				}
			}
			b.env = good
			if got := b.want(0, "ps", "-a", "-q").out + b.objects(); got != "" {
				t.Errorf("something was made: %s", got)
			}
		})
	}
}

// shortDir is a directory whose path leaves room for a socket's.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pt")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func TestPodmanAnswersAndProgramTellsItsVersion(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	if got := b.podman("info", "--format", "{{.Host.Security.Rootless}}"); got != "true" {
		t.Errorf("rootless = %q, want true", got)
	}
	if out := b.want(0, "version").out; strings.TrimSpace(out) == "" {
		t.Error("podtask version printed nothing")
	}
}
