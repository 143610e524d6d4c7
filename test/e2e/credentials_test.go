//go:build e2e

//e2e:bed plain

package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/podtask/podtask/internal/testing/registrytest"
)

// withLogin is hello with credentials of its own.
func (b *box) withLogin(image, source string) (path string) {
	b.t.Helper()
	text, err := os.ReadFile(b.hello(image))
	if err != nil {
		b.t.Fatal(err)
	}
	var def map[string]any
	if err := json.Unmarshal(text, &def); err != nil {
		b.t.Fatal(err)
	}
	for _, c := range def["containerDefinitions"].([]any) {
		c.(map[string]any)["repositoryCredentials"] = map[string]any{"credentialsParameter": source}
	}
	if text, err = json.Marshal(def); err != nil {
		b.t.Fatal(err)
	}
	path = filepath.Join(b.dir, "login.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		b.t.Fatal(err)
	}
	return path
}

// loginFile keeps a login of the registry in a file.
func (b *box) loginFile(mode os.FileMode, text string) (source string) {
	b.t.Helper()
	path := filepath.Join(b.dir, "registry-login")
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		b.t.Fatal(err)
	}
	return "file:" + path
}

// anonymous takes the bed's login away.
func (b *box) anonymous() {
	b.t.Helper()
	path := filepath.Join(b.dir, "no-auth.json")
	if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
		b.t.Fatal(err)
	}
	b.env = append(b.env, "REGISTRY_AUTH_FILE="+path)
}

const loginJSON = `{"username":"tester","password":"` + password + `"}`

func TestRepositoryCredentialsLetATaskIn(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		make func(b *box) (source string)
		want string // in the reason of a failure; empty: it runs
	}{
		{"file", func(b *box) string { return b.loginFile(0o600, loginJSON) }, ""},
		{"user and password", func(b *box) string { return b.loginFile(0o600, "tester:"+password+"\n") }, ""},
		{"dockerconfigjson", func(b *box) string { return b.loginFile(0o600, string(bed.reg.AuthJSON())) }, ""},
		{"command", func(b *box) string {
			path := filepath.Join(b.dir, "helper")
			if err := os.WriteFile(path, []byte("#!/bin/sh\necho '"+loginJSON+"'\n"), 0o700); err != nil {
				b.t.Fatal(err)
			}
			return "command:" + path
		}, ""},
		{"a file that others may read", func(b *box) string { return b.loginFile(0o644, loginJSON) }, "chmod 600"},
		{"a wrong password", func(b *box) string { return b.loginFile(0o600, "tester:wrong-horse") }, "repositoryCredentials"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			b.anonymous()
			ref, _ := b.push("app:1", b.freshImage("app"))
			code := 0
			if tc.want != "" {
				code = 125
			}
			r := b.want(code, "run", "--name", b.family, "--pull", "always", b.withLogin(ref, tc.make(b)))
			if got := b.inspect(b.family).StoppedReason; !strings.Contains(got, tc.want) {
				t.Errorf("the reason is %s", got)
			}
			if strings.Contains(r.out+r.err, "horse") {
				t.Errorf("the password is shown:\n%s%s", r.out, r.err)
			}
		})
	}
}

// A secret is looked for wherever podtask leaves something: its state, events, output
// and journal, and, while the digest is asked for and while the pull runs, the arguments
// and environment of every process and the runtime directory.
func TestRegistrySecretIsNowhere(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.anonymous()
	ref, _ := b.push("app:1", b.freshImage("app"))
	release := make(chan struct{})
	resolving := b.fault("HEAD", "app", "manifests/", 1, registrytest.Hang(release))
	pulling := b.fault("GET", "app", "blobs/", 1, registrytest.Hang(release))
	run := b.start("run", "--name", b.family, "--progress", "json", b.withLogin(ref, b.loginFile(0o600, loginJSON)))
	for _, held := range []*registrytest.Rule{resolving, pulling} {
		b.arrived(held)
		if found := b.processesWith(password); len(found) > 0 {
			t.Errorf("processes show the secret: %v", found)
		}
		b.filesWithout(password, bed.runtime)
		b.filesWithout(password, b.stateHome())
		release <- struct{}{}
	}
	r := run.want(0)
	all := r.out + r.err + b.want(0, "inspect", b.family).out + b.want(0, "events", "--stream=false", "--since", "0", "--format", "json").out
	all += b.podman("inspect", "--type", "image", ref)
	if bed.name != "plain" {
		journal, err := exec.Command("journalctl", "--no-pager", "--output=export").Output()
		if err != nil {
			t.Error(err)
		}
		all += string(journal)
	}
	if strings.Contains(all, password) {
		t.Error("the secret is shown")
	}
	b.filesWithout(password, b.stateHome())
	b.filesWithout(password, bed.runtime)
}

