//go:build e2e

package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/podtask/podtask/internal/registrytest"
	"github.com/podtask/podtask/test/testbed"
)

// smallStore starts a Podman service of the test's own, whose storage lies on a file
// system of that many MiB, and returns the address of its socket.
func smallStore(t *testing.T, mib string) (uri string) { return smallDisk(t, mib, true).uri }

// disk is a small file system, and the Podman service that has its storage there.
type disk struct {
	t   *testing.T
	uri string
	dir string // where it is mounted, for the service
	pid int    // of the service
}

// smallDisk is smallStore. Unless all is true, what Podman writes about running
// containers is elsewhere, as on most hosts.
func smallDisk(t *testing.T, mib string, all bool) disk {
	t.Helper()
	dir, err := os.MkdirTemp("", "disk") // Podman wants it short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "podman.sock")
	running := filepath.Join(dir, "small")
	if !all {
		running = filepath.Join(dir, "r")
		if err := os.Mkdir(running, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("podman", "unshare", "unshare", "--mount", "sh", "-ec", `
		mount -t tmpfs -o size="$2"m,mode=0700 tmpfs "$1/small"
		mkdir "$1/small/tmp"
		TMPDIR="$1/small/tmp" exec podman --root "$1/small/root" --runroot "$3/run" --tmpdir "$3/libpod" \
			--storage-driver vfs system service --time 0 "unix://$1/podman.sock"`, "sh", dir, mib, running)
	if err := os.Mkdir(filepath.Join(dir, "small"), 0o700); err != nil {
		t.Fatal(err)
	}
	var words syncBuffer
	cmd.Stdout, cmd.Stderr = &words, &words
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the service said: %s", &words)
		}
	})
	eventually(t, "a Podman service on a small disk", func() bool {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			return false
		}
		conn.Close()
		return true
	})
	return disk{t, "unix://" + socket, filepath.Join(dir, "small"), testbed.PeerPID(socket)}
}

// in runs a command where the disk is mounted.
func (d disk) in(command ...string) error {
	d.t.Helper()
	args := append([]string{"unshare", "nsenter", "--mount", "--target", strconv.Itoa(d.pid)}, command...)
	out, err := exec.Command("podman", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%v: %w: %s", command, err, out)
	}
	return nil
}

// fill takes all space.
func (d disk) fill() {
	_ = d.in("dd", "if=/dev/zero", "of="+d.dir+"/fill", "bs=64k") // fails in the end
	_ = d.in("dd", "if=/dev/zero", "of="+d.dir+"/fill2", "bs=1")
}

// must fails the test if err is an error.
func (d disk) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

// What Podman's storage lies on gets full while a task runs. The task can be stopped all
// the same, another one fails with the reason, and with space everything goes on.
func TestFullGraphRoot(t *testing.T) {
	t.Parallel()
	d := smallDisk(t, "64", false)
	b := newBox(t)
	b.env = append(b.env, "CONTAINER_HOST="+d.uri, "PODTASK_IMAGE_MIN_FREE=1")
	b.agent()
	id := b.detach("--wait=running", b.waiter())
	d.fill()
	if r := b.want(125, "run", b.hello(b.testbox())); !strings.Contains(r.err, "no space left on device") {
		t.Errorf("another task: %s", r.err)
	}
	stop := b.start("stop", id)
	eventually(t, "the end of the container, or the reason", func() bool {
		return b.inspect(id).Status == "STOPPED" || strings.Contains(b.podtask("why", id).out, "disk space")
	})
	d.must(d.in("rm", d.dir+"/fill", d.dir+"/fill2"))
	stop.want(0)
	if got := b.inspect(id).codes(); got != "app=5" {
		t.Errorf("it ended with %s", got)
	}
	b.want(0, "run", "--rm", b.hello(b.testbox()))
}

// bulky is testbox with a layer of that many MiB that cannot be compressed.
func (b *box) bulky(salt uint64, mib int) v1.Image {
	b.t.Helper()
	img, err := registrytest.Image(v1.Config{Entrypoint: []string{"/testbox"}},
		registrytest.File{Path: "/tmp/", Mode: 0o1777},
		registrytest.File{Path: "/testbox", Data: bed.testbox},
		registrytest.File{Path: "/data", Data: registrytest.Random(mib<<20, salt)})
	if err != nil {
		b.t.Fatal(err)
	}
	return img
}

// The disk gets full in the middle of a pull. Where podtask can make room it does, and
// tries once more; where it cannot the task says so.
func TestDiskThatGetsFullInMidPull(t *testing.T) {
	t.Parallel()
	host := smallStore(t, "72") // for one bulky image, its layer on the way, and a container
	b := newBox(t)
	// Before a pull there seems to be space enough.
	b.env = append(b.env, "CONTAINER_HOST="+host, "PODTASK_IMAGE_MIN_FREE=1")
	first, firstDigest := b.push("first:1", b.bulky(1, 20))
	second, secondDigest := b.push("second:1", b.bulky(2, 20))
	huge, _ := b.push("huge:1", b.bulky(3, 80))

	b.want(0, "run", "--rm", "--pull", "always", b.hello(first))
	b.age()
	r := b.pullAfterPod("second", 0, "run", "--rm", "--pull", "always", b.hello(second))
	if !strings.Contains(r.out, "hello") || !strings.Contains(r.err, "removed to make room") {
		t.Errorf("it printed %s\n%s", r.out, r.err)
	}
	list := b.want(0, "image", "ls", "--format", "json").out
	if strings.Contains(list, firstDigest) || !strings.Contains(list, secondDigest) {
		t.Errorf("of the two images there is left\n%s", list)
	}
	r = b.pullAfterPod("huge", 125, "run", "--name", b.family, "--pull", "always", b.hello(huge))
	for _, want := range []string{"no space left on device", "podtask image prune"} {
		if !strings.Contains(r.err, want) {
			t.Errorf("it does not say %q:\n%s", want, r.err)
		}
	}
	// What was used a moment ago is not sacrificed.
	if list := b.want(0, "image", "ls", "--format", "json").out; !strings.Contains(list, secondDigest) {
		t.Errorf("the image of the last task is gone:\n%s", list)
	}
}

// pullAfterPod runs a task whose image begins to come when its pod is there, which cannot
// be made either while the disk is full.
func (b *box) pullAfterPod(repository string, code int, args ...string) result {
	b.t.Helper()
	provisioned := func() (n int) {
		for _, e := range b.events() {
			if e.String() == "~infra RESOURCES_PROVISIONED" {
				n++
			}
		}
		return n
	}
	before, release := provisioned(), make(chan struct{})
	b.fault("GET", repository, "blobs/", 0, registrytest.Hang(release))
	p := b.start(args...)
	eventually(b.t, "the pod", func() bool { return provisioned() > before })
	close(release)
	return p.want(code)
}
