//go:build remote && containers_image_openpgp

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Without the build tags nothing is compiled but the one file that says so; otherwise users
// of `go install` would see the errors of Podman's C libraries.
func TestAllFilesHaveTheBuildTags(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		line, _, _ := strings.Cut(string(text), "\n")
		if file != "notags.go" && (!strings.HasPrefix(line, "//go:build ") || !strings.Contains(line, "remote && containers_image_openpgp")) {
			t.Errorf("%s: the first line must be //go:build remote && containers_image_openpgp", file)
		}
	}
}
