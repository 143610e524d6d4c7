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
