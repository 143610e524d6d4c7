//go:build !install

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/blakesmith/ar"
)

// The distribution and the component of the repository for apt.
const (
	suite     = "stable"
	component = "main"
)

// repository makes a repository for apt, in the directory apt, of the debs in a directory and of those of earlier
// releases in another one, which may be empty. Its indices have no signature yet.
func (b build) repository(dir, earlier string) error {
	root := filepath.Join(dir, "apt")
	if err := os.RemoveAll(root); err != nil {
		return err
	}
	debs, err := findDebs(dir, earlier)
	if err != nil {
		return err
	}
	files := map[string][]byte{}
	indices := map[string]*bytes.Buffer{}
	for _, deb := range debs {
		data, err := os.ReadFile(deb)
		if err != nil {
			return err
		}
		name := inPool(filepath.Base(deb))
		if before, ok := files[name]; ok {
			if !bytes.Equal(before, data) {
				return fmt.Errorf("%s: another file of this name is in the release: a version is released once", deb)
			}
			continue
		}
		files[name] = data
		if err := index(indices, name, data); err != nil {
			return fmt.Errorf("%s: %w", deb, err)
		}
	}
	for name, data := range b.indexFiles(indices) {
		files[path.Join("dists", suite, name)] = data
	}
	for name, data := range files {
		to := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// findDebs returns the debs of a release and of earlier ones, in the order of their names.
func findDebs(dir, earlier string) ([]string, error) {
	debs, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil {
		return nil, err
	}
	if len(debs) == 0 {
		return nil, fmt.Errorf("%s has no debs", dir)
	}
	if earlier != "" {
		more, err := filepath.Glob(filepath.Join(earlier, "*.deb"))
		if err != nil {
			return nil, err
		}
		if len(more) == 0 {
			return nil, fmt.Errorf("%s has no debs of earlier releases", earlier)
		}
		debs = append(debs, more...)
	}
	slices.SortStableFunc(debs, func(a, b string) int { return strings.Compare(filepath.Base(a), filepath.Base(b)) })
	return debs, nil
}

// index adds a deb to the index of its architecture.
func index(indices map[string]*bytes.Buffer, name string, deb []byte) error {
	control, err := controlOf(deb)
	if err != nil {
		return err
	}
	arch, ok := field(control, "Architecture")
	if !ok {
		return errors.New("its control file has no architecture")
	}
	if indices[arch] == nil {
		indices[arch] = new(bytes.Buffer)
	}
	fmt.Fprintf(indices[arch], "%s\nFilename: %s\nSize: %d\nSHA256: %x\n\n", strings.TrimRight(control, "\n"), name, len(deb), sha256.Sum256(deb))
	return nil
}

func inPool(name string) string { return path.Join("pool", component, "p", "podtask", name) }

// indexFiles returns the files of the distribution: the indices of each architecture, plain and compressed, by name
// and by hash, and the file Release, which has the hashes.
func (b build) indexFiles(indices map[string]*bytes.Buffer) map[string][]byte {
	files := map[string][]byte{}
	var arches, hashes []string
	for arch, index := range indices {
		arches = append(arches, arch)
		dir := path.Join(component, "binary-"+arch)
		for name, data := range map[string][]byte{"Packages": index.Bytes(), "Packages.gz": compressed(index.Bytes())} {
			sum := fmt.Sprintf("%x", sha256.Sum256(data))
			files[path.Join(dir, name)] = data
			files[path.Join(dir, "by-hash", "SHA256", sum)] = data
			hashes = append(hashes, fmt.Sprintf(" %s %d %s\n", sum, len(data), path.Join(dir, name)))
		}
	}
	slices.Sort(arches)
	slices.SortFunc(hashes, func(a, b string) int {
		return strings.Compare(a[strings.LastIndex(a, " "):], b[strings.LastIndex(b, " "):])
	})
	files["Release"] = fmt.Appendf(nil, "Origin: podtask\nLabel: podtask\nSuite: %[1]s\nCodename: %[1]s\nDate: %s\nArchitectures: %s\nComponents: %s\n"+
		"Description: packages of podtask\nAcquire-By-Hash: yes\nSHA256:\n%s",
		suite, b.date.UTC().Format(time.RFC1123), strings.Join(arches, " "), component, strings.Join(hashes, ""))
	return files
}

// controlOf returns the control file of a deb that nfpm has made.
func controlOf(deb []byte) (string, error) {
	for archive := ar.NewReader(bytes.NewReader(deb)); ; {
		h, err := archive.Next()
		if err != nil {
			return "", fmt.Errorf("it has no control.tar.gz: %w", err)
		}
		if strings.TrimSuffix(h.Name, "/") != "control.tar.gz" {
			continue
		}
		zip, err := gzip.NewReader(archive)
		if err != nil {
			return "", err
		}
		for r := tar.NewReader(zip); ; {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				return "", errors.New("it has no control file")
			}
			if err != nil {
				return "", err
			}
			if path.Clean(h.Name) == "control" {
				text, err := io.ReadAll(r)
				return string(text), err
			}
		}
	}
}

// field returns a field of one line of a control file.
func field(control, name string) (string, bool) {
	for line := range strings.Lines(control) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(rest), true
		}
	}
	return "", false
}
