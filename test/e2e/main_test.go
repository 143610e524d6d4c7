//go:build e2e

// Package e2e holds the tests that need a real Podman: they run inside a test
// bed, as its user, and drive the podtask program as a user would.
//
// The bed gives the environment: PODTASK_BIN is the program's path,
// PODTASK_TESTBOX that of the program in the tests' images, PODTASK_AWSBOX that of
// one made of software for ECS, PODTASK_BED the bed's name ("plain" or "systemd"),
// PODTASK_EXAMPLES the path of a copy of examples/.
//
// All tests share one registry, because the Podman service that the first of
// them starts serves all and reads registries.conf once. Each has repositories,
// a family and a state directory of its own, and proves at its end that nothing
// is left of it.
package e2e

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/podtask/podtask/internal/registrytest"
	"github.com/podtask/podtask/test/left"
)

// password is looked for in everything podtask prints and keeps.
const password = "correct-horse-battery"

// identityToken is taken by the registry instead of the password; it holds that, so
// that it is looked for too.
const identityToken = "identity-" + password

// bed is what the whole run shares.
var bed struct {
	podtask string // the program
	testbox []byte // the program in the images
	name    string
	runtime string // XDG_RUNTIME_DIR
	reg     *registrytest.Registry
	mirror  *registrytest.Registry // of reg's namespace mirrored/
	image   v1.Image               // testbox and nothing else
	auth    string                 // path of an auth.json that logs in to reg
}

func TestMain(m *testing.M) {
	if socket := os.Getenv(strangerEnv); socket != "" {
		os.Exit(callAsStranger(socket))
	}
	flag.Parse()
	// Tests wait for stop time-outs and probes more than they compute.
	if flag.Lookup("test.parallel").Value.String() == flag.Lookup("test.parallel").DefValue {
		_ = flag.Set("test.parallel", "6")
	}
	catchInterrupts()
	os.Exit(runInBed(m))
}

// catchInterrupts ends the tests on Ctrl-C, as without it. It is there for the
// programs they start: a script's background job, and so a test run in it, has
// SIGINT ignored, which a program inherits and keeps; what is caught here is back
// at its default there.
func catchInterrupts() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGHUP)
	go func() {
		<-signals
		os.Exit(130)
	}()
}

func runInBed(m *testing.M) (code int) {
	dir, err := os.MkdirTemp("", "podtask-e2e-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = openBed(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "test bed:", err)
		return 1
	}
	defer bed.reg.Close()
	defer bed.mirror.Close()
	conf, err := trustRegistry()
	if err != nil {
		fmt.Fprintln(os.Stderr, "test bed:", err)
		return 1
	}
	defer os.Remove(conf)
	policy, err := writePolicy()
	if err != nil {
		fmt.Fprintln(os.Stderr, "test bed:", err)
		return 1
	}
	defer os.Remove(policy)
	endService() // one of an earlier run has read another registries.conf
	defer endService()
	code = m.Run()
	removeImages()
	if err := left.Check(); err != nil {
		fmt.Fprintln(os.Stderr, "after all tests:", err)
		code = max(code, 1)
	}
	return code
}

func openBed(dir string) (err error) {
	bed.podtask, bed.name, bed.runtime = os.Getenv("PODTASK_BIN"), os.Getenv("PODTASK_BED"), os.Getenv("XDG_RUNTIME_DIR")
	if bed.podtask == "" || bed.name == "" || bed.runtime == "" {
		return errors.New("set PODTASK_BIN, PODTASK_BED and XDG_RUNTIME_DIR, as hack/e2e does")
	}
	if bed.testbox, err = os.ReadFile(os.Getenv("PODTASK_TESTBOX")); err != nil {
		return err
	}
	if bed.image, err = registrytest.ProgramImage("testbox", bed.testbox); err != nil {
		return err
	}
	bed.reg, err = registrytest.New(registrytest.Options{Auth: registrytest.Token, User: "tester", Password: password, IdentityToken: identityToken})
	if err != nil {
		return err
	}
	if bed.mirror, err = registrytest.New(registrytest.Options{}); err != nil {
		return err
	}
	bed.auth = filepath.Join(dir, "auth.json")
	return os.WriteFile(bed.auth, bed.reg.AuthJSON(), 0o600)
}

// trustRegistry tells podtask, Podman and its service, whoever starts it, that
// the registry has no TLS, where its namespace mirrored/ has a mirror, and that it stands
// in for a namespace of Docker Hub. The home directory is the bed's own.
func trustRegistry() (path string, err error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return "", err
	}
	path = filepath.Join(home, ".config", "containers", "registries.conf.d", "podtask-e2e.conf")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	conf := fmt.Appendf(bed.reg.RegistriesConf(), `[[registry]]
location = "%[1]s/%[3]s"
insecure = true
[[registry.mirror]]
location = "%[2]s/%[3]s"
insecure = true
[[registry]]
prefix = "docker.io/%[4]s"
location = "%[1]s/%[4]s"
insecure = true
`, bed.reg.Addr(), bed.mirror.Addr(), strings.TrimSuffix(mirrored, "/"), strings.TrimSuffix(short, "/"))
	return path, os.WriteFile(path, conf, 0o600)
}

// writePolicy writes a signature policy that accepts everything but the registry's
// namespaces rejected/ and unsigned/.
func writePolicy() (path string, err error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return "", err
	}
	path = filepath.Join(home, ".config", "containers", "policy.json")
	docker := obj{
		bed.reg.Addr() + "/rejected": []obj{{"type": "reject"}},
		bed.reg.Addr() + "/unsigned": []obj{{"type": "signedBy", "keyType": "GPGKeys", "keyData": "eA=="}},
	}
	policy, err := json.Marshal(obj{"default": []obj{{"type": "insecureAcceptAnything"}}, "transports": obj{"docker": docker}})
	if err != nil {
		return "", err
	}
	return path, os.WriteFile(path, policy, 0o600)
}

// serviceSocket is that of the Podman service podtask starts.
func serviceSocket() string { return filepath.Join(bed.runtime, "podtask", "podman.sock") }

// servicePID returns the process that listens on serviceSocket, 0 for none.
func servicePID() int {
	conn, err := net.Dial("unix", serviceSocket())
	if err != nil {
		return 0
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0
	}
	pid := 0
	err = raw.Control(func(fd uintptr) {
		if cred, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED); err == nil {
			pid = int(cred.Pid)
		}
	})
	if err != nil {
		return 0
	}
	return pid
}

func endService() {
	if pid := servicePID(); pid != 0 {
		_ = syscall.Kill(pid, syscall.SIGTERM)
	}
}

// removeImages removes the images that came from the registry of this run,
// whose port the next run does not have.
func removeImages() {
	out, err := exec.Command("podman", "images", "--quiet", "--no-trunc", "--filter", "reference="+bed.reg.Addr()+"/*/*", "--filter", "reference="+bed.reg.Addr()+"/*/*/*").Output()
	if ids := strings.Fields(string(out)); err == nil && len(ids) > 0 {
		_ = exec.Command("podman", append([]string{"rmi", "--force"}, ids...)...).Run()
	}
}
