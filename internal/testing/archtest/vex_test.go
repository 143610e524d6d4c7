package archtest

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/blang/semver/v4"
)

// vulnerable has the code of each vulnerability that security/podtask.openvex.json says not to be in the programs:
// packages, or the first version of a module without it.
var vulnerable = map[string]struct {
	packages []string
	repaired map[string]string
}{
	"CVE-2026-121885": {packages: []string{"github.com/containers/podman/v5/pkg/autoupdate", "github.com/containers/podman/v5/pkg/api/server", "github.com/containers/podman/v5/libpod"}},
	"CVE-2026-111361": {repaired: map[string]string{"go.podman.io/image/v5": "v5.39.4"}},
}

func TestStatementsOnVulnerabilitiesAreTrue(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root(t), "security", "podtask.openvex.json"))
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Statements []struct {
			Vulnerability struct{ Name string }
			Products      []struct {
				Subcomponents []struct {
					ID string `json:"@id"`
				}
			}
			Status, Justification string
		}
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	version := map[string]string{}
	for _, r := range requirements(t) {
		version[r.Path] = r.Version
	}
	cmd := exec.Command("go", "list", "-deps", "-tags", buildTags, "./cmd/...")
	cmd.Dir = root(t)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	linked := strings.Fields(string(out))
	for _, s := range doc.Statements {
		name := s.Vulnerability.Name
		code, known := vulnerable[name]
		if !known || s.Status != "not_affected" || s.Justification != "vulnerable_code_not_present" {
			t.Errorf("%s: this test knows no way to check that it is %s, %s", name, s.Status, s.Justification)
		}
		for _, p := range code.packages {
			if slices.Contains(linked, p) {
				t.Errorf("%s: a program links %s", name, p)
			}
		}
		for module, first := range code.repaired {
			if v, err := semver.ParseTolerant(version[module]); err != nil || v.LT(semver.MustParse(first[1:])) {
				t.Errorf("%s: %s is %q, and %s is the first without the hole", name, module, version[module], first)
			}
		}
		for _, p := range s.Products {
			for _, c := range p.Subcomponents {
				module, at, _ := strings.Cut(strings.TrimPrefix(c.ID, "pkg:golang/"), "@")
				if version[module] != at {
					t.Errorf("%s is about %s, and go.mod has %s", name, c.ID, version[module])
				}
			}
		}
	}
	if len(doc.Statements) != len(vulnerable) {
		t.Errorf("%d statements, and this test knows %d", len(doc.Statements), len(vulnerable))
	}
}