// filesWithout fails the test if a file below dir has a text. podtask-ecs keeps values of tasks that it starts in memory, in a directory
// of its own; a test of it may run at the same time.
func (b *box) filesWithout(text, dir string) {
	b.t.Helper()
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		switch {
		case err == nil && d.IsDir() && path == filepath.Join(bed.runtime, "podtask", "ecs"):
			return filepath.SkipDir
		case err != nil || !d.Type().IsRegular():
			return nil // gone by now, or of another user
		}
		if content, err := os.ReadFile(path); err == nil && strings.Contains(string(content), text) {
			b.t.Errorf("%q is in %s", text, path)
		}
		return nil
	})
}

// processesWith names the processes of this user that have a text in their
// arguments or environment.
func (b *box) processesWith(text string) (found []string) {
	b.t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		b.t.Fatal(err)
	}
	seen := 0
	for _, cmdline := range files {
		for _, file := range []string{cmdline, filepath.Join(filepath.Dir(cmdline), "environ")} {
			content, err := os.ReadFile(file)
			if err != nil {
				continue // it has ended, or is of another user
			}
			seen++
			if strings.Contains(string(content), text) {
				comm, _ := os.ReadFile(filepath.Join(filepath.Dir(cmdline), "comm"))
				found = append(found, strings.TrimSpace(string(comm))+"'s "+filepath.Base(file))
			}
		}
	}
	if seen < 4 {
		b.t.Errorf("only %d files of processes could be read", seen)
	}
	return found
}

// Podman's secrets are read from 4.7 on; before, the error names what to use.
func TestRepositoryCredentialsInPodmansSecret(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.anonymous()
	ref, _ := b.push("app:1", b.freshImage("app"))
	name := b.family
	path := strings.TrimPrefix(b.loginFile(0o600, loginJSON), "file:")
	b.podman("secret", "create", name, path)
	t.Cleanup(func() { b.podman("secret", "rm", name) })
	old := b.oldPodman()
	code := 0
	if old {
		code = 125
	}
	r := b.want(code, "run", "--pull", "always", b.withLogin(ref, "podman:"+name))
	if old && !strings.Contains(r.err, "file:/PATH") {
		t.Errorf("it says %s", r.err)
	}
}

// insteadOf answers with what is under another path.
func insteadOf(asked, sent string) registrytest.Action {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		r.URL.Path = strings.Replace(r.URL.Path, asked, sent, 1)
		next.ServeHTTP(w, r)
	}
}

// The task runs what was resolved or fails: --pull default makes do with no local copy
// either.
func TestRegistryThatLiesAboutADigestRunsNothing(t *testing.T) {
	t.Parallel()
	for _, pull := range []string{"always", "default"} {
		t.Run(pull, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			ref, asked := b.push("app:1", b.freshImage("asked"))
			_, sent := b.push("app:2", b.freshImage("sent"))
			b.localCopy(ref)
			b.fault("GET", "app", "manifests/"+asked, 0, insteadOf(asked, sent))
			r := b.want(125, "run", "--name", b.family, "--pull", pull, b.define(ctr{Name: "app", Image: ref, Command: words("env SALT")}))
			if strings.Contains(r.out, "SALT") || count(b.events(), "app CREATED") > 0 {
				t.Errorf("something ran: %s", r.out)
			}
			reason := b.inspect(b.family).StoppedReason
			for _, want := range []string{"CannotPullContainerError", "sends wrong data"} {
				if !strings.Contains(reason, want) {
					t.Errorf("%s does not say %q", reason, want)
				}
			}
		})
	}
}

