package kubefiles

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/opencontainers/selinux/go-selinux/label"
)

// The names in a volume that are not the Pod's: current is a link to the directory with the
// present files, and the Pod's names are links to what is below it. Kubernetes does not let
// a Pod have names that begin so.
const (
	current = "..data"
	next    = "..data_next"
	prefix  = "..files_"
)

// labelOfFiles is the SELinux label of files that every container may read.
const labelOfFiles = "system_u:object_r:container_file_t:s0"

// Write makes files the content of the directory dir. A program that reads it sees the files
// of before or those of now, never a mixture, if it opens them by way of the same directory.
// It returns false if they were there already.
func Write(dir string, files []File) (changed bool, err error) {
	if same(dir, files) {
		return false, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return false, err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // whatever the umask is
		return false, err
	}
	made, err := os.MkdirTemp(dir, prefix)
	if err != nil {
		return false, err
	}
	err = fill(made, files)
	if err == nil {
		err = label.Relabel(dir, labelOfFiles, true)
	}
	if errors.Is(err, errors.ErrUnsupported) { // the disk of dir has no labels
		err = nil
	}
	if err == nil {
		err = turn(dir, filepath.Base(made))
	}
	if err != nil {
		return false, errors.Join(err, os.RemoveAll(made))
	}
	return true, tidy(dir, filepath.Base(made), files)
}

// fill writes files into a new directory.
func fill(dir string, files []File) error {
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	for _, f := range files {
		at := filepath.Join(dir, filepath.FromSlash(f.Path))
		for below := dir; below != filepath.Dir(at); {
			rest, err := filepath.Rel(below, at)
			if err != nil {
				return err
			}
			first, _, _ := strings.Cut(rest, string(filepath.Separator))
			below = filepath.Join(below, first)
			if err := os.Mkdir(below, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
			if err := os.Chmod(below, 0o755); err != nil {
				return err
			}
		}
		if err := os.WriteFile(at, f.Data, 0o600); err != nil {
			return err
		}
		if err := os.Chmod(at, fs.FileMode(f.Mode)); err != nil {
			return err
		}
	}
	return nil
}

// turn makes the link current one to the directory name.
func turn(dir, name string) error {
	link := filepath.Join(dir, next)
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(name, link); err != nil {
		return err
	}
	return os.Rename(link, filepath.Join(dir, current))
}

// tidy makes a link for each name of the Pod and removes all else but the directory name.
func tidy(dir, name string, files []File) error {
	want := make(map[string]bool)
	var errs []error
	for _, f := range files {
		first, _, _ := strings.Cut(f.Path, "/")
		want[first] = true
		err := os.Symlink(filepath.Join(current, first), filepath.Join(dir, first))
		if err != nil && !errors.Is(err, fs.ErrExist) {
			errs = append(errs, err)
		}
	}
	entries, err := os.ReadDir(dir)
	errs = append(errs, err)
	for _, e := range entries {
		if e.Name() != current && e.Name() != name && !want[e.Name()] {
			errs = append(errs, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return errors.Join(errs...)
}

// same reports whether a directory has these files and no others.
func same(dir string, files []File) bool {
	want := make(map[string]File)
	for _, f := range files {
		want[f.Path] = f
	}
	root := filepath.Join(dir, current) + string(filepath.Separator)
	seen := 0
	err := filepath.WalkDir(root, func(at string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(root, at)
		if err != nil {
			return err
		}
		f, known := want[filepath.ToSlash(name)]
		info, err := e.Info()
		if err != nil || !known || info.Mode().Perm() != fs.FileMode(f.Mode).Perm() {
			return fs.ErrInvalid
		}
		data, err := os.ReadFile(at)
		if err != nil || !bytes.Equal(data, f.Data) {
			return fs.ErrInvalid
		}
		seen++
		return nil
	})
	return err == nil && seen == len(files)
}
