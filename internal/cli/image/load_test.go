package image

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"
)

func TestArchivesAreUncompressed(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := io.WriteString(w, "an archive"); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	cut := packed.String()[:packed.Len()-3]
	for from, want := range map[string]string{packed.String(): "an archive", "plain": "plain", "": "", "x": "x"} {
		r, err := uncompressed(strings.NewReader(from))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err != nil || string(got) != want {
			t.Errorf("%q: %q %v", from, got, err)
		}
	}
	r, err := uncompressed(strings.NewReader(cut))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); err == nil {
		t.Errorf("an archive that is cut: %q", got)
	}
}
