package importer

import (
	"strings"
	"testing"
)

// The formats of the part have names that can be typed, and rows.
func TestFormatsOfThePart(t *testing.T) {
	t.Parallel()
	for _, f := range Part().Formats() {
		if strings.Trim(f.Name, "abcdefghijklmnopqrstuvwxyz-") != "" || f.Title == "" || f.Schema == "" || len(f.Rows) < 10 {
			t.Errorf("%s %q %q: %d rows", f.Name, f.Title, f.Schema, len(f.Rows))
		}
	}
}
