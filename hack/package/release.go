package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// checksums writes SHA256SUMS of the other files in a directory.
func checksums(dir string) error {
	files, err := subjects(dir, "")
	if err != nil {
		return err
	}
	var lines []string
	for _, f := range files {
		lines = append(lines, fmt.Sprintf("%s  %s\n", f.Digest["sha256"], f.Name))
	}
	slices.Sort(lines)
	return os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(strings.Join(lines, "")), 0o644)
}
