package imagestore_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/engine/act/imagestore"
)

// The policy of the user comes before that of the host.
func TestTrustIsThatOfTheUsersPolicy(t *testing.T) {
	t.Parallel()
	config := t.TempDir()
	r := &imagestore.Resolver{Getenv: func(name string) string { return map[string]string{"XDG_CONFIG_HOME": config}[name] }}
	file := filepath.Join(config, "containers", "policy.json")
	err := os.Mkdir(filepath.Dir(file), 0o700)
	if err == nil {
		err = os.WriteFile(file, []byte(`{"default": [{"type": "signedBy", "keyType": "GPGKeys", "keyPath": "/keys/team.gpg"}]}`), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Trust("ghcr.io/team/web:1"); got != "the image is signed by /keys/team.gpg" {
		t.Errorf("it says %s", got)
	}
	if got := r.Trust("localhost/web:1"); got != "" {
		t.Errorf("of an image that is not pulled it says %s", got)
	}
	if err := os.WriteFile(file, []byte(`[]`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := r.Trust("ghcr.io/team/web:1"); !strings.HasPrefix(got, file+": the signature policy is not valid") {
		t.Errorf("of a damaged policy it says %s", got)
	}
}
