//go:build e2e

//e2e:bed plain

package e2e

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/podtask/podtask/internal/testing/registrytest"
)

// foreign is Debian's docker-registry, which is not part of this project: TLS with a
// private CA, and passwords in a file of htpasswd.
type foreign struct {
	addr string
	ca   []byte
}

// htpasswd lets tester in with the password of the tests (bcrypt).
const htpasswd = "tester:$2a$04$jHpwpJLQV7Z4pcwVIKh24uTs6Z4ea7nwy6sarK0lBTRPntwpU6ZFG\n"

var listening = regexp.MustCompile(`listening on (127\.0\.0\.1:\d+)`)

// foreignRegistry starts one for the test.
func (b *box) foreignRegistry() *foreign {
	b.t.Helper()
	program := os.Getenv("PODTASK_REGISTRY")
	if _, err := os.Stat(program); err != nil {
		b.t.Skip("no docker-registry: hack/e2e build says why")
	}
	ca, cert, key, err := registrytest.Certificate()
	if err != nil {
		b.t.Fatal(err)
	}
	conf, err := json.Marshal(obj{ // YAML too
		"version": 0.1,
		"storage": obj{"filesystem": obj{"rootdirectory": filepath.Join(b.dir, "registry")}},
		"auth":    obj{"htpasswd": obj{"realm": "foreign", "path": b.file("htpasswd", htpasswd)}},
		"http": obj{"addr": "127.0.0.1:0", "tls": obj{
			"certificate": b.file("server.crt", string(cert)), "key": b.file("server.key", string(key)),
		}},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	cmd := exec.Command(program, "serve", b.file("registry.yml", string(conf)))
	log, err := cmd.StderrPipe()
	if err != nil {
		b.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	addr := make(chan string, 1)
	go func() {
		defer close(addr)
		for s := bufio.NewScanner(log); s.Scan(); {
			if m := listening.FindStringSubmatch(s.Text()); m != nil {
				addr <- m[1]
			}
		}
	}()
	b.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	select {
	case a, ok := <-addr:
		if !ok {
			b.t.Fatal("docker-registry ended at once")
		}
		return &foreign{addr: a, ca: ca}
	case <-time.After(patience):
		b.t.Fatal("docker-registry never listens")
		return nil
	}
}

// push puts an image there over the network.
func (f *foreign) push(t *testing.T, repository string, img v1.Image) (ref, digest string) {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(f.ca)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	defer transport.CloseIdleConnections()
	ref = f.addr + "/" + repository
	tag, err := name.NewTag(ref)
	if err != nil {
		t.Fatal(err)
	}
	login := remote.WithAuth(&authn.Basic{Username: "tester", Password: password})
	if err := remote.Write(tag, img, login, remote.WithTransport(transport)); err != nil {
		t.Fatal(err)
	}
	hash, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return ref, hash.String()
}

// trust puts the registry's CA where podtask and Podman look for it.
func (f *foreign) trust(t *testing.T) {
	t.Helper()
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(home, ".config", "containers", "certs.d", f.addr)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.WriteFile(filepath.Join(dir, "ca.crt"), f.ca, 0o600); err != nil {
		t.Fatal(err)
	}
}

// login logs the test in as podman login does, and nowhere else.
func (f *foreign) login(b *box) {
	b.t.Helper()
	auth := filepath.Join(b.dir, "foreign-auth.json")
	cmd := exec.Command("podman", "login", "--authfile", auth, "--username", "tester", "--password-stdin", f.addr)
	cmd.Stdin = strings.NewReader(password)
	if out, err := cmd.CombinedOutput(); err != nil {
		b.t.Fatalf("podman login: %v %s", err, out)
	}
	b.env = append(b.env, "REGISTRY_AUTH_FILE="+auth)
}

func TestForeignRegistry(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	f := b.foreignRegistry()
	repository := b.repository("app")
	ref, digest := f.push(t, repository+":1", b.freshImage("app"))
	t.Cleanup(func() { _ = exec.Command("podman", "rmi", "--force", ref, ref[:len(ref)-2]+"@"+digest).Run() })
	fails := func(what, ref string, wants ...string) {
		t.Helper()
		for _, args := range [][]string{{"image", "resolve", ref}, {"run", "--pull", "always", b.hello(ref)}} {
			r := b.want(125, args...)
			for _, want := range wants {
				if !strings.Contains(r.err, want) {
					t.Errorf("%s: %v does not say %q:\n%s", what, args, want, r.err)
				}
			}
			if strings.Contains(r.out+r.err, "horse") {
				t.Errorf("%s: the password is shown:\n%s", what, r.err)
			}
		}
	}
	fails("unknown CA", ref, "certs.d/"+f.addr+"/ca.crt")
	f.trust(t)
	b.anonymous()
	fails("no login", ref, "podman login "+f.addr)
	auth := fmt.Sprintf(`{"auths": {%q: {"auth": "dGVzdGVyOndyb25nLWhvcnNl"}}}`, f.addr) // tester:wrong-horse
	b.env = append(b.env, "REGISTRY_AUTH_FILE="+b.file("wrong-auth.json", auth))
	fails("wrong password", ref, "rejected the stored credentials", "podman login "+f.addr)
	f.login(b)
	fails("no such tag", f.addr+"/"+repository+":2", "there is no tag 2 in "+f.addr+"/"+repository)
	fails("no such repository", f.addr+"/nothing:1", f.addr+"/nothing")
	if got := b.want(0, "image", "resolve", ref).out; !strings.Contains(got, digest[:19]) || !strings.Contains(got, "linux/amd64") {
		t.Errorf("resolve: %s", got)
	}
	if got := strings.TrimSpace(b.want(0, "image", "resolve", "--quick", "-q", ref).out); got != digest {
		t.Errorf("resolve --quick: %s, want %s", got, digest)
	}
	if r := b.want(0, "run", "--name", b.family, "--pull", "always", b.hello(ref)); !strings.Contains(r.out, "hello") {
		t.Errorf("it printed %q", r.out)
	}
	if c := b.inspect(b.family).Containers[0]; c.ImageDigest != digest || c.ImageSource != "registry" {
		t.Errorf("digest %s from the %s, want %s", c.ImageDigest, c.ImageSource, digest)
	}
}

// mirrored is the namespace of the registry that has a mirror (see trustRegistry).
const mirrored = "mirrored/"

// atMirror puts an image into the mirror.
func (b *box) atMirror(repository string, img v1.Image) (digest string) {
	b.t.Helper()
	digest, err := bed.mirror.Push(mirrored+b.repository(repository), img)
	if err != nil {
		b.t.Fatal(err)
	}
	return digest
}

// atOrigin puts an image into the registry that the mirror stands in for.
func (b *box) atOrigin(repository string, img v1.Image) (ref, digest string) {
	b.t.Helper()
	digest, err := bed.reg.Push(mirrored+b.repository(repository), img)
	if err != nil {
		b.t.Fatal(err)
	}
	return bed.reg.Ref(mirrored + b.repository(repository)), digest
}

// asked counts a registry's requests for a repository's manifests and layers.
func asked(reg *registrytest.Registry, repository string) (n int) {
	for _, r := range reg.Log() {
		if strings.HasPrefix(r.Path, "/v2/"+mirrored+repository+"/") {
			n++
		}
	}
	return n
}

func TestMirrorIsAskedFirst(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.atMirror("app:1", b.freshImage("app"))
	ref, digest := b.atOrigin("app:1", b.freshImage("app"))
	b.want(0, "run", "--name", b.family, "--pull", "always", b.hello(ref))
	if got := b.inspect(b.family).Containers[0].ImageDigest; got != digest {
		t.Errorf("digest %s, want %s", got, digest)
	}
	if n := asked(bed.reg, b.repository("app")); n > 0 || asked(bed.mirror, b.repository("app")) == 0 {
		t.Errorf("the origin had %d requests", n)
	}
}

func TestMirrorThatLacksAnImageIsPassedOver(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	ref, digest := b.atOrigin("app:1", b.freshImage("app"))
	b.want(0, "run", "--name", b.family, "--pull", "always", b.hello(ref))
	if got := b.inspect(b.family).Containers[0].ImageDigest; got != digest {
		t.Errorf("digest %s, want %s", got, digest)
	}
	if asked(bed.mirror, b.repository("app")) == 0 {
		t.Error("the mirror was not asked")
	}
}

// A mirror that has an older image under the tag is believed, as Podman does; what
// then runs is what was reported, whatever the origin has.
func TestMirrorThatDisagreesAboutATag(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	digest := b.atMirror("app:1", b.freshImage("mirror"))
	ref, _ := b.atOrigin("app:1", b.freshImage("origin"))
	r := b.want(0, "run", "--name", b.family, "--pull", "always", b.define(ctr{Name: "app", Image: ref, Command: words("env SALT")}))
	if got := b.inspect(b.family).Containers[0].ImageDigest; got != digest || !strings.Contains(r.out, "SALT=mirror") {
		t.Errorf("digest %s was reported and it printed %s", got, r.out)
	}
}

// A mirror that sends something else under a digest than the digest says: the
// origin's image runs or nothing does.
func TestMirrorThatDisagreesAboutADigest(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	ref, digest := b.atOrigin("app:1", b.freshImage("app"))
	b.atMirror("app:1", b.freshImage("app"))
	other := b.atMirror("app:2", b.freshImage("other"))
	rule := bed.mirror.Fault("GET", "^/v2/"+mirrored+b.repository("app")+"/manifests/"+digest, 0, insteadOf(digest, other))
	t.Cleanup(rule.Remove)
	r := b.podtask("run", "--name", b.family, "--pull", "always", b.define(ctr{Name: "app", Image: ref, Command: words("env SALT")}))
	c := b.inspect(b.family).Containers[0]
	if rule.Hits() == 0 || strings.Contains(r.out, "SALT=other") || r.code == 0 && c.ImageDigest != digest || r.code != 0 && count(b.events(), "app CREATED") > 0 {
		t.Errorf("code %d, digest %s; it printed\n%s%s", r.code, c.ImageDigest, r.out, r.err)
	}
}

// A container's own credentials are for the registry that its image names.
func TestMirrorIsNotShownTheContainersCredentials(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.anonymous()
	ref, _ := b.atOrigin("app:1", b.freshImage("app"))
	rule := bed.mirror.Fault("", "^/v2/"+mirrored+b.repository("app")+"/", 0, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Header.Get("Authorization") != "" {
			t.Errorf("the mirror was shown a login for %s %s", r.Method, r.URL.Path)
		}
		next.ServeHTTP(w, r)
	})
	t.Cleanup(rule.Remove)
	b.want(0, "run", "--pull", "always", b.withLogin(ref, b.loginFile(0o600, loginJSON)))
	if rule.Hits() == 0 {
		t.Error("the mirror was not asked")
	}
}
