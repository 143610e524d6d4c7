package main

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
)

// The provenance of a release names each of its files by its checksum, the commit, and each module by the sum of go.sum.
// The checksums, which are signed, cover it.
func TestProvenance(t *testing.T) {
	b := testBuild(t)
	dir := release(t, b)
	const name = "podtask-1.2.3.provenance.json"
	sumOf(t, dir, name)
	var s struct {
		Type          string `json:"_type"`
		PredicateType string
		Subject       []resource
		Predicate     provenance
	}
	if err := json.Unmarshal([]byte(read(t, dir, name)), &s); err != nil {
		t.Fatal(err)
	}
	if s.Type != "https://in-toto.io/Statement/v1" || s.PredicateType != "https://slsa.dev/provenance/v1" {
		t.Errorf("it is a %s with %s", s.Type, s.PredicateType)
	}
	if n := strings.Count(read(t, dir, "SHA256SUMS"), "\n") - 1; len(s.Subject) != n {
		t.Errorf("it is about %d files of %d", len(s.Subject), n)
	}
	for _, file := range s.Subject {
		if file.Digest["sha256"] != sumOf(t, dir, file.Name) {
			t.Errorf("%s has another checksum in SHA256SUMS", file.Name)
		}
	}
	digests := map[string]map[string]string{}
	for _, r := range s.Predicate.BuildDefinition.ResolvedDependencies {
		digests[r.URI] = r.Digest
	}
	if got := digests["git+https://github.com/podtask/podtask@refs/tags/v1.2.3"]["gitCommit"]; got != testCommit {
		t.Errorf("the commit is %q", got)
	}
	const module = "pkg:golang/github.com/blakesmith/ar@v0.0.0-20190502131153-809d4375e1fb"
	if got := digests[module]["dirHash"]; got != hexSum(t, b.root, "github.com/blakesmith/ar v0.0.0-20190502131153-809d4375e1fb") {
		t.Errorf("the sum of %s is %q", module, got)
	}
	if s.Predicate.RunDetails.Builder.ID == "" || s.Predicate.BuildDefinition.BuildType == "" {
		t.Error("it does not say who built how")
	}
	t.Setenv("COMMIT", "main")
	if err := b.writeProvenance(dir); err == nil {
		t.Error("a branch is taken for a commit")
	}
}

// hexSum is the sum of a module in go.sum of hack/package, in hexadecimal.
func hexSum(t *testing.T, root, module string) string {
	t.Helper()
	for line := range strings.Lines(read(t, root, "hack/package/go.sum")) {
		if sum, ok := strings.CutPrefix(line, module+" h1:"); ok {
			data, err := base64.StdEncoding.DecodeString(strings.TrimSpace(sum))
			if err != nil {
				t.Fatal(err)
			}
			return hex.EncodeToString(data)
		}
	}
	t.Fatalf("go.sum has no %s", module)
	return ""
}
