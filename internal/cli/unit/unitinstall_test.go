package unit

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// A definition and the files of variables that it names relative to itself are installed together.
func TestFilesOfVariablesThatADefinitionNames(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const text = `{"family": "x", "containerDefinitions": [{"name": "a", "image": "localhost/bb:1", "environmentFiles": [
		{"type": "s3", "value": "a.env"}, {"type": "s3", "value": "/srv/b.env"}, {"type": "s3", "value": "../c.env"}, {"type": "s3", "value": "arn:aws:s3:::b/d.env"}, {"type": "s3", "value": "sub/e.env"}]}]}`
	if err := os.WriteFile(filepath.Join(dir, "x.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := environmentFiles(dir, "x.json"); !slices.Equal(got, []string{"a.env", "sub/e.env"}) {
		t.Errorf("%q", got)
	}
	if got := environmentFiles(dir, "none.json"); got != nil {
		t.Errorf("%q", got)
	}
}
