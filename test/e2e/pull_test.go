//go:build e2e

//e2e:bed plain

package e2e

import (
	"encoding/json"
	"net/http"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/podtask/podtask/internal/testing/registrytest"
)

// short is the namespace of Docker Hub that lies in the registry (see trustRegistry).
const short = "podtask-short/"

// A name without a registry is Docker Hub's, as with ECS, and that is said.
func TestNameWithoutARegistryIsDockerHubs(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	name := short + b.repository("app:1")
	digest, err := bed.reg.Push(name, b.freshImage("app"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = exec.Command("podman", "rmi", "--force", "docker.io/"+name).Run() })
	warning := `image "` + name + `" names no registry: podtask takes docker.io/` + name
	r := b.want(0, "run", "--name", b.family, "--pull", "always", b.hello(name))
	if !strings.Contains(r.err, warning) || !strings.Contains(r.out, "hello") {
		t.Errorf("it printed %s and said\n%s", r.out, r.err)
	}
	if got := b.inspect(b.family).Containers[0].ImageDigest; got != digest {
		t.Errorf("digest %s, want %s", got, digest)
	}
	if r := b.want(0, "image", "resolve", name); !strings.Contains(r.err, warning) || !strings.Contains(r.out, digest[:19]) {
		t.Errorf("resolve: %s%s", r.out, r.err)
	}
	if r := b.want(0, "run", "--rm", b.hello("docker.io/"+name)); strings.Contains(r.err, "names no registry") {
		t.Errorf("of the whole name it says\n%s", r.err)
	}
}

// An image that is for another machine is refused before anything of it is pulled, with
// both names: one alone, and one in an index.
func TestImageForAnotherMachine(t *testing.T) {
	t.Parallel()
	other, err := registrytest.PlatformImage(v1.Platform{OS: "linux", Architecture: "s390x"}, v1.Config{},
		registrytest.File{Path: "/app", Data: []byte("for another machine")})
	if err != nil {
		t.Fatal(err)
	}
	index, err := registrytest.Index(other)
	if err != nil {
		t.Fatal(err)
	}
	layer := firstLayer(t, other).String()
	b := newBox(t)
	alone, _ := b.push("alone:1", other)
	if _, err := bed.reg.PushIndex(b.repository("index:1"), index); err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{alone, bed.reg.Ref(b.repository("index:1"))} {
		r := b.want(125, "run", "--pull", "always", b.hello(ref))
		for _, want := range []string{"CannotPullContainerError", "linux/s390x", "linux/" + runtime.GOARCH} {
			if !strings.Contains(r.err, want) {
				t.Errorf("%s: it does not say %q:\n%s", ref, want, r.err)
			}
		}
	}
	if got := b.requests("blobs/" + layer); len(got) > 0 {
		t.Errorf("its layer was asked for: %v", got)
	}
}

// What resolve says of an index is for people, and for programs too.
func TestResolveAnIndex(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	ours := b.freshImage("ours")
	other, err := registrytest.PlatformImage(v1.Platform{OS: "linux", Architecture: "s390x"}, v1.Config{})
	if err != nil {
		t.Fatal(err)
	}
	index, err := registrytest.Index(other, ours)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := bed.reg.PushIndex(b.repository("app:1"), index)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := ours.Digest()
	if err != nil {
		t.Fatal(err)
	}
	var got []struct {
		Reference, Canonical, Digest, MediaType, PlatformDigest string
		Platforms                                               []struct{ OS, Architecture, Digest string }
	}
	ref := bed.reg.Ref(b.repository("app:1"))
	if err := json.Unmarshal([]byte(b.want(0, "image", "resolve", "--format", "json", ref).out), &got); err != nil || len(got) != 1 {
		t.Fatalf("%d answers, %v", len(got), err)
	}
	one := got[0]
	if one.Reference != ref || one.Digest != digest || one.Canonical != strings.TrimSuffix(ref, ":1")+"@"+digest || one.PlatformDigest != manifest.String() {
		t.Errorf("%+v", one)
	}
	if len(one.Platforms) != 2 || one.Platforms[0].Architecture != "s390x" || one.Platforms[1].Digest != manifest.String() {
		t.Errorf("platforms %+v", one.Platforms)
	}
	table := regexp.MustCompile(regexp.QuoteMeta(ref) + ` +` + digest[:19] + ` +index +` + manifest.String()[:19] + ` +linux/s390x linux/amd64`)
	if r := b.want(0, "image", "resolve", ref); !table.MatchString(r.out) || r.err != "" {
		t.Errorf("it prints\n%s%s", r.out, r.err)
	}
	if r := b.want(0, "image", "resolve", "--platform", "linux/riscv64", ref); !strings.Contains(r.err, ref+" has no image for linux/riscv64") {
		t.Errorf("of another platform it says\n%s%s", r.out, r.err)
	}
	unknown := strings.TrimSuffix(ref, ":1") + "@sha256:" + strings.Repeat("a", 64)
	if r := b.want(125, "image", "resolve", unknown); !strings.Contains(r.err, "has no image with this digest") {
		t.Errorf("of a digest that is not there it says\n%s", r.err)
	}
}

