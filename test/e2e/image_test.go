//go:build e2e

//e2e:bed plain

package e2e

import (
	"bytes"
	"compress/gzip"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/testing/registrytest"
)

// afterwards passes a request on and then does something else.
func afterwards(do func()) registrytest.Action {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(w, r)
		do()
	}
}

// hello is a task of one container that prints hello, from that image.
func (b *box) hello(image string) (path string) {
	return b.define(ctr{Name: "app", Image: image, Command: words("print hello")})
}

// What podtask push sends is loaded by each Podman, whatever the format of the image is.
func TestCompressedArchivesAreLoaded(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	ref, _ := b.push("loaded:1", b.freshImage("loaded"))
	b.podman("pull", "--quiet", "--authfile", bed.auth, ref)
	id := strings.TrimSpace(b.podman("image", "inspect", "--format", "{{.Id}}", ref))
	for _, format := range []string{"docker-archive", "oci-archive"} { // the second format is not that of the image, so its ID changes
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		save := exec.Command("podman", "save", "--quiet", "--format", format, ref)
		save.Stdout = w
		if err := errors.Join(save.Run(), w.Close()); err != nil {
			t.Fatal(err)
		}
		b.podman("rmi", ref)
		r := b.startWith(func(cmd *exec.Cmd) { cmd.Stdin = &packed }, "image", "load").want(0)
		got := strings.TrimSpace(b.podman("image", "inspect", "--format", "{{.Id}}", ref))
		if !strings.Contains(r.out, ref) || format == "docker-archive" && got != id {
			t.Errorf("%s: image load printed %q %q, and the image is %s, not %s", format, r.out, r.err, got, id)
		}
	}
	if r := b.startWith(func(cmd *exec.Cmd) { cmd.Stdin = strings.NewReader("\x1f\x8bno gzip") }, "image", "load").want(125); r.err == "" {
		t.Error("a broken archive is no error")
	}
}

func TestImageThatCannotBeHad(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, registry, image, pull, password string // registry: "" is the bed's
		fault                                 registrytest.Action
		want                                  []string // in the reason
	}{
		{name: "no such tag", image: "app:2", pull: "default", want: []string{"CannotPullContainerError", "app:2"}},
		{name: "no such repository", image: "nothing:1", pull: "default", want: []string{"CannotPullContainerError", "nothing"}},
		{name: "no such tag always", image: "app:2", pull: "always", want: []string{"CannotPullImageManifestError", "app:2"}},
		{name: "wrong password", image: "app:1", pull: "default", password: "wrong-horse", want: []string{"CannotPullContainerError", "app"}},
		{name: "wrong password always", image: "app:1", pull: "always", password: "wrong-horse", want: []string{"CannotPullImageManifestError", "podman login"}},
		{name: "denied", image: "app:1", pull: "once", fault: registrytest.Status(403, "DENIED", "not for you"), want: []string{"CannotPullImageManifestError", "app:1"}},
		{name: "too many requests", image: "app:1", pull: "once", fault: registrytest.Answer(429, map[string]string{"Retry-After": "3600", "RateLimit-Limit": "100;w=21600", "RateLimit-Remaining": "0;w=21600"}),
			want: []string{"CannotPullImageManifestError", "wait 1h,", "limit 100 in 6h,", "0 left", "podman login"}},
		{name: "no such registry", registry: "nowhere.invalid/", image: "app:1", pull: "always", want: []string{"CannotPullImageManifestError", "nowhere.invalid cannot be resolved", "spelling"}},
		{name: "no registry there", registry: "127.0.0.1:9/", image: "app:1", pull: "always", want: []string{"CannotPullImageManifestError", "127.0.0.1:9 cannot be reached", "check that it is running"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			b.push("app:1", b.freshImage("app"))
			if tc.password != "" {
				auth := filepath.Join(b.dir, "auth.json")
				if err := os.WriteFile(auth, bed.reg.AuthJSONFor("tester", tc.password), 0o600); err != nil {
					t.Fatal(err)
				}
				b.env = append(b.env, "REGISTRY_AUTH_FILE="+auth)
			}
			if tc.fault != nil {
				b.fault("", "app", "", 0, tc.fault)
			}
			ref := bed.reg.Ref(b.repository(tc.image))
			if tc.registry != "" {
				ref = tc.registry + tc.image
			}
			r := b.want(125, "run", "--name", b.family, "--pull", tc.pull, b.hello(ref))
			reason := b.inspect(b.family).StoppedReason
			for _, want := range tc.want {
				if !strings.Contains(reason, want) {
					t.Errorf("the reason does not name %q: %s", want, reason)
				}
			}
			if !strings.Contains(r.err, reason) {
				t.Errorf("run does not give the reason:\n%s", r.err)
			}
			if code := b.inspect(b.family).StopCode; code != "TaskFailedToStart" {
				t.Errorf("stop code %s", code)
			}
			for _, secret := range []string{password, "wrong-horse"} {
				if strings.Contains(r.out+r.err+reason, secret) {
					t.Errorf("the password is shown:\n%s%s", r.out, r.err)
				}
			}
			if got := count(b.events(), "app CREATED") + count(b.events(), "app RUNNING"); got > 0 {
				t.Error("the container was made")
			}
		})
	}
}

