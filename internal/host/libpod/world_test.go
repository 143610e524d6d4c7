//go:build e2e

package libpod_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/containers/podman/v5/pkg/bindings"
	"github.com/containers/podman/v5/pkg/bindings/images"

	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/test/testbed"
)

// The tests of this file's build tag need a rootless Podman: on the socket
// PODTASK_TEST_SOCKET, or, with PODTASK_BED set to anything, the one of the user
// who runs them. The test binary is also the only program in the test image, so
// it must be static: CGO_ENABLED=0.

// program is the path of the test binary inside containers.
const program = "/prog"

// image is the reference of the test image.
var image = "localhost/podtask-libpod-test:" + strings.ToLower(rand.Text()[:10])

func init() {
	insideContainer = func() bool { return os.Args[0] == program }
	containerMain = play
	prepare = func() (func() error, error) {
		if !bed() {
			return func() error { return nil }, nil
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*testbed.Patience)
		defer cancel()
		remove, err := loadImage(ctx)
		return func() error {
			if os.Getenv("PODTASK_BED") == "" { // the user has tasks of his own
				return remove()
			}
			return errors.Join(remove(), checkLeftovers())
		}, err
	}
}

// checkLeftovers is testbed.CheckLeftovers for a package without testbed.Main.
func checkLeftovers() error {
	dir, err := os.MkdirTemp("", "podtask-test-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	defer testbed.KeepLists(dir)()
	return testbed.CheckLeftovers()
}

// bed reports whether there is a Podman to test against.
func bed() bool { return os.Getenv("PODTASK_TEST_SOCKET") != "" || os.Getenv("PODTASK_BED") != "" }

// play is what a test container runs.
func play(args []string) int {
	switch args[0] {
	case "exit":
		code, _ := strconv.Atoi(args[1])
		return code
	case "say": // stream text stream text ...
		for i := 1; i+1 < len(args); i += 2 {
			w := os.Stdout
			if args[i] == "stderr" {
				w = os.Stderr
			}
			_, _ = io.WriteString(w, args[i+1])
		}
		return 0
	case "long": // one line of n bytes
		n, _ := strconv.Atoi(args[1])
		_, _ = io.WriteString(os.Stdout, strings.Repeat("x", n)+"\n")
		return 0
	case "fail": // text, then exit 1
		_, _ = io.WriteString(os.Stdout, args[1])
		return 3
	case "env":
		for _, kv := range os.Environ() {
			fmt.Println(kv)
		}
		return 0
	case "wait": // until told to stop
		c := make(chan os.Signal, 1)
		signal.Notify(c, syscall.SIGTERM)
		fmt.Println("ready")
		<-c
		return 0
	case "deaf": // until killed; it says which signals it got
		c := make(chan os.Signal, 1)
		signal.Notify(c, syscall.SIGTERM, syscall.SIGUSR1)
		fmt.Println("ready")
		for s := range c {
			fmt.Println(s)
		}
	case "stubborn": // until killed; text for the log may follow
		signal.Ignore(syscall.SIGTERM)
		fmt.Print("ready\n" + strings.Join(args[1:], " "))
		for {
			_ = syscall.Pause()
		}
	}
	return 99
}

// dial opens a Client that the test's end closes.
func dial(t *testing.T) *libpod.Client {
	t.Helper()
	if !bed() {
		t.Skip("no rootless Podman: set PODTASK_TEST_SOCKET or PODTASK_BED")
	}
	c, err := libpod.Dial(within(t), libpod.Options{URI: uri()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func uri() string {
	if s := os.Getenv("PODTASK_TEST_SOCKET"); s != "" {
		return "unix://" + strings.TrimPrefix(s, "unix://")
	}
	return ""
}

// within returns a context that ends with patience or the test.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testbed.Patience)
	t.Cleanup(cancel)
	return ctx
}

// afterwards returns a context for cleaning up.
func afterwards() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), testbed.Patience)
}

// raw returns a context for using the bindings directly, as a foreign client does.
func raw(ctx context.Context) (context.Context, error) {
	c, err := libpod.Dial(ctx, libpod.Options{URI: uri()})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	h, err := c.Host(ctx)
	if err != nil {
		return nil, err
	}
	return bindings.NewConnection(ctx, "unix://"+h.Socket)
}

// loadImage makes the test image: the test binary, an anonymous volume, and a
// health check of the image's own that always fails.
func loadImage(ctx context.Context) (remove func() error, err error) {
	conn, err := raw(ctx)
	if err != nil {
		return nil, err
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return nil, err
	}
	layer := tarOf(member{strings.TrimPrefix(program, "/"), 0o755, self}, member{"tmp/", 0o777, nil}, member{"etc/passwd", 0o644, []byte("root:x:0:0::/:\n")}, member{"notexec", 0o644, []byte("data")})
	sum := sha256.Sum256(layer)
	config, err := json.Marshal(map[string]any{
		"architecture": "amd64", "os": "linux",
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(sum[:])}},
		"config": map[string]any{
			"Entrypoint": []string{program}, "Cmd": []string{"exit", "0"}, "Env": []string{"FROM_IMAGE=yes"},
			"Volumes":     map[string]any{"/data": map[string]any{}},
			"Healthcheck": map[string]any{"Test": []string{"CMD", program, "exit", "1"}, "Interval": int64(time.Second)},
		},
	})
	if err != nil {
		return nil, err
	}
	index, err := json.Marshal([]map[string]any{{"Config": "config.json", "RepoTags": []string{image}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return nil, err
	}
	archive := tarOf(member{"manifest.json", 0o644, index}, member{"config.json", 0o644, config}, member{"layer.tar", 0o644, layer})
	if _, err := images.Load(conn, bytes.NewReader(archive)); err != nil {
		return nil, err
	}
	return func() error {
		ctx, cancel := afterwards()
		defer cancel()
		conn, err := raw(ctx)
		if err == nil {
			_, errs := images.Remove(conn, []string{image}, nil)
			err = errors.Join(errs...)
		}
		if err != nil {
			return fmt.Errorf("test image not removed: %w", err)
		}
		return nil
	}, nil
}

type member struct {
	name string
	mode int64
	data []byte
}

func tarOf(members ...member) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, m := range members {
		h := &tar.Header{Name: m.name, Mode: m.mode, Size: int64(len(m.data))}
		if strings.HasSuffix(m.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			panic(err)
		}
		if _, err := w.Write(m.data); err != nil {
			panic(err)
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}
