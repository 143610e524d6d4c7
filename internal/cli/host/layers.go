package host

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/docker/go-units"
)

// sender copies the archive of an image without the layers that the other host has.
//
// Podman looks for each layer of an archive in its storage first, by the digest of its content, and reads it from the
// archive only if it is not there (containers/image, TryReusingBlob). The archive of an OCI image may lack such a
// layer; that of a Docker image needs a file for it, which may be empty.
type sender struct {
	there    map[string]bool // digests, sha256:HEX, of layers that are not sent
	layers   int             // of the image
	progress func(text string)
	now      func() time.Time

	sent  int
	bytes int64
}

// layerOf returns the digest of the layer that a file of an archive may be, and whether the archive is that of an
// OCI image.
func layerOf(name string) (digest string, oci bool) {
	if hex, ok := strings.CutPrefix(path.Clean(name), "blobs/sha256/"); ok {
		return "sha256:" + hex, true
	}
	if hex, ok := strings.CutSuffix(path.Clean(name), ".tar"); ok {
		return "sha256:" + hex, false
	}
	return "", false
}

// copy copies the archive.
func (s *sender) copy(to io.Writer, archive io.Reader) error {
	out := tar.NewWriter(to)
	in := tar.NewReader(archive)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read what podman save writes: %w", err)
		}
		digest, oci := layerOf(h.Name)
		have := h.Typeflag == tar.TypeReg && s.there[digest]
		if have && oci {
			continue
		}
		if have {
			h.Size = 0
		}
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		if have || h.Typeflag != tar.TypeReg {
			continue
		}
		if err := s.send(out, in, h); err != nil {
			return err
		}
	}
	return out.Close()
}

// smallFile is the size up to which a file is not counted as a layer.
const smallFile = 64 << 10

// pace is the time between two texts about the same layer.
const pace = 250 * time.Millisecond

func (s *sender) send(out io.Writer, in io.Reader, h *tar.Header) error {
	_, oci := layerOf(h.Name)
	layer := strings.HasSuffix(h.Name, ".tar") || oci && h.Size > smallFile
	if layer {
		s.sent++
	}
	var done int64
	last := time.Time{}
	buf := make([]byte, 64<<10)
	for {
		n, err := in.Read(buf)
		if n > 0 {
			if _, err := out.Write(buf[:n]); err != nil {
				return err
			}
			done += int64(n)
		}
		if now := s.now(); layer && s.progress != nil && (now.Sub(last) >= pace || err != nil) {
			last = now
			s.progress(fmt.Sprintf("layer %d of %d, %s of %s", s.sent, s.layers-len(s.there), units.HumanSize(float64(done)), units.HumanSize(float64(h.Size))))
		}
		if errors.Is(err, io.EOF) {
			s.bytes += done
			return nil
		}
		if err != nil {
			return fmt.Errorf("read what podman save writes: %w", err)
		}
	}
}
