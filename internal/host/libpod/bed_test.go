//go:build e2e

package libpod_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/containers/podman/v5/pkg/bindings/images"

	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/pkg/transient"
)

// ownService returns options that make Dial start a real service of its own.
func ownService(t *testing.T) (o libpod.Options, socket string) {
	t.Helper()
	if os.Getenv("PODTASK_BED") == "" {
		t.Skip("starts Podman services itself: set PODTASK_BED")
	}
	if _, err := exec.LookPath("podman"); err != nil {
		t.Skip("no podman in PATH")
	}
	dir, err := os.MkdirTemp("", "pt")
	if err != nil {
		t.Fatal(err)
	}
	socket = filepath.Join(dir, "podtask", "podman.sock")
	t.Cleanup(func() {
		if pid, err := listener(socket); err == nil {
			_ = syscall.Kill(pid, syscall.SIGTERM)
		}
		_ = os.RemoveAll(dir)
	})
	return libpod.Options{RuntimeDir: dir, IdleTimeout: time.Second}, socket
}

// listener returns the process that listens on a unix socket.
func listener(socket string) (pid int, err error) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	rc, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, err
	}
	err2 := rc.Control(func(fd uintptr) {
		var cred *syscall.Ucred
		if cred, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED); err == nil {
			pid = int(cred.Pid)
		}
	})
	return pid, errors.Join(err, err2)
}

func TestRealServiceIsSharedAndComesBack(t *testing.T) {
	o, socket := ownService(t)
	clients := make([]*libpod.Client, 3)
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() { clients[i] = mustDial(t, o) })
	}
	wg.Wait()
	first, err := listener(socket)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitForRefusal(t, socket)
	for _, c := range clients {
		_, err := c.Host(within(t))
		var e *libpod.Error
		if errors.As(err, &e) && transient.Is(e) {
			_, err = c.Host(within(t))
		}
		if err != nil {
			t.Error(err)
		}
	}
	if second, err := listener(socket); err != nil || second == first {
		t.Errorf("first %d, second %d, %v", first, second, err)
	}
}

// A client that does not need the service lets it go, and finds another one when it does.
func TestRealServiceGoesWhenItIsNotNeeded(t *testing.T) {
	o, socket := ownService(t)
	c := mustDial(t, o)
	first, err := listener(socket)
	if err != nil {
		t.Fatal(err)
	}
	// Looking at the socket would keep it up, so look at the file, which goes with
	// the service.
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for ctx := within(t); ; {
		if _, err := os.Stat(socket); errors.Is(err, os.ErrNotExist) {
			break
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("the service stays")
		}
	}
	if _, err := c.Host(within(t)); err != nil {
		t.Fatal(err)
	}
	if second, err := listener(socket); err != nil || second == first {
		t.Errorf("first %d, second %d, %v", first, second, err)
	}
}

// registry serves one image without tags, hangs for the repository "stuck", and
// has nothing else.
type registry struct {
	blobs    map[string][]byte
	manifest []byte
	stuck    chan struct{} // receives when a request for "stuck" arrives
	left     chan struct{} // and when its client hung up
}

const manifestType = "application/vnd.oci.image.manifest.v1+json"

func newRegistry(t *testing.T) (*registry, string) {
	t.Helper()
	var zipped bytes.Buffer
	layer := tarOf(member{"hello-" + t.Name(), 0o644, []byte(time.Now().String())})
	z := gzip.NewWriter(&zipped)
	if _, err := z.Write(layer); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	config, err := json.Marshal(map[string]any{"architecture": runtime.GOARCH, "os": "linux", "rootfs": map[string]any{"type": "layers", "diff_ids": []string{digest(layer)}}})
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": manifestType,
		"config": map[string]any{"mediaType": "application/vnd.oci.image.config.v1+json", "digest": digest(config), "size": len(config)},
		"layers": []any{map[string]any{"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", "digest": digest(zipped.Bytes()), "size": zipped.Len()}},
	})
	if err != nil {
		t.Fatal(err)
	}
	r := &registry{blobs: map[string][]byte{digest(config): config, digest(zipped.Bytes()): zipped.Bytes()}, manifest: manifest, stuck: make(chan struct{}, 16), left: make(chan struct{}, 16)}
	s := httptest.NewServer(r)
	t.Cleanup(s.Close)
	return r, strings.TrimPrefix(s.URL, "http://")
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func (r *registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Docker-Distribution-Api-Version", "registry/2.0")
	switch path := req.URL.Path; {
	case path == "/v2/":
	case strings.HasPrefix(path, "/v2/stuck/"):
		r.stuck <- struct{}{}
		<-req.Context().Done()
		r.left <- struct{}{}
	case path == "/v2/there/manifests/"+digest(r.manifest):
		w.Header().Set("Content-Type", manifestType)
		_, _ = w.Write(r.manifest)
	case strings.HasPrefix(path, "/v2/there/blobs/") && r.blobs[filepath.Base(path)] != nil:
		_, _ = w.Write(r.blobs[filepath.Base(path)])
	case strings.HasPrefix(path, "/v2/locked/"):
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprint(w, `{"errors":[{"code":"DENIED","message":"not for you"}]}`)
	default:
		w.WriteHeader(http.StatusNotFound)
		_, _ = fmt.Fprint(w, `{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}`)
	}
}

func TestPullByDigestThenTag(t *testing.T) {
	t.Parallel()
	c := dial(t)
	r, host := newRegistry(t)
	ref := host + "/there@" + digest(r.manifest)
	var steps []libpod.Progress
	id, err := c.Pull(within(t), ref, libpod.PullOptions{Insecure: true, Progress: func(p libpod.Progress) { steps = append(steps, p) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := afterwards()
		defer cancel()
		conn, err := raw(ctx)
		if err != nil {
			t.Error(err)
			return
		}
		if _, errs := images.Remove(conn, []string{id}, new(images.RemoveOptions).WithForce(true)); len(errs) > 0 {
			t.Error(errs)
		}
	})
	if len(steps) == 0 {
		t.Error("no progress")
	}
	name := host + "/there:v1"
	for range 2 {
		if err := c.Tag(within(t), id, name); err != nil {
			t.Fatal(err)
		}
	}
	for _, by := range []string{ref, name, id} {
		im, err := c.Image(within(t), by)
		if err != nil {
			t.Fatal(err)
		}
		if im.ID != id || !slices.Contains(im.Names, name) || !slices.Contains(im.RepoDigests, ref) || im.Size == 0 {
			t.Errorf("by %s: %+v", by, im)
		}
	}
}

func TestPullOfWhatIsNotThere(t *testing.T) {
	t.Parallel()
	c := dial(t)
	_, host := newRegistry(t)
	_, err := c.Pull(within(t), host+"/missing:v1", libpod.PullOptions{Insecure: true})
	wantClass(t, err, libpod.NoImage)
	_, err = c.Pull(within(t), host+"/locked:v1", libpod.PullOptions{Insecure: true})
	wantClass(t, err, libpod.Denied)
}

func TestCanceledPullIsGivenUpByTheService(t *testing.T) {
	t.Parallel()
	c := dial(t)
	r, host := newRegistry(t)
	ctx, cancel := context.WithCancel(within(t))
	done := make(chan error, 1)
	go func() {
		_, err := c.Pull(ctx, host+"/stuck:v1", libpod.PullOptions{Insecure: true})
		done <- err
	}()
	<-r.stuck
	cancel()
	wantClass(t, <-done, libpod.Canceled)
	select {
	case <-r.left:
	case <-within(t).Done():
		t.Error("the service continues pulling")
	}
}
