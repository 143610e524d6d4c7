//go:build e2e

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/podtask/podtask/internal/testing/registrytest"
	"github.com/podtask/podtask/test/testbed"
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
	if endpoint := os.Getenv(awsStubEnv); endpoint != "" {
		os.Exit(awsStub(endpoint, os.Args[1:]))
	}
	if address := os.Getenv(awsAccountEnv); address != "" {
		os.Exit(awsToAccount(address, os.Args[1:]))
	}
	catchInterrupts()
	os.Exit(testbed.Main(m, setUp))
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

// setUp opens the registries and tells Podman about them.
func setUp(dir string) (tearDown func() error, err error) {
	if err := openBed(dir); err != nil {
		return nil, err
	}
	undo := []func() error{removeImages, testbed.CheckLeftovers}
	tearDown = func() (err error) {
		for _, fn := range undo {
			err = errors.Join(err, fn())
		}
		endSharedSSHD()
		endService()
		bed.reg.Close()
		bed.mirror.Close()
		return err
	}
	for name, content := range map[string][]byte{"registries.conf.d/podtask-e2e.conf": registriesConf(), "policy.json": policy()} {
		remove, err := testbed.Configure(name, content)
		if err != nil {
			return tearDown, err
		}
		undo = append(undo, remove)
	}
	endService() // one of an earlier run has read another registries.conf
	return tearDown, nil
}

func openBed(dir string) (err error) {
	bed.podtask, bed.name, bed.runtime = os.Getenv("PODTASK_BIN"), testbed.Name(), os.Getenv("XDG_RUNTIME_DIR")
	if bed.podtask == "" || bed.name == "" || bed.runtime == "" {
		return errors.New("set PODTASK_BIN, PODTASK_BED and XDG_RUNTIME_DIR, as hack/e2e does")
	}
	if bed.testbox, err = testbed.Testbox(); err != nil {
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

// registriesConf says that the registry has no TLS, where its namespace mirrored/ has a
// mirror, and that it stands in for a namespace of Docker Hub.
func registriesConf() []byte {
	return fmt.Appendf(bed.reg.RegistriesConf(), `[[registry]]
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
}

// policy is a signature policy that accepts everything but the registry's namespaces
// rejected/ and unsigned/.
func policy() []byte {
	docker := obj{
		bed.reg.Addr() + "/rejected": []obj{{"type": "reject"}},
		bed.reg.Addr() + "/unsigned": []obj{{"type": "signedBy", "keyType": "GPGKeys", "keyData": "eA=="}},
	}
	text, err := json.Marshal(obj{"default": []obj{{"type": "insecureAcceptAnything"}}, "transports": obj{"docker": docker}})
	if err != nil {
		panic(err) // it has only strings
	}
	return text
}

// serviceSocket is that of the Podman service podtask starts.
func serviceSocket() string { return filepath.Join(bed.runtime, "podtask", "podman.sock") }

// servicePID returns the process that listens on serviceSocket, 0 for none.
func servicePID() int { return testbed.PeerPID(serviceSocket()) }

func endService() {
	if pid := servicePID(); pid != 0 {
		_ = syscall.Kill(pid, syscall.SIGTERM)
	}
}

// removeImages removes the images that came from the registry of this run,
// whose port the next run does not have.
func removeImages() error {
	return testbed.RemoveImages(bed.reg.Addr()+"/*/*", bed.reg.Addr()+"/*/*/*")
}
