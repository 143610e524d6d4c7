package libpod_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// What the tests with a real Podman add; see world_test.go.
var (
	insideContainer = func() bool { return false }
	containerMain   func(args []string) int
	prepare         = func() (func() error, error) { return func() error { return nil }, nil }
)

func TestMain(m *testing.M) {
	if insideContainer() {
		os.Exit(containerMain(os.Args[1:]))
	}
	// The test binary also plays "podman system service"; see fakePodman.
	if len(os.Args) > 2 && os.Args[1] == "system" && os.Args[2] == "service" {
		os.Exit(fakeService(os.Args[3:]))
	}
	flag.Parse()
	cleanUp, err := prepare()
	if err != nil {
		fmt.Fprintln(os.Stderr, "prepare:", err)
		os.Exit(1)
	}
	code := m.Run()
	if err := cleanUp(); err != nil {
		fmt.Fprintln(os.Stderr, "after all tests:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// instance is what the fake service says about itself.
type instance struct {
	PID     int
	Session int
	Args    []string
	Env     []string
}

// fakeService plays a Podman service that knows nothing but how to answer a ping
// and to say who it is: each start adds a line to instances beside the socket. A
// file "broken" there makes it fail as Podman does when it cannot start; it removes a file
// "short" and dies at its first request. With a file "readonly" it refuses inspections as
// Podman does when its storage is read-only, and never answers after that.
func fakeService(args []string) int {
	path := strings.TrimPrefix(args[len(args)-1], "unix://")
	dir := filepath.Dir(path)
	if _, err := os.Stat(filepath.Join(dir, "broken")); err == nil {
		fmt.Fprintln(os.Stderr, "starting")
		fmt.Fprintln(os.Stderr, "Error: cannot set up namespace")
		return 125
	}
	session, err := getsid()
	if err != nil {
		return 1
	}
	line, err := json.Marshal(instance{PID: os.Getpid(), Session: session, Args: args, Env: os.Environ()})
	if err != nil {
		return 1
	}
	f, err := os.OpenFile(filepath.Join(dir, "instances"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return 1
	}
	if _, err := f.Write(append(line, '\n')); err != nil || f.Close() != nil {
		return 1
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		return 125
	}
	if err := http.Serve(l, replies{dir, new(atomic.Bool)}); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return 1
	}
	return 0
}

// replies answers as a Podman that has nothing.
type replies struct {
	dir   string
	hangs *atomic.Bool
}

func (s replies) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if os.Remove(filepath.Join(s.dir, "short")) == nil {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	w.Header().Set("Libpod-API-Version", "5.4.2")
	if strings.HasSuffix(r.URL.Path, "/_ping") {
		fmt.Fprint(w, "OK")
		return
	}
	if os.Remove(filepath.Join(s.dir, "readonly")) == nil {
		s.hangs.Store(true)
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprint(w, `{"cause":"open /x/vfs-containers/containers.lock: read-only file system","message":"open /x/vfs-containers/containers.lock: read-only file system","response":500}`)
		return
	}
	if s.hangs != nil && s.hangs.Load() {
		<-r.Context().Done()
		return
	}
	w.WriteHeader(http.StatusNotFound)
	fmt.Fprint(w, `{"cause":"no such container","message":"no container with name or ID \"x\" found: no such container","response":404}`)
}
