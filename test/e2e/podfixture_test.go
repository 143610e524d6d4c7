//go:build e2e

//e2e:bed systemd

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/podtask/podtask/internal/testing/registrytest"
)

// podFixture is a Pod after a page of the Kubernetes documentation, with the point that the
// page makes.
type podFixture struct {
	page string // below https://kubernetes.io/docs/
	// manifest has @NAME for the box's family, @IMAGE for testbox, @FILES for an image with
	// files in /files, and @DIR for a directory of the host.
	manifest string
	flags    []string
	code     int
	// log are lines of the log, err parts of what run says on stderr.
	log, err []string
	// not is what the log must lack.
	not   []string
	check func(t *testing.T, b *box, p kubePod)
}

// fill writes the manifest of a fixture.
func (f podFixture) fill(b *box) string {
	b.t.Helper()
	path := filepath.Join(b.dir, "pod.yaml")
	files := ""
	if strings.Contains(f.manifest, "@FILES") {
		files = filesImage(b)
	}
	text := strings.NewReplacer("@NAME", b.family, "@IMAGE", b.testbox(), "@FILES", files, "@DIR", b.dir).Replace("---\n" + f.manifest)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	return path
}

// filesImage is testbox with files and a user of its own.
func filesImage(b *box) string {
	b.t.Helper()
	img, err := registrytest.Image(v1.Config{Entrypoint: []string{"/testbox"}, User: "1234:4321"},
		registrytest.File{Path: "/tmp/", Mode: 0o1777}, registrytest.File{Path: "/testbox", Data: bed.testbox},
		registrytest.File{Path: "/files/of-image", Data: []byte("from the image")}, registrytest.File{Path: "/files/below/deep", Data: []byte("deep")})
	if err != nil {
		b.t.Fatal(err)
	}
	ref, _ := b.push("files:1", img)
	return ref
}

// TestPodFixtures runs the Pods of the Kubernetes documentation.
func TestPodFixtures(t *testing.T) {
	t.Parallel()
	for _, f := range podFixtures {
		name := f.page[strings.LastIndexByte(f.page, '/')+1:]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			fill := strings.NewReplacer("@NAME", b.family, "@DIR", b.dir)
			words := []string{"run", "--name", b.family}
			for _, flag := range f.flags {
				words = append(words, fill.Replace(flag))
			}
			r := b.podtask(append(words, f.fill(b))...)
			if r.code != f.code {
				t.Errorf("exit code %d, want %d\n%s", r.code, f.code, r.err)
			}
			for _, want := range f.log {
				if !strings.Contains(r.out, fill.Replace(want)) {
					t.Errorf("the log lacks %q:\n%s%s", want, r.out, r.err)
				}
			}
			for _, bad := range f.not {
				if strings.Contains(r.out, bad) {
					t.Errorf("the log has %q:\n%s", bad, r.out)
				}
			}
			for _, want := range f.err {
				if !strings.Contains(r.err, fill.Replace(want)) {
					t.Errorf("stderr lacks %q:\n%s", want, r.err)
				}
			}
			if f.check != nil {
				f.check(t, b, podOf(b, b.family))
			}
		})
	}
}

func wantPhase(phase, qos string) func(*testing.T, *box, kubePod) {
	return func(t *testing.T, _ *box, p kubePod) {
		t.Helper()
		if p.Status.Phase != phase || qos != "" && p.Status.QOSClass != qos {
			t.Errorf("phase %s, class %s; want %s and %s", p.Status.Phase, p.Status.QOSClass, phase, qos)
		}
	}
}

// wantMessage compares the termination message of the first container.
func wantMessage(reason, message string) func(*testing.T, *box, kubePod) {
	return func(t *testing.T, _ *box, p kubePod) {
		t.Helper()
		end := p.Status.ContainerStatuses[0].State.Terminated
		if end == nil || end.Reason != reason || end.Message != message {
			t.Errorf("%+v, want %s: %q", end, reason, message)
		}
	}
}