func TestBlobThatIsNotWhatItsDigestSaysRunsNothing(t *testing.T) {
	t.Parallel()
	for _, blob := range []string{"configuration", "layer"} {
		t.Run(blob, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			img := b.freshImage("app")
			ref, _ := b.push("app:1", img)
			b.localCopy(ref)
			digest, err := img.ConfigName()
			if blob == "layer" {
				digest = firstLayer(t, img)
			}
			if err != nil {
				t.Fatal(err)
			}
			b.fault("GET", "app", "blobs/"+digest.String(), 0, registrytest.Body("application/octet-stream", []byte("something else")))
			for _, pull := range []string{"always", "default"} {
				if r := b.want(125, "run", "--pull", pull, b.hello(ref)); !strings.Contains(r.err, "sends wrong data") {
					t.Errorf("--pull %s: it says %s", pull, r.err)
				}
			}
			if count(b.events(), "app CREATED") > 0 {
				t.Error("something was made")
			}
		})
	}
}

// firstLayer is the digest of an image's first layer.
func firstLayer(t *testing.T, img v1.Image) v1.Hash {
	t.Helper()
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	digest, err := layers[0].Digest()
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

// A pull that stands still is ended and tried again, by servers with and without byte
// progress: where a layer has not begun, and in the middle of one.
func TestPullThatStallsIsTriedAgain(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		limits []string
		do     registrytest.Action
	}{
		{"before a layer", []string{"PODTASK_PULL_IDLE=90s", "PODTASK_PULL_FIRST_BYTE=8s"}, registrytest.Hang(nil)},
		{"in a layer", []string{"PODTASK_PULL_IDLE=4s", "PODTASK_PULL_FIRST_BYTE=90s"}, registrytest.Slow(1<<15, time.Hour)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			b.env = append(b.env, tc.limits...)
			img := b.freshImage("app")
			ref, _ := b.push("app:1", img)
			rule := b.fault("GET", "app", "blobs/"+firstLayer(t, img).String(), 1, tc.do)
			if r := b.want(0, "run", "--pull", "always", b.hello(ref)); rule.Hits() == 0 || !strings.Contains(r.out, "hello") {
				t.Errorf("the fault was met %d times; it printed %s", rule.Hits(), r.out)
			}
		})
	}
}

// What is asked of registries costs no more than it must, and what was used a moment
// ago, or was there before, is not removed.
func TestImageVerbs(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	ref, digest := b.push("app:1", b.freshImage("app"))
	other, _ := b.push("other:1", b.freshImage("other"))
	if got := b.want(0, "image", "resolve", ref).out; !strings.Contains(got, digest[:19]) || !strings.Contains(got, "linux/amd64") {
		t.Errorf("resolve: %s", got)
	}
	if n := len(b.requests("^GET .*/manifests/")); n != 1 {
		t.Errorf("%d manifests were read, want 1", n)
	}
	if got := strings.TrimSpace(b.want(0, "image", "resolve", "--quick", "-q", ref).out); got != digest {
		t.Errorf("resolve --quick: %s", got)
	}
	if n := len(b.requests("^GET .*/manifests/")); n != 1 {
		t.Error("--quick read a manifest")
	}
	b.podman("pull", "-q", "--authfile", bed.auth, other) // of another user
	for _, image := range []string{ref, other} {
		b.want(0, "run", "--rm", b.hello(image))
	}
	list := b.want(0, "image", "ls", "--format", "json").out
	if !strings.Contains(list, digest) {
		t.Errorf("ls: %s", list)
	}
	// Both were used this moment, and one was there before; that is said.
	if got := b.want(0, "image", "prune", "-q").out; got != "" {
		t.Errorf("prune removed %s", got)
	}
	if got := b.want(0, "image", "prune").err; !strings.Contains(got, "removed nothing; `podtask image ls` says why") {
		t.Errorf("prune says %s", got)
	}
	list = b.want(0, "image", "ls").out
	for ref, why := range map[string]string{ref: "used in the last ten minutes", other: "was there before"} {
		if !regexp.MustCompile("(?m)" + regexp.QuoteMeta(ref) + " .*" + why).MatchString(list) {
			t.Errorf("ls does not say of %s that it %s:\n%s", ref, why, list)
		}
	}
	b.podman("image", "exists", ref)
	b.podman("image", "exists", other)
}
