//go:build e2e && (bed_systemd || bed_vm)

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMinimumAgeOfAUnit: neither a restart nor auto-update takes an image that the host has not known for long enough,
// what waits is listed, and --now takes it.
func TestMinimumAgeOfAUnit(t *testing.T) {
	u := newUnits(t)
	image := bed.reg.Ref(u.repository("app:1"))
	first := u.version("1")
	service := u.task("web", u.define(ctr{Name: "app", Image: image, Command: words("term 0 -- sleep forever")}), "", "AutoUpdate=registry\nMinimumAge=1h\nPodtaskArgs=--settle=1s", "")
	u.systemctl("daemon-reload")
	u.systemctl("start", service)
	runs := func(digest string) {
		t.Helper()
		if r := u.want(0, "inspect", u.name("web")); !strings.Contains(r.out, digest) {
			t.Errorf("another image than %s runs:\n%s\n%s", digest, r.out, u.journal())
		}
	}
	runs(first)
	second := u.version("2")
	u.systemctl("restart", service)
	runs(first)
	if got := u.updates(0); got != "false" {
		t.Errorf("auto-update says %s", got)
	}
	runs(first)

	var waiting []struct{ Image, For, Digest, NewDigest, Since, Until, Why string }
	r := u.want(0, "image", "pending", "--format", "json")
	if err := json.Unmarshal([]byte(r.out), &waiting); err != nil || len(waiting) != 1 {
		t.Fatalf("%v in %s", err, r.out)
	}
	if w := waiting[0]; w.Image != image || w.For != "unit "+service || w.Digest != first || w.NewDigest != second || w.Until <= w.Since || !strings.Contains(w.Why, "the minimum age is 1h") {
		t.Errorf("%+v", w)
	}
	if r := u.want(0, "why", u.name("web")); !strings.Contains(r.out, "the minimum age is 1h") {
		t.Errorf("why says %s", r.out)
	}
	if got := u.updates(0, "--now", image, "--dry-run"); got != "pending" {
		t.Errorf("a dry run of --now says %s", got)
	}
	runs(first)
	if got := u.updates(0, "--now", image); got != "true" {
		t.Errorf("auto-update --now says %s", got)
	}
	runs(second)
	u.systemctl("restart", service)
	runs(second)
	u.version("1") // the tag returns to what has no age yet
	u.systemctl("restart", service)
	runs(second)
	if r := u.want(125, "auto-update", "--now", image+"x"); !strings.Contains(r.err, "no running unit with AutoUpdate=registry and no service with --auto-update registry has this image") {
		t.Errorf("--now of an image that nobody has: %s", r.err)
	}
}

// TestMinimumAgeWithoutEffect: an age on pinned images is refused with its line.
func TestMinimumAgeWithoutEffect(t *testing.T) {
	b := newBox(t)
	file := filepath.Join(t.TempDir(), "web.json")
	text := "{\"family\": \"web\",\n \"x-podtask\": {\"minimumAge\": \"3d\"},\n \"containerDefinitions\": [{\"name\": \"app\", \"memory\": 64, \"image\": \"app@sha256:" + strings.Repeat("a", 64) + "\"}]}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := b.podtask("run", file); r.code == 0 || !strings.Contains(r.err, "web.json:2:") || !strings.Contains(r.err, "the minimum age 3d has no effect") {
		t.Errorf("%d, %s", r.code, r.err)
	}
}