// Tasks that want the same image share one pull. It continues when one of them is stopped,
// and ends, at the registry too, with the last.
func TestPullEndsWithTheLastTaskThatWaitsForIt(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.env = append(b.env, "PODTASK_PULL_IDLE=1h", "PODTASK_PULL_FIRST_BYTE=1h")
	b.agent()
	img := b.freshImage("app")
	ref, _ := b.push("app:1", img)
	ended := make(chan struct{})
	held := b.fault("GET", "app", "blobs/"+firstLayer(t, img).String(), 0, func(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
		<-r.Context().Done()
		close(ended) // a second request would close it again
		panic(http.ErrAbortHandler)
	})
	first := b.detach("--name", "first", b.hello(ref))
	b.arrived(held)
	second := b.detach("--name", "second", b.hello(ref))
	eventually(t, "the second task's wait for the pull", func() bool {
		return strings.Contains(b.want(0, "why", second).out, "podtask is pulling")
	})
	b.want(0, "stop", first)
	if c := b.inspect(second).Containers[0]; c.Status != "MANIFEST_PULLED" {
		t.Errorf("the container of the task that waits is %s", c.Status)
	}
	select {
	case <-ended:
		t.Error("the pull ended though a task waits for it")
	default:
	}
	b.want(0, "stop", second)
	select {
	case <-ended:
	case <-time.After(patience):
		t.Error("the pull continues though no task needs it")
	}
	if n := held.Hits(); n != 1 {
		t.Errorf("the layer was asked for %d times", n)
	}
}

// Processes share a pull too: the one that comes second waits, and pulls nothing.
func TestProcessesShareOnePull(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.env = append(b.env, "PODTASK_PULL_IDLE=1h", "PODTASK_PULL_FIRST_BYTE=1h")
	img := b.freshImage("app")
	ref, _ := b.push("app:1", img)
	release := make(chan struct{})
	held := b.fault("GET", "app", "blobs/"+firstLayer(t, img).String(), 0, registrytest.Hang(release))
	first := b.start("run", "--pull", "always", b.hello(ref))
	b.arrived(held)
	second := b.start("run", "--pull", "always", "--progress", "json", b.hello(ref))
	eventually(t, "the second process's wait", func() bool {
		return strings.Contains(second.err.String(), `"phase":"waiting"`)
	})
	close(release)
	for _, run := range []*process{first, second} {
		if r := run.want(0); !strings.Contains(r.out, "hello") {
			t.Errorf("it printed %s", r.out)
		}
	}
	if n := held.Hits(); n != 1 {
		t.Errorf("the layer was asked for %d times", n)
	}
	if said := second.err.String(); strings.LastIndex(said, `"phase":"done"`) < strings.LastIndex(said, `"phase":"waiting"`) {
		t.Errorf("the wait never ends:\n%s", said)
	}
}

