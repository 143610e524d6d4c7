package registrytest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path"
	"runtime"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// File is a file or, with a path that ends in "/", a directory of an image.
type File struct {
	Path string // absolute
	Mode int64  // permission bits, sticky bit included (01777); 0 means 0755
	Data []byte // nil for a directory
}

// Image makes an image of one layer with those files and the directories they
// need, in Docker's format (it has health checks, OCI's has not). An empty
// architecture and system become those of this machine, for which the programs
// are compiled. Equal arguments give an equal image.
func Image(config v1.Config, files ...File) (v1.Image, error) {
	return PlatformImage(v1.Platform{}, config, files...)
}

// ProgramImage makes an image that runs one static program: /NAME is its
// entrypoint, and there is a /tmp.
func ProgramImage(name string, program []byte) (v1.Image, error) {
	return Image(v1.Config{Entrypoint: []string{"/" + name}},
		File{Path: "/tmp/", Mode: 0o1777},
		File{Path: "/" + name, Data: program})
}

// PlatformImage is Image for another platform.
func PlatformImage(platform v1.Platform, config v1.Config, files ...File) (v1.Image, error) {
	contents, err := archive(files)
	if err != nil {
		return nil, fmt.Errorf("make image: %w", err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(contents)), nil
	}, tarball.WithCompressionLevel(gzip.BestSpeed))
	if err != nil {
		return nil, fmt.Errorf("make image: %w", err)
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, fmt.Errorf("make image: %w", err)
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("make image: %w", err)
	}
	file = file.DeepCopy()
	file.Config = config
	file.OS, file.Architecture, file.Variant = platform.OS, platform.Architecture, platform.Variant
	if file.OS == "" {
		file.OS = "linux"
	}
	if file.Architecture == "" {
		file.Architecture = runtime.GOARCH
	}
	return mutate.ConfigFile(img, file)
}

// Index makes an index of images for several platforms.
func Index(images ...v1.Image) (v1.ImageIndex, error) {
	var index v1.ImageIndex = empty.Index
	for _, img := range images {
		file, err := img.ConfigFile()
		if err != nil {
			return nil, fmt.Errorf("make index: %w", err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        img,
			Descriptor: v1.Descriptor{Platform: file.Platform()},
		})
	}
	return index, nil
}

// Random is size bytes that do not compress, the same for the same seed: for
// images whose pull takes a while.
func Random(size int, seed uint64) []byte {
	var key [32]byte
	for i := range 8 {
		key[i] = byte(seed >> (8 * i))
	}
	data := make([]byte, size)
	_, _ = rand.NewChaCha8(key).Read(data) // never fails
	return data
}

// archive is a tar of the files and the directories they need, all owned by root.
func archive(files []File) ([]byte, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	var errs []error
	for _, dir := range parents(files) {
		errs = append(errs, w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755}))
	}
	for _, f := range files {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(f.Path, "/"), Mode: f.Mode, Size: int64(len(f.Data))}
		if strings.HasSuffix(f.Path, "/") {
			header.Typeflag = tar.TypeDir
		}
		if header.Mode == 0 {
			header.Mode = 0o755
		}
		errs = append(errs, w.WriteHeader(header))
		_, err := w.Write(f.Data)
		errs = append(errs, err)
	}
	errs = append(errs, w.Close())
	return buf.Bytes(), errors.Join(errs...)
}

// parents lists the directories above the files that are not listed
// themselves, outermost first, each once.
func parents(files []File) []string {
	listed := map[string]bool{}
	for _, f := range files {
		listed[path.Clean(strings.TrimPrefix(f.Path, "/"))] = true
	}
	var dirs []string
	for _, f := range files {
		for dir := path.Dir(path.Clean(strings.TrimPrefix(f.Path, "/"))); dir != "."; dir = path.Dir(dir) {
			if !listed[dir] {
				dirs = append(dirs, dir)
			}
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}
