//go:build e2e

//e2e:bed systemd

package enginetest_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/testing/enginetest"
	"github.com/podtask/podtask/internal/testing/freeport"
	"github.com/podtask/podtask/internal/testing/registrytest"
	"github.com/podtask/podtask/test/testbed"
)

// TestRealConformance runs in a test bed: PODTASK_BED is set there, and
// PODTASK_TESTBOX is the path of the program in the images.
func TestRealConformance(t *testing.T) {
	if bed.registry == nil {
		t.Skip("no rootless Podman: set PODTASK_BED and PODTASK_TESTBOX, as hack/e2e does")
	}
	enginetest.Conformance(t, func(t *testing.T, check func(*testing.T, enginetest.Subject)) {
		c, err := libpod.Dial(t.Context(), libpod.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		check(t, enginetest.Subject{Podman: c, Control: podman{}, Real: true})
	})
}

// bed is what the whole run shares.
var bed struct {
	registry *registrytest.Registry
	testbox  []byte
	local    string // reference of the image all containers are made from

	mu  sync.Mutex
	ids []string // of the images that may be in local storage
}

func TestMain(m *testing.M) {
	os.Exit(testbed.Main(m, func(string) (func() error, error) {
		return func() error { return errors.Join(closeReal(), testbed.CheckLeftovers()) }, openReal()
	}))
}

func openReal() (err error) {
	if bed.testbox, err = testbed.Testbox(); err != nil {
		return err
	}
	if bed.registry, err = registrytest.New(registrytest.Options{}); err != nil {
		return err
	}
	bed.local, _, err = publish(v1.Config{
		Env: []string{"FROM_IMAGE=yes"}, Cmd: []string{"exit", "0"}, Volumes: map[string]struct{}{"/data": {}},
		Healthcheck: &v1.HealthConfig{Test: []string{"CMD", enginetest.Program, "exit", "1"}, Interval: time.Second},
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	c, err := libpod.Dial(ctx, libpod.Options{})
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Pull(ctx, bed.local, libpod.PullOptions{Insecure: true})
	return err
}

// closeReal removes the images of the run.
func closeReal() error {
	bed.registry.Close()
	var errs []error
	for _, id := range bed.ids {
		if exec.Command("podman", "image", "exists", id).Run() != nil {
			continue
		}
		if out, err := exec.Command("podman", "rmi", "--force", id).CombinedOutput(); err != nil {
			errs = append(errs, fmt.Errorf("remove image: %w: %s", err, out))
		}
	}
	return errors.Join(errs...)
}

// publish pushes a new image.
func publish(config v1.Config) (ref, digest string, err error) {
	config.Entrypoint = []string{enginetest.Program}
	img, err := registrytest.Image(config,
		registrytest.File{Path: "/tmp/", Mode: 0o1777},
		registrytest.File{Path: "/salt", Mode: 0o644, Data: []byte(rand.Text())},
		registrytest.File{Path: enginetest.NotExecutable, Mode: 0o644, Data: []byte("data")},
		registrytest.File{Path: enginetest.Program, Data: bed.testbox})
	if err != nil {
		return "", "", err
	}
	id, err := img.ConfigName()
	if err != nil {
		return "", "", err
	}
	bed.mu.Lock()
	bed.ids = append(bed.ids, id.Hex)
	bed.mu.Unlock()
	name := "app-" + strings.ToLower(rand.Text()[:10]) + ":1"
	digest, err = bed.registry.Push(name, img)
	return bed.registry.Addr() + "/" + name, digest, err
}

// podman is enginetest.Control by Podman's own program.
type podman struct{}

func (podman) do(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("podman", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("podman %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func (podman) Local(*testing.T) string { return bed.local }

func (podman) Publish(t *testing.T) (ref, digest string) {
	t.Helper()
	ref, digest, err := publish(v1.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return ref, digest
}

func (p podman) Foreign(t *testing.T, name, pod string) {
	t.Helper()
	args := []string{"create", "--name", name}
	if pod != "" {
		args = append(args, "--pod", pod)
	} else {
		args = append(args, "--network", "none")
	}
	p.do(t, append(args, bed.local)...)
	t.Cleanup(func() { _ = exec.Command("podman", "rm", "--force", "--volumes", name).Run() })
}

func (p podman) Kill(t *testing.T, name string) {
	t.Helper()
	p.do(t, "kill", name)
}

func (p podman) Remove(t *testing.T, name string) {
	t.Helper()
	p.do(t, "rm", "--force", "--volumes", "--time", "0", name)
}

func (podman) TakePort(t *testing.T) uint16 {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return uint16(l.Addr().(*net.TCPAddr).Port)
}

func (p podman) Disconnect(t *testing.T, name, network string) {
	t.Helper()
	p.do(t, "network", "disconnect", network, name)
}

func (p podman) Volume(t *testing.T, name string) string {
	t.Helper()
	return p.do(t, "inspect", "--format", "{{range .Mounts}}{{.Name}}{{end}}", name)
}

func (podman) FreePort(t *testing.T) uint16 { return freeport.For(t) }
