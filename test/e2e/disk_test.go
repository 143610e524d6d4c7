//go:build e2e

//e2e:bed plain

package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/podtask/podtask/internal/testing/registrytest"
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
	pid int    // of what starts the service again when it has ended
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
		while true; do
			rm -f "$1/podman.sock"
			TMPDIR="$1/small/tmp" podman --root "$1/small/root" --runroot "$3/run" --tmpdir "$3/libpod" \
				--storage-driver vfs system service --time 0 "unix://$1/podman.sock" || sleep 0.1
		done`, "sh", dir, mib, running)
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
	return disk{t, "unix://" + socket, filepath.Join(dir, "small"), parentOf(t, testbed.PeerPID(socket))}
}

// parentOf is the process that started another one.
func parentOf(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(status), "\nPPid:\t")
	text, _, _ := strings.Cut(after, "\n")
	parent, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return parent
}

// restart ends the service, if it runs, and waits for the next one.
func (d disk) restart() {
	d.t.Helper()
	socket := strings.TrimPrefix(d.uri, "unix://")
	old := testbed.PeerPID(socket)
	if old != 0 {
		_ = d.in("kill", "-KILL", strconv.Itoa(old))
	}
	eventually(d.t, "another Podman service", func() bool {
		pid := testbed.PeerPID(socket)
		return pid != 0 && pid != old
	})
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
// the same, another one fails with the reason, and with space everything continues.
func TestFullGraphRoot(t *testing.T) {
	t.Parallel()
	d := smallDisk(t, "64", false)
	b := newBox(t)
	b.env = append(b.env, "CONTAINER_HOST="+d.uri, "PODTASK_IMAGE_MIN_FREE=1")
	b.agent()
	id := b.detach("--wait=running", b.waiter())
	d.fill()
	if r := b.want(125, "run", b.hello(b.testbox())); !strings.Contains(r.err, "no space left on device") && !strings.Contains(r.err, " is full") {
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

// smallState puts a small file system of its own under the box's state directory, for the
// podtask processes that are started with inside, and lets them use a Podman service of the
// test's own. It returns a function that fills the file system, or empties it again.
func smallState(b *box) (inside func(*exec.Cmd), fill func(full bool)) {
	b.t.Helper()
	dir, err := os.MkdirTemp("", "state") // Podman wants it short
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { os.RemoveAll(dir) })
	service := testbed.NewPodman(filepath.Join(dir, "podman.sock"))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := service.Start(ctx); err != nil {
		b.t.Fatal(err)
	}
	env := b.env
	b.t.Cleanup(func() { service.Kill(); b.env = env })
	b.env = append(slices.Clone(env), "CONTAINER_HOST="+service.URI())
	if err := os.MkdirAll(b.stateHome(), 0o700); err != nil {
		b.t.Fatal(err)
	}
	holder := exec.Command("unshare", "--user", "--map-current-user", "--keep-caps", "--mount", "sh", "-ec",
		`mount -t tmpfs -o size=1m,mode=0700 tmpfs "$1"; echo mounted; exec sleep infinity`, "sh", b.stateHome())
	var out syncBuffer
	holder.Stdout, holder.Stderr = &out, &out
	if err := holder.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = holder.Process.Kill(); _ = holder.Wait() })
	eventually(b.t, "a small file system", func() bool { return strings.Contains(out.String(), "mounted") })
	inside = func(cmd *exec.Cmd) {
		enter := []string{"nsenter", "--target", strconv.Itoa(holder.Process.Pid), "--user", "--preserve-credentials", "--mount", "--"}
		cmd.Args = append(enter, append([]string{cmd.Path}, cmd.Args[1:]...)...)
		if cmd.Path, cmd.Err = exec.LookPath("nsenter"); cmd.Err != nil {
			b.t.Fatal(cmd.Err)
		}
	}
	return inside, func(full bool) {
		b.t.Helper()
		script := `dd if=/dev/zero of="$1/fill" bs=4k 2>/dev/null || test -s "$1/fill"`
		if !full {
			script = `rm "$1/fill"`
		}
		cmd := exec.Command("sh", "-c", script, "sh", b.stateHome())
		inside(cmd)
		if text, err := cmd.CombinedOutput(); err != nil {
			b.t.Fatalf("%v: %s", err, text)
		}
	}
}

// The disk of the state directory is full. A stop works at once, names the disk, and is
// recorded when there is space.
func TestStopWithAFullStateDirectory(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	inside, fill := smallState(b)
	definition := b.write(def{Network: "none", Containers: []ctr{{Name: "app", Command: words("sleep forever"), StopTimeout: 5}}})
	run := b.startWith(inside, "run", "--name", b.family, definition)
	eventually(t, "the task runs", func() bool { return strings.Contains(run.err.String(), "(task)  RUNNING") })
	fill(true)
	stop := b.startWith(inside, "stop", b.family).want(0)
	if !strings.Contains(stop.err, "disk of the state directory is full") {
		t.Errorf("stop does not name the disk:\n%s", stop.err)
	}
	if out := b.running(); out != "" {
		t.Errorf("there runs %s", out)
	}
	why := b.startWith(inside, "why", b.family).want(0).out
	if !strings.Contains(why, "disk") {
		t.Errorf("why printed %s", why)
	}
	if listed := b.startWith(inside, "ps", "--all", "--format", "{{.Status}}").want(0).out; !strings.HasPrefix(listed, "STOPPED") {
		t.Errorf("ps says %s; want what the owner says", listed)
	}
	fill(false)
	run.want(143)
	if record := b.startWith(inside, "ps", "--all", "--format", "{{.Status}}").want(0).out; !strings.HasPrefix(record, "STOPPED") {
		t.Errorf("the record has %s", record)
	}
	b.startWith(inside, "rm", b.family).want(0)
}

// A removal needs no space either.
func TestRemovalWithAFullStateDirectory(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	inside, fill := smallState(b)
	definition := b.write(def{Network: "none", Containers: []ctr{{Name: "app", Command: words("sleep forever"), StopTimeout: 5}}})
	run := b.startWith(inside, "run", "--name", b.family, definition) // an owner that systemd starts has another mount namespace
	eventually(t, "the task runs", func() bool { return strings.Contains(run.err.String(), "(task)  RUNNING") })
	fill(true)
	b.startWith(inside, "rm", "--force", b.family).want(0)
	run.wait()
	if out := b.running(); out != "" {
		t.Errorf("there runs %s", out)
	}
	if listed := b.startWith(inside, "ps", "--all", "--quiet").want(0).out; listed != "" {
		t.Errorf("ps lists %s", listed)
	}
	fill(false)
}
