// Package testbed is for tests on real Podman, which run in a test bed (hack/bed-plain,
// bed-systemd, bed-vm): it sets up what the tests of a package share, waits, and checks
// that nothing is left behind. It imports nothing of podtask and is never imported by the
// product.
//
// hack/e2e gives the environment: PODTASK_BED is the bed's name, PODTASK_BIN the path of
// podtask, PODTASK_TESTBOX that of the program in the tests' images.
package testbed

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Name is the bed's name, plain, systemd or vm; empty outside of a bed.
func Name() string { return os.Getenv("PODTASK_BED") }

// Testbox returns the program in the tests' images.
func Testbox() ([]byte, error) { return os.ReadFile(os.Getenv("PODTASK_TESTBOX")) }

// Main is for TestMain: it sets a bed up, runs the tests of the package and returns the
// exit code. Outside of a bed it only runs them. What setUp returns is called at the
// end, even if setUp fails as well; dir is a directory that lasts until then.
func Main(m *testing.M, setUp func(dir string) (tearDown func() error, err error)) (code int) {
	flag.Parse()
	if Name() == "" {
		return m.Run()
	}
	// Tests wait for stop timeouts and probes, but more than four in each of three beds only wait for two processors.
	if p := flag.Lookup("test.parallel"); p.Value.String() == p.DefValue && Name() != "vm" {
		_ = p.Value.Set("4")
	}
	dir, err := os.MkdirTemp("", "podtask-test-")
	if err == nil {
		defer os.RemoveAll(dir)
		defer KeepLists(dir)()
		var tearDown func() error
		if tearDown, err = setUp(dir); err == nil {
			code = m.Run()
		}
		if tearDown != nil {
			err = errors.Join(err, tearDown())
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "test bed:", err)
		code = max(code, 1)
	}
	return code
}

// Configure writes a file below ~/.config/containers, which the bed's user has for
// itself. It lasts until remove.
func Configure(name string, content []byte) (remove func() error, err error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(home, ".config", "containers", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	return func() error { return os.Remove(path) }, os.WriteFile(path, content, 0o600)
}

// RemoveImages removes the images whose references match one of Podman's patterns.
func RemoveImages(patterns ...string) error {
	args := []string{"images", "--quiet", "--no-trunc"}
	for _, p := range patterns {
		args = append(args, "--filter", "reference="+p)
	}
	ids, err := output("podman", args...)
	if err != nil || len(ids) == 0 {
		return err
	}
	slices.Sort(ids)
	_, err = output("podman", append([]string{"rmi", "--force"}, slices.Compact(ids)...)...)
	return err
}

// PeerPID is the process that listens on a unix socket, 0 for none.
func PeerPID(socket string) (pid int) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return 0
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		if cred, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED); err == nil {
			pid = int(cred.Pid)
		}
	})
	return pid
}

// Podman is a real Podman service on a socket of its own.
type Podman struct {
	socket string
	env    []string
	mu     sync.Mutex
	cmd    *exec.Cmd
}

// NewPodman returns a service that has not been started, with additions to the environment.
func NewPodman(socket string, env ...string) *Podman { return &Podman{socket: socket, env: env} }

// Socket is the path of the service's socket.
func (p *Podman) Socket() string { return p.socket }

// URI is the address of the service.
func (p *Podman) URI() string { return "unix://" + p.socket }

// Start starts the service and returns when it listens.
func (p *Podman) Start(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = os.Remove(p.socket) // of a killed one
	p.cmd = exec.Command("podman", "--log-level", "error", "system", "service", "--time", "0", p.URI())
	p.cmd.Env = append(os.Environ(), p.env...)
	// Its output is dropped: it would hold a pipe of this process open if that died.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	tick := time.NewTicker(minInterval)
	defer tick.Stop()
	for p.PID() == 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("podman system service does not listen: %w", ctx.Err())
		}
	}
	return nil
}

// PID is the process that listens, which is not the one started: rootless Podman starts
// itself again in a user namespace. 0 means none.
func (p *Podman) PID() int { return PeerPID(p.socket) }

// Kill is kill -9; it returns when the service has ended.
func (p *Podman) Kill() {
	pid := p.PID()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil || pid == 0 {
		return
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
	_ = p.cmd.Wait() // the process started fails as its child was killed
	p.cmd = nil
}
