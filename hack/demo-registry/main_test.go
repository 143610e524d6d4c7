package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/podtask/podtask/pkg/images"
)

// The test program becomes demo-registry when it is asked to.
func TestMain(m *testing.M) {
	if os.Getenv("RUN_AS_DEMO_REGISTRY") != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// started is a registry with one image, its stdin and its address.
func started(t *testing.T, dir string) (*exec.Cmd, io.Closer, string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "app")
	if err := os.WriteFile(program, []byte("program"), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, "-dir", dir, "-image", "team/app:1="+program)
	cmd.Env = append(os.Environ(), "RUN_AS_DEMO_REGISTRY=1")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	addr, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return cmd, stdin, strings.TrimSpace(addr)
}

func TestServesTheImageToThoseWithTheLogin(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "registry")
	cmd, stdin, addr := started(t, dir)
	written, err := os.ReadFile(filepath.Join(dir, "addr"))
	if err != nil || strings.TrimSpace(string(written)) != addr {
		t.Errorf("file addr says %q, %v; printed was %q", written, err, addr)
	}
	options := images.Options{
		AuthFile:          filepath.Join(dir, "auth.json"),
		RegistriesConf:    filepath.Join(dir, "registries.conf"),
		RegistriesConfDir: t.TempDir(),
	}
	if got, err := images.New(options).Resolve(t.Context(), addr+"/team/app:1", images.Login{}); err != nil || got.Digest == "" {
		t.Errorf("with the login: %+v, %v", got, err)
	}
	options.AuthFile = filepath.Join(t.TempDir(), "none.json")
	if _, err := images.New(options).Resolve(t.Context(), addr+"/team/app:1", images.Login{}); err == nil {
		t.Error("no password was asked for")
	}
	if err := stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("after stdin closed: %v", err)
	}
	log, err := os.ReadFile(filepath.Join(dir, "requests.log"))
	if err != nil || !strings.Contains(string(log), "HEAD /v2/team/app/manifests/1 200 ") {
		t.Errorf("requests.log, %v:\n%s", err, log)
	}
}

func TestEndsOnSIGTERM(t *testing.T) {
	t.Parallel()
	cmd, _, _ := started(t, t.TempDir())
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestRefusesBadUsage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		nil,
		{"-dir", t.TempDir()},
		{"-image", "a=b"},
		{"-dir", t.TempDir(), "-image", "a"},
		{"-dir", t.TempDir(), "-image", "a=" + filepath.Join(t.TempDir(), "missing")},
	} {
		if err := run(args); err == nil {
			t.Errorf("%q is accepted", args)
		}
	}
}
