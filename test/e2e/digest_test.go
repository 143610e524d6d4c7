//go:build e2e

//e2e:bed plain

package e2e

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/podtask/podtask/internal/testing/registrytest"
)

// shop is a task of three containers with the conditions HEALTHY, SUCCESS and
// START, the last of which starts first. It exits with 3 once tell has made
// /tmp/go in app.
func (b *box) shop() (path string) {
	for _, repository := range []string{"app:1", "job:1", "db:1"} {
		b.push(repository, b.freshImage(repository))
	}
	image := func(name string) string { return bed.reg.Ref(b.repository(name + ":1")) }
	return b.define(
		ctr{Name: "app", Image: image("app"), Command: words("await http://db:8080/ -- wait /tmp/go -- exit 3"),
			DependsOn: []on{{"job", "SUCCESS"}, {"db", "START"}}},
		ctr{Name: "job", Image: image("job"), Command: words("print job"), Essential: optional, DependsOn: []on{{"db", "HEALTHY"}}},
		ctr{Name: "db", Image: image("db"), Command: words("term 4 -- print db -- serve 8080"), Health: healthyIf("get http://127.0.0.1:8080/")},
	)
}

func TestDigestsComeFirstAndConditionsHold(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.fault("HEAD", "(app|job|db)", "manifests/", 3, registrytest.Gather(3)) // who asks one by one waits for ever
	run := b.start("run", "--name", b.family, b.shop())
	b.await("task RUNNING")
	b.tell(b.family, "app", "/tmp/go")
	run.want(3)
	list := b.events()
	inOrder(t, list, "task MANIFEST_PULLED", "~infra RESOURCES_PROVISIONED", "db RUNNING", "db HEALTHY", "job RUNNING", "job STOPPED",
		"app RUNNING", "task RUNNING", "app STOPPED", "db STOPPED", "~infra STOPPED", "task STOPPED")
	for _, c := range []string{"app", "job", "db"} {
		inOrder(t, list, c+" MANIFEST_PULLED", c+" PULLED", c+" CREATED", c+" RUNNING", c+" STOPPED")
	}
	allBefore(t, list, "MANIFEST_PULLED", "PULLED")
	allBefore(t, list, "MANIFEST_PULLED", "RESOURCES_PROVISIONED")
	allBefore(t, list, "MANIFEST_PULLED", "CREATED")
	for i, e := range list {
		if count(list, e.String()) != 1 {
			t.Errorf("%s is reported more than once:\n%s", e, describe(list))
		}
		if e.Seq != uint64(i+1) {
			t.Errorf("event %d has number %d", i+1, e.Seq)
		}
	}
	last := list[len(list)-1]
	if last.String() != "task STOPPED" || last.ExitCode == nil || *last.ExitCode != 3 {
		t.Errorf("the last event is %s:\n%s", last, describe(list))
	}
	if got := b.inspect(last.Task).codes(); got != "app=3 job=0 db=4" {
		t.Error(got)
	}
	for _, r := range b.requests("^HEAD .*/manifests/") {
		if r.Overlaps < 1 {
			t.Errorf("%s %s overlapped with no other request", r.Method, r.Path)
		}
	}
}

func TestNothingIsPulledOrMadeBeforeTheLastDigest(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	release := make(chan struct{})
	b.fault("HEAD", "db", "manifests/", 1, registrytest.Hang(release))
	run := b.start("run", "--name", b.family, b.shop())
	b.await("app MANIFEST_PULLED")
	b.await("job MANIFEST_PULLED")
	if got := b.requests("^GET"); len(got) > 0 {
		t.Errorf("something is pulled already: %v", got)
	}
	if got := b.objects(); got != "" {
		t.Errorf("something is made already: %s", got)
	}
	close(release)
	b.await("app RUNNING")
	b.tell(b.family, "app", "/tmp/go")
	run.want(3)
	allBefore(t, b.events(), "MANIFEST_PULLED", "PULLED")
	var asked registrytest.Request
	for _, r := range b.requests("^HEAD .*/db/manifests/1$") {
		asked = r
	}
	for _, r := range b.requests("^GET .*/(blobs|manifests)/") {
		if r.Start.Before(asked.End) {
			t.Errorf("%s %s came before the last digest was known", r.Method, r.Path)
		}
	}
}

func TestPullIsByDigestAndTheTagIsThereAfterwards(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	ref, digest := b.push("app:1", b.freshImage("first"))
	b.want(0, "run", b.define(ctr{Name: "app", Image: ref, Command: words("env SALT")}))
	if got := b.requests("^GET .*/manifests/1$"); len(got) > 0 {
		t.Errorf("the manifest was pulled by tag: %v", got)
	}
	if got := b.requests("^GET .*/manifests/" + digest + "$"); len(got) == 0 {
		t.Error("the manifest was not pulled by digest")
	}
	names := b.podman("image", "inspect", ref, "--format", "{{.RepoTags}} {{.RepoDigests}}")
	if !strings.Contains(names, ref) || !strings.Contains(names, digest) {
		t.Errorf("the image is known as %s", names)
	}
	if e := b.await("app MANIFEST_PULLED"); e.Digest != digest {
		t.Errorf("digest %s, want %s", e.Digest, digest)
	}
}

