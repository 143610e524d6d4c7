package host

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

func archiveOf(t *testing.T, files [][2]string) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: f[0], Mode: 0o600, Size: int64(len(f[1]))}
		if link, ok := strings.CutPrefix(f[1], "-> "); ok {
			h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, link, 0
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := io.WriteString(w, f[1]); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

// TestLayersThatTheHostHasAreLeftOut: of an OCI archive they are gone, of a Docker archive they are empty; all else is
// as it was.
func TestLayersThatTheHostHasAreLeftOut(t *testing.T) {
	t.Parallel()
	a, b := strings.Repeat("a", 64), strings.Repeat("b", 64)
	for name, c := range map[string]struct{ files, want [][2]string }{
		"oci": {
			[][2]string{{"blobs/sha256/" + a, "layer a"}, {"blobs/sha256/" + b, "layer b"}, {"blobs/sha256/" + strings.Repeat("c", 64), "{}"}, {"index.json", "{}"}},
			[][2]string{{"blobs/sha256/" + b, "layer b"}, {"blobs/sha256/" + strings.Repeat("c", 64), "{}"}, {"index.json", "{}"}},
		},
		"docker": {
			[][2]string{{a + ".tar", "layer a"}, {b + ".tar", "layer b"}, {"x/layer.tar", "-> ../" + a + ".tar"}, {"manifest.json", "[]"}},
			[][2]string{{a + ".tar", ""}, {b + ".tar", "layer b"}, {"x/layer.tar", "-> ../" + a + ".tar"}, {"manifest.json", "[]"}},
		},
	} {
		var out bytes.Buffer
		s := &sender{there: map[string]bool{"sha256:" + a: true}, layers: 2, now: time.Now}
		if err := s.copy(&out, archiveOf(t, c.files)); err != nil {
			t.Fatal(err)
		}
		if want := archiveOf(t, c.want); !bytes.Equal(out.Bytes(), want.Bytes()) {
			t.Errorf("%s: %q, want %q", name, out.String(), want)
		}
	}
}

// TestAnArchiveThatIsCutIsAnError: a podman save that ends early is not taken for a whole image.
func TestAnArchiveThatIsCutIsAnError(t *testing.T) {
	t.Parallel()
	whole := archiveOf(t, [][2]string{{"blobs/sha256/a", strings.Repeat("x", 2000)}}).Bytes()
	var said []string
	s := &sender{layers: 1, now: time.Now, progress: func(text string) { said = append(said, text) }}
	if err := s.copy(io.Discard, bytes.NewReader(whole[:1000])); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%v", err)
	}
}
