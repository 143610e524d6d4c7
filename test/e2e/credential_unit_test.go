//go:build e2e && bed_systemd

package e2e

import (
	"os"
	"strings"
	"testing"
)

// A unit's credential (LoadCredential=) lets its task into a registry.
func TestUnitGivesItsTaskACredential(t *testing.T) {
	u := newUnits(t)
	u.anonymous()
	ref, digest := u.push("app:1", u.freshImage("app"))
	login := strings.TrimPrefix(u.loginFile(0o600, loginJSON), "file:")
	empty := ""
	for _, v := range u.env {
		if path, ok := strings.CutPrefix(v, "REGISTRY_AUTH_FILE="); ok {
			empty = path
		}
	}
	definition := u.withLogin(ref, "credential:registry")
	text, err := os.ReadFile(definition)
	if err != nil {
		t.Fatal(err)
	}
	lasting := strings.Replace(string(text), `"print","hello"`, `"term","0","--","sleep","forever"`, 1)
	if err := os.WriteFile(definition, []byte(lasting), 0o600); err != nil || lasting == string(text) {
		t.Fatalf("%v: %s", err, text)
	}
	service := u.task("web", definition, "", "Pull=always", "Environment=REGISTRY_AUTH_FILE="+empty+"\nLoadCredential=registry:"+login)
	u.systemctl("daemon-reload")
	u.systemctl("start", service)
	if got := u.inspect(u.name("web")).Containers[0]; got.ImageDigest != digest || got.ImageSource != "registry" {
		t.Errorf("digest %s from the %s, want %s\n%s", got.ImageDigest, got.ImageSource, digest, u.journal())
	}
	if strings.Contains(u.journal(), password) {
		t.Error("the password is in the journal")
	}
}
