package sshhost

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Files are files of this machine to send. Keys are absolute paths; each is found below the
// directory for sent files under the same path. A nil content is read from the path, which may
// be a directory.
type Files map[string][]byte

// Pack writes the files as a tar archive. Of a directory it writes regular files, directories and
// symbolic links.
func (f Files) Pack(w io.Writer) error {
	t := tar.NewWriter(w)
	for name, content := range f {
		if content != nil {
			h := &tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(filepath.ToSlash(name), "/"), Mode: 0o600, Size: int64(len(content))}
			if err := t.WriteHeader(h); err != nil {
				return err
			}
			if _, err := t.Write(content); err != nil {
				return err
			}
			continue
		}
		if err := PackTree(t, name, strings.TrimPrefix(filepath.ToSlash(name), "/")); err != nil {
			return err
		}
	}
	return t.Close()
}

// PackTree adds a file or a directory to an archive under a name.
func PackTree(t *tar.Writer, root, name string) error {
	return filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && p == root {
			info, err = os.Stat(p) // what the user names may be a link
		}
		if err != nil {
			return err
		}
		link := ""
		switch mode := info.Mode(); {
		case mode&fs.ModeSymlink != 0:
			if link, err = os.Readlink(p); err != nil {
				return err
			}
		case !mode.IsRegular() && !mode.IsDir():
			return fmt.Errorf("%s is neither a file nor a directory", p)
		}
		h, err := tar.FileInfoHeader(info, link)
		if err != nil {
			return err
		}
		h.Name = path.Join(name, filepath.ToSlash(rel))
		h.Uname, h.Gname, h.Uid, h.Gid = "", "", 0, 0
		if err := t.WriteHeader(h); err != nil || h.Typeflag != tar.TypeReg {
			return err
		}
		f, err := os.Open(p)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.CopyN(t, f, h.Size)
		if errors.Is(err, io.EOF) {
			err = fmt.Errorf("%s became shorter while it was sent", p)
		}
		return err
	})
}

// Unpack extracts an archive below a directory. Nothing is written outside of it, whatever names
// and links the archive has. With rename, the first component of each name is replaced
// by it; all names must have the same first component.
func Unpack(r io.Reader, root *os.Root, rename string) error {
	t := tar.NewReader(r)
	top := ""
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the archive: %w", err)
		}
		name := path.Clean(strings.TrimPrefix(h.Name, "/"))
		if name == "." {
			continue
		}
		if !filepath.IsLocal(name) {
			return fmt.Errorf("the archive names a file outside of its directory: %q", h.Name)
		}
		if rename != "" {
			first, rest, _ := strings.Cut(name, "/")
			if top == "" {
				top = first
			}
			if first != top {
				return fmt.Errorf("the archive has %q besides %q", first, top)
			}
			name = path.Join(rename, rest)
		}
		if err := unpackOne(t, root, h, name); err != nil {
			return err
		}
	}
}

func unpackOne(t *tar.Reader, root *os.Root, h *tar.Header, name string) error {
	mode := fs.FileMode(h.Mode).Perm()
	if dir := path.Dir(name); dir != "." {
		if err := root.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	switch h.Typeflag {
	case tar.TypeDir:
		if err := root.MkdirAll(name, mode|0o700); err != nil {
			return err
		}
		return nil
	case tar.TypeReg:
		// A link at the place of the file is replaced and not followed.
		if info, err := root.Lstat(name); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
			if err := root.Remove(name); err != nil {
				return err
			}
		}
		f, err := root.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, t)
		return errors.Join(err, f.Close())
	case tar.TypeSymlink:
		if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return root.Symlink(h.Linkname, name)
	case tar.TypeLink:
		if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return root.Link(path.Clean(strings.TrimPrefix(h.Linkname, "/")), name)
	}
	return nil // devices and pipes are left out
}
