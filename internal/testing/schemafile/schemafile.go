package schemafile

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// Check fails a test if docs has another schema than this one. The last part of its ID is the name of the file, and docs
// is the path of the directory. UPDATE_GOLDEN=1 writes the file.
func Check(t *testing.T, docs, id string, schema any) {
	t.Helper()
	file := filepath.Join(docs, filepath.Base(id))
	want, err := json.MarshalIndent(schema, "", "    ")
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not the schema: %v; UPDATE_GOLDEN=1 writes it", file, err)
	}
}