func TestNoMorePullsAtOnceThanConfigured(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.env = append(b.env, "PODTASK_PULL_IDLE=1h", "PODTASK_PULL_FIRST_BYTE=1h", "PODTASK_PULLS_AT_ONCE=1")
	var refs []string
	for _, name := range []string{"one:1", "two:1"} {
		ref, _ := b.push(name, b.freshImage(name))
		refs = append(refs, ref)
	}
	release := make(chan struct{})
	held := b.fault("GET", "(one|two)", "blobs/", 0, registrytest.Hang(release))
	run := b.start("run", "--name", b.family, "--progress", "json", b.define(
		ctr{Name: "one", Image: refs[0], Command: words("print one")},
		ctr{Name: "two", Image: refs[1], Command: words("print two -- wait /tmp/go")}))
	b.arrived(held)
	eventually(t, "the other image's wait for its turn", func() bool {
		return strings.Contains(run.err.String(), `"phase":"waiting"`)
	})
	repositories := map[string]bool{}
	for _, r := range b.requests("^GET .*/blobs/") {
		repositories[r.Path[:strings.Index(r.Path, "/blobs/")]] = true
	}
	if len(repositories) != 1 {
		t.Errorf("pulled at once: %v", repositories)
	}
	close(release)
	run.want(0)
}

// A pull that takes longer than it may is given up for good. With --pull default a local
// copy does instead, and that is told.
func TestPullTakesNoLongerThanItMay(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.env = append(b.env, "PODTASK_PULL_IDLE=1h", "PODTASK_PULL_FIRST_BYTE=1h", "PODTASK_PULL_TIMEOUT=4s")
	ref, _ := b.push("app:1", b.freshImage("app"))
	b.fault("GET", "app", "blobs/", 0, registrytest.Hang(nil))
	b.want(125, "run", "--name", b.family, "--pull", "always", b.hello(ref))
	reason := b.inspect(b.family).StoppedReason
	for _, want := range []string{"DockerTimeoutError", ref, "not done after 4s", "pull-timeout"} {
		if !strings.Contains(reason, want) {
			t.Errorf("the reason does not say %q: %s", want, reason)
		}
	}
	b.localCopy(ref)
	id := b.detach("--wait=stopped", "--pull", "default", b.hello(ref))
	if c := b.inspect(id).Containers[0]; c.ImageSource != "cache" || c.ExitCode == nil || *c.ExitCode != 0 {
		t.Errorf("%+v", c)
	}
}

// On a terminal the pull is in the line of the container, which says afterwards how it ended.
func TestPullProgressOnATerminal(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	ref, _ := b.push("app:1", b.freshImage("app"))
	b.fault("GET", "app", "blobs/", 0, registrytest.Slow(1<<19, time.Second/2))
	run := b.onTerminal("run", "--pull", "always", b.hello(ref))
	run.see("pulling")
	if !b.oldPodman() {
		run.see("%")
	}
	run.see("hello")
	run.see("exited")
	run.want(0)

	img := b.freshImage("again")
	again, _ := b.push("app:2", img)
	b.fault("GET", "app", "blobs/"+firstLayer(t, img).String(), 0, registrytest.Halfway(4*time.Second, nil))
	run = b.onTerminal("run", b.hello(again))
	run.see("pulling")
	run.keysIn("\x03")
	run.see("\rstopping, up to") // not behind what is drawn
	run.want(130)
}

// A detached run that waits shows the pull of the owner, and Ctrl-C ends the wait only.
func TestCtrlCWhileADetachedTaskIsPulled(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.env = append(b.env, "PODTASK_PULL_IDLE=1h", "PODTASK_PULL_FIRST_BYTE=1h")
	img := b.freshImage("app")
	ref, _ := b.push("app:1", img)
	release := make(chan struct{})
	b.fault("GET", "app", "blobs/"+firstLayer(t, img).String(), 0, registrytest.Halfway(4*time.Second, release))
	run := b.onTerminal("run", "-d", "--wait=running", "--name", b.family, b.define(ctr{Name: "app", Image: ref, Command: words("sleep forever"), StopTimeout: 1}))
	run.see("pulling")
	run.keysIn("\x03")
	run.see("interrupted: task " + b.family + " continues; `podtask stop " + b.family + "` stops it\r\n")
	run.want(130)
	close(release)
	b.await("app RUNNING")
	b.want(0, "stop", b.family)
}

