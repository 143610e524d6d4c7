//go:build e2e && (bed_plain || bed_systemd)

//e2e:bed systemd

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/podtask/podtask/internal/testing/registrytest"
)

// greeter is an image of testbox with a greeting; it ends at once with the arguments before.
func (b *box) greeter(greeting string, before ...string) (ref, digest string) {
	b.t.Helper()
	img, err := registrytest.Image(v1.Config{Entrypoint: append([]string{"/testbox"}, before...), Env: []string{"GREETING=" + greeting}},
		registrytest.File{Path: "/tmp/", Mode: 0o1777}, registrytest.File{Path: "/testbox", Data: bed.testbox})
	if err != nil {
		b.t.Fatal(err)
	}
	return b.push("app:1", img)
}

// hours is a host whose time passes only for commands.
type hours struct {
	*box
	passed int
}

// later runs podtask when 25 more hours have passed, by the clock of the host that no one can set.
func (b *hours) later(code int, args ...string) result {
	b.t.Helper()
	b.passed += 25
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		b.t.Fatal(err)
	}
	return b.startWith(func(c *exec.Cmd) {
		c.Args = append([]string{unshare, "--user", "--map-current-user", "--time", "--boottime", fmt.Sprint(b.passed * 3600), c.Path}, c.Args[1:]...)
		c.Path = unshare
	}, args...).want(code)
}

// updated returns the result of auto-update for the image of the service.
func (b *box) updated(r result) (updated, waits string) {
	b.t.Helper()
	var rows []struct{ Service, Updated, Waits string }
	if err := json.Unmarshal([]byte(r.out), &rows); err != nil || len(rows) != 1 || rows[0].Service != b.family {
		b.t.Fatalf("%v in %s%s", err, r.out, r.err)
	}
	return rows[0].Updated, rows[0].Waits
}

// A service follows a tag: a day after this host has seen another image, auto-update deploys it, and no request is lost. What
// waits is listed, explained, and told to people. An image that fails is rolled back, and not tried again.
func TestServiceIsUpdatedAutomatically(t *testing.T) {
	t.Parallel()
	b := &hours{box: newBox(t)}
	h := &hook{}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	key := filepath.Join(b.dir, "key")
	if err := os.WriteFile(key, []byte(hookKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.configure(fmt.Sprintf("minimum-age = \"1d\"\n\n[[notify]]\nname = \"hook\"\non = [\"update-pending\", \"rolled-back\"]\nto = %q\nkey = \"file:%s\"\n", server.URL, key))
	b.agent()
	image, first := b.greeter("one")
	at := freePort(t)
	served := served("")
	served.Image, served.Environment = image, nil
	definition := b.define(served)
	b.want(0, "service", "create", b.family, definition, "--count=2", "--auto-update=registry", fmt.Sprintf("--listen=127.0.0.1:%d=app:8080", at), "--wait", "--timeout=4m")
	looked := b.family + "-looked" // nothing but the daily look asks for its tag
	b.want(0, "run", "-d", "--name", looked, "--wait=running", b.define(ctr{Name: "app", Image: bed.reg.Ref(b.repository("app:1")), Command: words("term 0 -- sleep forever")}))
	if r := b.want(125, "service", "update", b.family, "--auto-update=daily"); !strings.Contains(r.err, `"daily" is neither registry nor none`) {
		t.Errorf("another policy: %s", r.err)
	}

	_, second := b.greeter("two")
	if updated, waits := b.updated(b.later(0, "auto-update", "--format=json", b.family)); updated != "false" || !strings.Contains(waits, "the minimum age is 1d") {
		t.Errorf("auto-update says %s, %s", updated, waits)
	}
	b.wantAnswer(at, "one")
	var waiting []struct{ For, Digest, NewDigest, Why string }
	r := b.want(0, "image", "pending", "--format=json")
	if err := json.Unmarshal([]byte(r.out), &waiting); err != nil || len(waiting) != 2 || waiting[0].For != "service "+b.family || waiting[1].For != "task "+looked {
		t.Fatalf("%v in %s", err, r.out)
	}
	for _, w := range waiting {
		if w.Digest != first || w.NewDigest != second || w.Why == "" {
			t.Errorf("%+v", w)
		}
	}
	if r := b.want(0, "why", b.family); !strings.Contains(r.out, "the minimum age is 1d") {
		t.Errorf("why says %s", r.out)
	}
	eventually(t, "a notice of the update", func() bool {
		got, _ := h.lines()
		return strings.Contains(strings.Join(got, "\n"), "service "+b.family)
	})

	var done atomic.Bool
	asked := make(chan int)
	go func() {
		n := 0
		for ; !done.Load(); n++ {
			if text, err := askURL(fresh(), fmt.Sprintf("http://127.0.0.1:%d", at)); err != nil || text != "one" && text != "two" {
				t.Errorf("request %d was lost: %q, %v", n, text, err)
			}
			<-time.After(20 * time.Millisecond)
		}
		asked <- n
	}()
	if updated, waits := b.updated(b.later(0, "auto-update", "--format=json", b.family)); updated != "true" || waits != "" {
		t.Errorf("auto-update says %s, %s", updated, waits)
	}
	done.Store(true)
	t.Logf("%d requests", <-asked)
	b.wantAnswer(at, "two")
	if s := b.sleeper(); s.AutoUpdate != "registry" || s.HealthyCount != 2 || len(s.Deployments) != 1 {
		t.Errorf("%+v", s)
	}
	if updated, _ := b.updated(b.want(0, "auto-update", "--format=json", b.family)); updated != "false" {
		t.Errorf("with nothing new it says %s", updated)
	}

	// An image that fails.
	_, third := b.greeter("three", "exit", "3", "--")
	if updated, _ := b.updated(b.later(1, "auto-update", "--format=json", "--now="+image, b.family)); updated != "rolled back" {
		t.Errorf("auto-update of an image that fails says %s", updated)
	}
	b.wantAnswer(at, "two")
	for range 2 { // the second time it is old enough
		if updated, _ := b.updated(b.later(0, "auto-update", "--format=json", b.family)); updated != "false" {
			t.Errorf("what failed is tried again: %s", updated)
		}
	}
	if r := b.want(0, "image", "pending", "--format=json"); !strings.Contains(r.out, third) {
		t.Errorf("pending says %s", r.out)
	}
	b.want(0, "service", "update", b.family, "--auto-update=none", "--wait", "--timeout=4m")
	if s := b.sleeper(); s.AutoUpdate != "" || s.HealthyCount != 2 || s.Deployments[0].RolloutState != "COMPLETED" {
		t.Errorf("without automatic updates: %+v", s)
	}
	b.want(0, "rm", "--force", looked)
	b.removeService()
}
