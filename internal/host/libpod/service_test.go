package libpod_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/pkg/transient"
)

func getsid() (int, error) {
	id, _, errno := syscall.Syscall(syscall.SYS_GETSID, 0, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(id), nil
}

// fakePodman is a runtime directory and the options to use it with a fake Podman.
// What was started there is killed at the test's end.
func fakePodman(t *testing.T) (dir string, o libpod.Options) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// Not t.TempDir: its name may be too long for a socket.
	runtime, err := os.MkdirTemp("", "pt")
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(runtime, "podtask")
	t.Cleanup(func() {
		for _, i := range instances(t, dir) {
			_ = syscall.Kill(i.PID, syscall.SIGKILL)
		}
		_ = os.RemoveAll(runtime)
	})
	return dir, libpod.Options{RuntimeDir: runtime, Podman: self, IdleTimeout: 30 * time.Second}
}

// instances lists the fake services ever started in dir.
func instances(t *testing.T, dir string) []instance {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "instances"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	var all []instance
	for line := range bytes.Lines(data) {
		var i instance
		if err := json.Unmarshal(line, &i); err != nil {
			t.Fatal(err)
		}
		all = append(all, i)
	}
	return all
}

func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func mustDial(t *testing.T, o libpod.Options) *libpod.Client {
	t.Helper()
	c, err := libpod.Dial(soon(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestDialStartsServiceDetached(t *testing.T) {
	for _, name := range []string{"NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_PID", "CONTAINER_HOST", "CONTAINER_CONNECTION", "PODTASK_KEPT"} {
		t.Setenv(name, "1")
	}
	dir, o := fakePodman(t)
	c := mustDial(t, o)
	if v := c.Version().String(); v != "5.4.2" {
		t.Errorf("version %s", v)
	}
	got := instances(t, dir)
	if len(got) != 1 {
		t.Fatalf("%d services", len(got))
	}
	if i := got[0]; i.Session != i.PID {
		t.Errorf("process %d is in session %d: the terminal's signals reach it", i.PID, i.Session)
	}
	if want := []string{"--time", "30", "unix://" + filepath.Join(dir, "podman.sock")}; !slices.Equal(got[0].Args, want) {
		t.Errorf("args %q, want %q", got[0].Args, want)
	}
	kept := false
	for _, kv := range got[0].Env {
		name, _, _ := strings.Cut(kv, "=")
		kept = kept || name == "PODTASK_KEPT"
		if slices.Contains([]string{"NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_PID", "CONTAINER_HOST", "CONTAINER_CONNECTION"}, name) {
			t.Errorf("the service inherited %s", name)
		}
	}
	if !kept {
		t.Error("the service lost the rest of the environment")
	}
}

func TestDialsAtOnceShareOneService(t *testing.T) {
	t.Parallel()
	dir, o := fakePodman(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			c, err := libpod.Dial(soon(t), o)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			if s, err := c.InspectContainer(soon(t), "x"); err != nil || s.Status != libpod.Absent {
				t.Errorf("%+v, %v", s, err)
			}
		})
	}
	wg.Wait()
	if n := len(instances(t, dir)); n != 1 {
		t.Errorf("%d services", n)
	}
}

// A podman that containers.conf makes a client of another host has no service; what to do is said.
func TestAPodmanThatIsAClientIsTold(t *testing.T) {
	t.Parallel()
	_, o := fakePodman(t)
	o.Podman = filepath.Join(t.TempDir(), "podman")
	if err := os.WriteFile(o.Podman, []byte("#!/bin/sh\necho 'Error: accepts at most 1 arg(s), received 3' >&2\nexit 125\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := libpod.Dial(soon(t), o); err == nil || !strings.Contains(err.Error(), "remote = true under [engine] in containers.conf") {
		t.Errorf("%v", err)
	}
}

// A service whose storage was read-only may hang. podtask's own is ended, so that the next
// call finds another one.
func TestServiceWithReadOnlyStorageIsEnded(t *testing.T) {
	t.Parallel()
	dir, o := fakePodman(t)
	c := mustDial(t, o)
	if err := os.WriteFile(filepath.Join(dir, "readonly"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.InspectContainer(soon(t), "x"); !errors.Is(err, libpod.ReadOnly) || !strings.Contains(err.Error(), "read-only file system") {
		t.Errorf("with a read-only storage: %v", err)
	}
	for range 3 { // an idle connection to the service that was ended may break first
		s, err := c.InspectContainer(soon(t), "x")
		if err == nil && s.Status == libpod.Absent {
			break
		}
		if !errors.Is(err, libpod.Temporary) {
			t.Fatalf("the next call: %+v, %v", s, err)
		}
	}
	if n := len(instances(t, dir)); n != 2 {
		t.Errorf("%d services were started", n)
	}
}

// A service killed by force leaves its socket file, over which the next one
// would stumble.
func TestCallAfterServiceDiedStartsAnother(t *testing.T) {
	t.Parallel()
	dir, o := fakePodman(t)
	c := mustDial(t, o)
	if err := syscall.Kill(instances(t, dir)[0].PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitForRefusal(t, filepath.Join(dir, "podman.sock"))
	if _, err := os.Stat(filepath.Join(dir, "podman.sock")); err != nil {
		t.Fatalf("the test needs a stale socket: %v", err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			// A request that was on the dead connection may be lost, once.
			_, err := c.InspectContainer(soon(t), "x")
			var e *libpod.Error
			if errors.As(err, &e) && transient.Is(e) {
				_, err = c.InspectContainer(soon(t), "x")
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := len(instances(t, dir)); n != 2 {
		t.Errorf("%d services were started in all, want 2", n)
	}
}

func TestServiceThatDiesAtTheFirstRequestIsReplaced(t *testing.T) {
	t.Parallel()
	dir, o := fakePodman(t)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "short"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	mustDial(t, o)
	if n := len(instances(t, dir)); n != 2 {
		t.Errorf("%d services were started in all, want 2", n)
	}
}

func waitForRefusal(t *testing.T, socket string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			return
		}
		_ = conn.Close()
		select {
		case <-tick.C:
		case <-soon(t).Done():
			t.Fatal("the service lives on")
		}
	}
}

func TestDialPrefersUsersSocket(t *testing.T) {
	t.Parallel()
	dir, o := fakePodman(t)
	users := filepath.Join(o.RuntimeDir, "podman", "podman.sock")
	serve(t, users, replies{})
	c := mustDial(t, o)
	if _, err := c.InspectContainer(soon(t), "x"); err != nil {
		t.Error(err)
	}
	if n := len(instances(t, dir)); n != 0 {
		t.Errorf("%d services were started", n)
	}
}

func TestDialFailures(t *testing.T) {
	t.Parallel()
	tests := []struct {
		rule  string
		setup func(t *testing.T, dir string, o *libpod.Options)
		class libpod.Class
		says  string
	}{
		{"another scheme is refused", func(_ *testing.T, _ string, o *libpod.Options) { o.URI = "ssh://host/sock" }, libpod.InvalidSpec, "CONTAINER_HOST"},
		{"with an address given nothing is started", func(_ *testing.T, dir string, o *libpod.Options) { o.URI = "unix://" + dir + "/none.sock" }, libpod.Unavailable, "unset CONTAINER_HOST"},
		{"a missing program is named", func(_ *testing.T, dir string, o *libpod.Options) { o.Podman = dir + "/no-podman" }, libpod.Unavailable, "install Podman"},
		{"a service that ends at once is quoted", func(t *testing.T, dir string, _ *libpod.Options) {
			if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(dir+"/broken", nil, 0o600)); err != nil {
				t.Fatal(err)
			}
		}, libpod.Unavailable, "cannot set up namespace"},
		{"a path too long for a socket is explained", func(_ *testing.T, _ string, o *libpod.Options) { o.RuntimeDir += strings.Repeat("/long", 30) }, libpod.Unavailable, "shorter"},
	}
	for _, c := range tests {
		t.Run(c.rule, func(t *testing.T) {
			t.Parallel()
			dir, o := fakePodman(t)
			c.setup(t, dir, &o)
			_, err := libpod.Dial(soon(t), o)
			if !errors.Is(err, c.class) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want class %v saying %q", err, c.class, c.says)
			}
		})
	}
}

// A held lock must not hold a canceled Dial.
func TestDialWaitingForLockCanBeCanceled(t *testing.T) {
	t.Parallel()
	dir, o := fakePodman(t)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(dir, "podman.lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(soon(t), 50*time.Millisecond)
	defer cancel()
	if _, err := libpod.Dial(ctx, o); !errors.Is(err, libpod.Timeout) {
		t.Errorf("got %v", err)
	}
}

// A service that accepts and then says nothing must not hold Dial for ever.
func TestDialOfSilentServiceEndsWithContext(t *testing.T) {
	t.Parallel()
	_, o := fakePodman(t)
	serve(t, filepath.Join(o.RuntimeDir, "podman", "podman.sock"), http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
	}))
	ctx, cancel := context.WithTimeout(soon(t), 50*time.Millisecond)
	defer cancel()
	if _, err := libpod.Dial(ctx, o); !errors.Is(err, libpod.Timeout) {
		t.Errorf("got %v", err)
	}
}

// systemd accepts connections to the user's socket for a service that it cannot start, because a
// unit that is ordered after it has yet to stop.
func TestUsersSocketWithoutServiceIsReplaced(t *testing.T) {
	t.Parallel()
	dir, o := fakePodman(t)
	users := filepath.Join(o.RuntimeDir, "podman", "podman.sock")
	listen(t, users)
	o.URI = "unix://" + users // names the same socket
	c := mustDial(t, o)
	if _, err := c.InspectContainer(soon(t), "x"); err != nil {
		t.Error(err)
	}
	if n := len(instances(t, dir)); n != 1 {
		t.Errorf("%d services were started, want 1", n)
	}
}

// While the user's manager shuts down, systemd closes the connections to the socket of a service
// that it does not start any more.
func TestUsersSocketThatClosesConnectionsIsReplaced(t *testing.T) {
	t.Parallel()
	dir, o := fakePodman(t)
	users := filepath.Join(o.RuntimeDir, "podman", "podman.sock")
	down := serveUntil(t, users, replies{})
	c := mustDial(t, o)
	if _, err := c.InspectContainer(soon(t), "x"); err != nil {
		t.Error(err)
	}
	if n := len(instances(t, dir)); n != 0 {
		t.Errorf("%d services were started beside the user's", n)
	}
	down()
	l := listen(t, users)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			_, err := c.InspectContainer(soon(t), "x")
			if transient.Is(err) { // a request that was on the dead connection may be lost, once
				_, err = c.InspectContainer(soon(t), "x")
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := len(instances(t, dir)); n != 1 {
		t.Errorf("%d services were started, want 1", n)
	}
}

// listen listens on a socket until the test ends, and accepts nothing.
func listen(t *testing.T, path string) net.Listener {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// A service that a signal has stopped still accepts connections.
func TestStoppedServiceIsReplaced(t *testing.T) {
	t.Parallel()
	dir, o := fakePodman(t)
	c := mustDial(t, o)
	stop := func(pid int) {
		t.Helper()
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		for soon := soon(t); soon.Err() == nil; {
			if data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); bytes.Contains(data, []byte(") T ")) {
				return
			}
		}
		t.Fatal("it does not stop")
	}
	stop(instances(t, dir)[0].PID)
	if _, err := c.InspectContainer(soon(t), "x"); !errors.Is(err, libpod.Unavailable) || !strings.Contains(err.Error(), "was ended") {
		t.Errorf("a call to the stopped service: %v", err)
	}
	again := soon(t)
	for {
		_, err := c.InspectContainer(again, "x")
		if !transient.Is(err) { // until the process is gone, the connection breaks
			break
		}
	}
	all := instances(t, dir)
	if len(all) != 2 {
		t.Fatalf("%d services were started", len(all))
	}
	stop(all[1].PID)
	mustDial(t, o)
	if n := len(instances(t, dir)); n != 3 {
		t.Errorf("after a new connection, %d services were started", n)
	}
}