// Where there is no terminal a long pull is a line now and then, while no byte comes, too:
// in bytes, or without before Podman 4.8.
func TestPullProgressInLines(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.env = append(b.env, "PODTASK_PULL_IDLE=1h", "PODTASK_PULL_FIRST_BYTE=1h")
	img := b.freshImage("app")
	ref, _ := b.push("app:1", img)
	release := make(chan struct{})
	b.fault("GET", "app", "blobs/"+firstLayer(t, img).String(), 0, registrytest.Halfway(4*time.Second, release))
	run := b.start("run", "--pull", "always", b.hello(ref))
	line := regexp.MustCompile(`(?m)^pulling 1 image for \d+s  .* of .*%$`)
	if b.oldPodman() {
		line = regexp.MustCompile(`(?m)^pulling 1 image for \d+s$`)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("it said\n%s", &run.err)
		}
	})
	eventually(t, "two lines about the pull", func() bool { return len(line.FindAllString(run.err.String(), -1)) >= 2 })
	close(release)
	r := run.want(0)
	if !strings.Contains(r.out, "hello") || strings.Contains(r.err, "\x1b") {
		t.Errorf("it printed %s and said %q", r.out, r.err)
	}
	if strings.LastIndex(r.err, "pulling 1") > strings.Index(r.err, " PULLED") {
		t.Errorf("it speaks of a pull that has ended:\n%s", r.err)
	}
}

// Where an agent pulls, run shows it as if it did so itself: lines, and JSON for programs.
// Who comes later sees it too.
func TestPullProgressOfAnAgent(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.env = append(b.env, "PODTASK_PULL_IDLE=1h", "PODTASK_PULL_FIRST_BYTE=1h")
	b.agent()
	img := b.freshImage("app")
	ref, _ := b.push("app:1", img)
	release := make(chan struct{})
	held := b.fault("GET", "app", "blobs/"+firstLayer(t, img).String(), 0, registrytest.Halfway(4*time.Second, release))
	lines := b.start("run", "--pull", "always", b.hello(ref))
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("it said\n%s", &lines.err)
		}
	})
	b.arrived(held)
	programs := b.start("run", "--pull", "always", "--progress", "json", b.hello(ref))
	eventually(t, "a line about the agent's pull", func() bool { return strings.Contains(lines.err.String(), "\npulling 1 image for ") })
	eventually(t, "JSON about the agent's pull", func() bool {
		return strings.Contains(programs.err.String(), `{"image":"`+ref+`","phase":"pulling"`)
	})
	close(release)
	for _, run := range []*process{lines, programs} {
		if r := run.want(0); !strings.Contains(r.out, "hello") {
			t.Errorf("it printed %s", r.out)
		}
	}
	if n := held.Hits(); n != 1 {
		t.Errorf("the layer was asked for %d times", n)
	}
}

// What nothing has used for long goes by itself while another task runs.
func TestUnusedImagesGoByThemselves(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	old, _ := b.push("old:1", b.freshImage("old"))
	b.want(0, "run", "--rm", "--pull", "always", b.hello(old))
	b.env = append(b.env, "PODTASK_IMAGE_MIN_AGE=30m", "PODTASK_IMAGE_CLEANUP_INTERVAL=1s")
	id := b.detach("--wait=running", b.waiter())
	if !b.here(old) {
		t.Error("what was used a moment ago is gone")
	}
	b.age()
	eventually(t, "the end of an image that nothing uses", func() bool { return !b.here(old) })
	b.up(id)
	b.tell(id, "app", "/tmp/go")
	b.want(0, "wait", id)
}

// Where less is free than there should be, unused images go before a pull, young or old.
func TestUnusedImagesMakeRoomForAPull(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	old, _ := b.push("old:1", b.freshImage("old"))
	next, _ := b.push("next:1", b.freshImage("next"))
	b.want(0, "run", "--rm", "--pull", "always", b.hello(old))
	b.age()
	b.env = append(b.env, "PODTASK_IMAGE_MIN_FREE=1000000g") // no disk has it
	r := b.want(0, "run", "--rm", "--pull", "always", b.hello(next))
	if !strings.Contains(r.err, "removed to make room") || b.here(old) || !b.here(next) {
		t.Errorf("old is here: %t, next: %t; it says\n%s", b.here(old), b.here(next), r.err)
	}
}