// What no registry can have is an error of run: there is no ID, no task, and what it would replace goes on.
func TestMissingLocalImageIsAnErrorOfRun(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	missing := "localhost/" + b.family + ":1"
	kept := b.detach("--wait=running", "--name", b.family, b.define(ctr{Name: "app", Command: words("sleep forever")}))
	for _, args := range [][]string{
		{"run", "-d", "--name", b.family, "--replace", b.hello(missing)},
		{"run", b.hello(missing)},
		{"run", "--dry-run", b.hello(missing)},
	} {
		if r := b.want(125, args...); r.out != "" || !strings.Contains(r.err, "Error: container app: there is no image "+missing+" on this host: build it with `podman build -t "+missing+" .`") {
			t.Errorf("%v prints %q and says %q", args, r.out, r.err)
		}
	}
	never := bed.reg.Ref(b.repository("app:1"))
	if r := b.want(125, "run", "-d", "--pull", "never", b.hello(never)); r.out != "" || !strings.Contains(r.err, "run `podman pull "+never+"`, or leave out --pull never") {
		t.Errorf("with --pull never it prints %q and says %q", r.out, r.err)
	}
	if got := strings.Fields(b.want(0, "ps", "-aq", "--no-trunc").out); len(got) != 1 || got[0] != kept {
		t.Errorf("there are the tasks %q, want %s alone", got, kept)
	}
	if st := b.inspect(kept); st.Status != "RUNNING" {
		t.Errorf("the task that was to be replaced is %s", st.Status)
	}
}

func TestRegistryThatRecovers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, method, what string
		times              int
		fault              registrytest.Action
	}{
		{"error 500 for the digest", "HEAD", "manifests/", 1, registrytest.Status(500, "UNKNOWN", "try again")},
		{"error 429 for the digest", "HEAD", "manifests/", 1, registrytest.TooManyRequests(1)},
		{"connection cut at the digest", "HEAD", "manifests/", 1, registrytest.Drop()},
		{"a token that ran out before the digest", "HEAD", "manifests/", 1, registrytest.Forgotten()},
		{"a token that ran out before the layer", "GET", "blobs/", 1, registrytest.Forgotten()},
		{"connection cut in the layer", "GET", "blobs/", 1, registrytest.Reset()},
		{"error 503 for the layer", "GET", "blobs/", 1, registrytest.Status(503, "", "")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			ref, _ := b.push("app:1", b.freshImage("app"))
			rule := b.fault(tc.method, "app", tc.what, tc.times, tc.fault)
			if r := b.want(0, "run", "--pull", "always", b.hello(ref)); !strings.Contains(r.out, "hello") {
				t.Errorf("it printed %q", r.out)
			}
			if rule.Hits() == 0 {
				t.Error("the fault was never met")
			}
		})
	}
}

func TestPullBehaviourDecidesWhetherTheRegistryIsAsked(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	ref, digest := b.push("app:1", b.freshImage("app"))
	source := func(pull string) string {
		t.Helper()
		before := len(b.requests(""))
		id := strings.TrimSpace(b.want(0, "run", "-d", "--wait=stopped", "--pull", pull, b.hello(ref)).out)
		asked := " silent"
		if len(b.requests("")) > before {
			asked = " asked"
		}
		c := b.inspect(id).Containers[0]
		if c.ImageDigest != digest {
			t.Errorf("--pull %s: digest %s, want %s", pull, c.ImageDigest, digest)
		}
		return c.ImageSource + asked
	}
	for _, step := range []struct{ pull, want string }{
		{"prefer-cached", "registry asked"}, // nothing is there yet
		{"prefer-cached", "cache silent"},
		{"once", "cache silent"},
		{"never", "cache silent"},
		{"default", "registry asked"},
		{"always", "registry asked"},
	} {
		if got := source(step.pull); got != step.want {
			t.Errorf("--pull %s: %s, want %s", step.pull, got, step.want)
		}
	}
	// A registry that refuses everybody: only default makes do with the local copy.
	b.fault("", "app", "", 0, registrytest.Status(403, "DENIED", "closed"))
	if got := source("default"); got != "cache asked" {
		t.Errorf("--pull default: %s, want cache asked", got)
	}
	b.want(125, "run", "--pull", "always", b.hello(ref))
}

// With once podtask asks for what others have pulled, not for what it has pulled itself,
// until that is removed.
func TestOnceAsksForWhatPodtaskHasNotPulled(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	ref, first := b.push("app:1", b.freshImage("first"))
	b.podman("pull", "-q", "--authfile", bed.auth, ref)
	once := func(what, source, digest string) {
		t.Helper()
		before := len(b.requests(""))
		c := b.inspect(b.detach("--wait=stopped", "--pull", "once", b.hello(ref))).Containers[0]
		if c.ImageSource != source || c.ImageDigest != digest || (len(b.requests("")) > before) != (source == "registry") {
			t.Errorf("%s: %s from the %s, want %s from the %s", what, c.ImageDigest, c.ImageSource, digest, source)
		}
	}
	once("what others pulled", "registry", first)
	_, second := b.push("app:1", b.freshImage("second"))
	once("what podtask pulled", "cache", first)
	b.want(0, "rm", "--all")
	b.podman("rmi", "--force", b.imageID(ref))
	once("what was removed", "registry", second)
}