func TestTagThatMovesBetweenDigestAndPull(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	first, second := b.freshImage("first"), b.freshImage("second")
	ref, digest := b.push("app:1", first)
	b.fault("HEAD", "app", "manifests/1", 1, afterwards(func() {
		if _, err := bed.reg.Push(b.repository("app:1"), second); err != nil {
			t.Error(err)
		}
	}))
	r := b.want(0, "run", "--name", b.family, b.define(ctr{Name: "app", Image: ref, Command: words("env SALT")}))
	if !strings.Contains(r.out, "SALT=first") {
		t.Errorf("it ran another image: %s", r.out)
	}
	if c := b.inspect(b.family).Containers[0]; c.ImageDigest != digest || c.ImageSource != "registry" {
		t.Errorf("%+v", c)
	}
	// The name stands for what ran, and the next run takes the new image.
	if got := b.podman("run", "--rm", "--pull=never", ref, "env", "SALT"); got != "SALT=first" {
		t.Error(got)
	}
	if r := b.want(0, "run", b.define(ctr{Name: "app", Image: ref, Command: words("env SALT")})); !strings.Contains(r.out, "SALT=second") {
		t.Errorf("the second run ran %s", r.out)
	}
}

func TestImageForSeveralPlatformsIsPinnedByItsIndex(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	other, err := registrytest.PlatformImage(v1.Platform{OS: "linux", Architecture: "s390x"}, v1.Config{})
	if err != nil {
		t.Fatal(err)
	}
	index, err := registrytest.Index(other, b.freshImage("ours"))
	if err != nil {
		t.Fatal(err)
	}
	digest, err := bed.reg.PushIndex(b.repository("app:1"), index)
	if err != nil {
		t.Fatal(err)
	}
	ref := bed.reg.Ref(b.repository("app:1"))
	r := b.want(0, "run", "--name", b.family, b.define(ctr{Name: "app", Image: ref, Command: words("env SALT")}))
	if !strings.Contains(r.out, "SALT=ours") {
		t.Errorf("it printed %q", r.out)
	}
	if got := b.inspect(b.family).Containers[0].ImageDigest; got != digest {
		t.Errorf("digest %s, want the index's: %s", got, digest)
	}
}

func TestReferenceWithDigestIsNotReportedAsResolved(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	_, digest := b.push("app:1", b.freshImage("app"))
	ref := bed.reg.Ref(b.repository("app@" + digest))
	b.want(0, "run", "--name", b.family, b.define(ctr{Name: "app", Image: ref, Command: words("print hello")}))
	list := b.events()
	inOrder(t, list, "app PULLED", "app CREATED", "app RUNNING", "app STOPPED")
	if count(list, "app MANIFEST_PULLED")+count(list, "task MANIFEST_PULLED") > 0 {
		t.Errorf("MANIFEST_PULLED was reported:\n%s", describe(list))
	}
	if got := b.requests("^HEAD .*/manifests/"); len(got) > 0 {
		t.Errorf("the digest was asked for: %v", got)
	}
	if c := b.inspect(b.family).Containers[0]; c.ImageDigest != digest {
		t.Errorf("digest %s, want %s", c.ImageDigest, digest)
	}
}

// An image of Docker's schema 1 has no digest to report (ECS skips it, too): it is
// pulled by its tag, and runs where Podman can read it.
func TestImageOfSchema1HasNoDigest(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	if err := bed.reg.PushSchema1(b.repository("old:1"), b.freshImage("old")); err != nil {
		t.Fatal(err)
	}
	ref := bed.reg.Ref(b.repository("old:1"))
	if got := b.want(0, "image", "resolve", ref).out; !strings.Contains(got, "schema 1") || strings.Contains(got, "sha256:") {
		t.Errorf("resolve: %s", got)
	}
	code, said, source := 0, "SALT=old", "registry"
	order := []string{"app PULLED", "app STOPPED"}
	if b.oldPodman() { // it pulls the image and cannot read it; podman run fails as well
		code, said, source, order = 125, "schema 1", "", order[1:]
	}
	r := b.want(code, "run", "--name", b.family, "--pull", "always", b.define(ctr{Name: "app", Image: ref, Command: words("env SALT")}))
	if !strings.Contains(r.out+r.err, said) {
		t.Errorf("it does not say %q:\n%s%s", said, r.out, r.err)
	}
	if c := b.inspect(b.family).Containers[0]; c.ImageDigest != "" || c.ImageSource != source {
		t.Errorf("digest %q from the %s", c.ImageDigest, c.ImageSource)
	}
	list := b.events()
	inOrder(t, list, order...)
	if count(list, "app MANIFEST_PULLED") > 0 {
		t.Errorf("MANIFEST_PULLED was reported:\n%s", describe(list))
	}
	if got := b.requests("^GET .*/manifests/1$"); len(got) == 0 {
		t.Error("the tag was not pulled")
	}
}

// A pull tells how it gets on: in bytes, or in Podman's words before 4.8.
func TestPullProgressForPrograms(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	ref, _ := b.push("app:1", b.freshImage("app"))
	// Of a layer that comes at once Podman says only that it has come.
	b.fault("GET", "app", "blobs/", 0, registrytest.Slow(1<<19, time.Second/2))
	type line struct {
		Image, Phase, Layer, Text string
		Current, Total            int64
	}
	var lines []line
	var bytes, words bool
	for text := range strings.Lines(b.want(0, "run", "--pull", "always", "--progress", "json", b.hello(ref)).err) {
		var l line
		if !strings.HasPrefix(text, `{"image":`) {
			continue // what the task does
		}
		if err := json.Unmarshal([]byte(text), &l); err != nil || l.Image != ref {
			t.Fatalf("%s: %+v, %v", text, l, err)
		}
		bytes = bytes || l.Layer != "" && l.Current > 0 && l.Total >= l.Current
		words = words || strings.HasPrefix(l.Text, "Copying blob ")
		lines = append(lines, l)
	}
	if len(lines) < 3 || lines[0].Phase != "pulling" || lines[len(lines)-1].Phase != "done" {
		t.Errorf("it says %+v", lines)
	}
	if b.oldPodman() != words || b.oldPodman() == bytes {
		t.Errorf("bytes: %t, words: %t: %+v", bytes, words, lines)
	}
}
