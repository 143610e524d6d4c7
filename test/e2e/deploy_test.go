//go:build e2e

//e2e:bed systemd

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A deployment builds an image and replaces the copies with it; one whose image cannot become healthy goes back.
func TestDeploy(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.agent()
	b.want(0, "service", "create", b.family, b.define(served("one")), "--wait", "--timeout=4m")
	dir := filepath.Join(b.dir, "app")
	build := func(label string) {
		t.Helper()
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "Containerfile"), []byte("FROM "+b.testbox()+"\nLABEL version="+label+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build("1")
	first := strings.TrimSpace(b.want(0, "deploy", "--tag", "1", "--container", "app", "--timeout", "4m", b.family, dir).out)
	if first != "localhost/"+b.family+":1" {
		t.Errorf("deploy printed %q", first)
	}
	image := func() string {
		return strings.TrimSpace(b.want(0, "ps", "--filter", "service="+b.family, "--format", "{{join .Images \",\"}}").out)
	}
	if got := image(); got != first {
		t.Errorf("the copy has %s", got)
	}
	if r := b.want(125, "deploy", "--tag", "2", b.family, filepath.Join(b.dir, "nowhere")); !strings.Contains(r.err, "could not build") {
		t.Errorf("it says %s", r.err)
	}
	if got := image(); got != first {
		t.Errorf("after a build that failed the copy has %s", got)
	}
}
