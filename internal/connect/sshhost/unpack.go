package sshhost

import (
	"archive/tar"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Extraction extracts archives of another machine, which may be hostile. An archive is first extracted into a
// directory that only it is in, its links last; once it is complete, what it holds is renamed into place. So nothing
// is written through a link, neither through those of the archive nor through those that were there before, files
// that exist are replaced and not truncated, and an archive that breaks off changes nothing.
type Extraction struct {
	// Root is the directory that is written to.
	Root *os.Root
	// Name is the file or directory in Root that the archive's only top entry, whatever its name, becomes. Empty:
	// all that the archive holds is extracted into Root itself.
	Name string
	// KeepOutside makes also those symbolic links that lead out of what is extracted.
	KeepOutside bool
	// Outside are the symbolic links that were left out because they lead out of what is extracted, at most
	// maxOutside of them, and OutsideCount is how many there were.
	Outside      []string
	OutsideCount int

	scratch string // a directory in Root, where the archive is extracted
	top     string // first component of the names in the archive
	links   []link
	pending map[string]int // places in links by name
	size    int            // of the names in links, in bytes
}

// link is a link that is made once all files are there.
type link struct {
	name, to string
	hard     bool
}

const (
	// maxOutside bounds the remembered names of links that were left out.
	maxOutside = 5
	// maxLinkNames bounds the names of the links of an archive, in bytes.
	maxLinkNames = 64 << 20
)

// scratchPrefix begins the names of directories of extractions that have not ended.
const scratchPrefix = ".podtask-extract-"

// Unpack extracts an archive. A directory that exists gets what the archive has, file by file; an error while the
// files are renamed into it leaves those that were renamed before.
func (x *Extraction) Unpack(r io.Reader) (err error) {
	x.scratch, x.pending = scratchPrefix+rand.Text(), make(map[string]int)
	if err := x.Root.Mkdir(x.scratch, 0o700); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.Root.RemoveAll(x.scratch)) }()
	in, err := x.Root.OpenRoot(x.scratch)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := x.extract(tar.NewReader(r), in); err != nil {
		return err
	}
	if err := x.makeLinks(in); err != nil {
		return err
	}
	if x.Name == "" {
		return x.merge(x.scratch, ".")
	}
	if x.top == "" {
		return nil // the archive has nothing
	}
	return x.move(path.Join(x.scratch, x.Name), x.Name)
}

// extract extracts everything but links.
func (x *Extraction) extract(t *tar.Reader, in *os.Root) error {
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the archive: %w", err)
		}
		name, err := x.place(h.Name)
		if err != nil {
			return err
		}
		if name == "." {
			continue
		}
		if err := x.extractOne(t, in, h, name); err != nil {
			return err
		}
	}
}

// place returns where an entry belongs below the scratch directory.
func (x *Extraction) place(name string) (string, error) {
	clean := path.Clean(strings.TrimLeft(name, "/"))
	if clean == "." {
		return clean, nil
	}
	if !filepath.IsLocal(clean) {
		return "", fmt.Errorf("the archive names a file outside of its directory: %q", name)
	}
	if x.Name == "" {
		return clean, nil
	}
	first, rest, _ := strings.Cut(clean, "/")
	if x.top == "" {
		x.top = first
	}
	if first != x.top {
		return "", fmt.Errorf("the archive has %q besides %q", first, x.top)
	}
	return path.Join(x.Name, rest), nil
}

func (x *Extraction) extractOne(t *tar.Reader, in *os.Root, h *tar.Header, name string) error {
	mode := fs.FileMode(h.Mode).Perm()
	switch h.Typeflag {
	case tar.TypeDir:
		return in.MkdirAll(name, mode|0o700)
	case tar.TypeReg, tar.TypeSymlink, tar.TypeLink:
	default:
		return nil // devices and pipes are left out
	}
	if err := in.MkdirAll(path.Dir(name), 0o700); err != nil {
		return err
	}
	// Of two entries with one name the last one counts, as for tar.
	if err := in.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if i, ok := x.pending[name]; ok {
		x.links[i].name = ""
		delete(x.pending, name)
	}
	if h.Typeflag == tar.TypeReg {
		f, err := in.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, t)
		return errors.Join(err, f.Close())
	}
	l := link{name: name, to: h.Linkname, hard: h.Typeflag == tar.TypeLink}
	if l.hard {
		to, err := x.place(h.Linkname)
		if err != nil {
			return fmt.Errorf("the hard link %q: %w", h.Name, err)
		}
		l.to = to
	}
	if x.size += len(l.name) + len(l.to); x.size > maxLinkNames {
		return fmt.Errorf("the names of the archive's links have more than %d MiB", maxLinkNames>>20)
	}
	x.pending[name] = len(x.links)
	x.links = append(x.links, l)
	return nil
}

// makeLinks makes the links: hard ones, whose files are all there, and then symbolic ones, through which nothing
// goes any more.
func (x *Extraction) makeLinks(in *os.Root) error {
	for _, l := range x.links {
		if l.name == "" || !l.hard {
			continue
		}
		if i, ok := x.pending[l.to]; ok && !x.links[i].hard { // another name of a symbolic link
			x.links = append(x.links, link{name: l.name, to: x.links[i].to})
			continue
		}
		if info, err := in.Lstat(l.to); err != nil {
			return fmt.Errorf("the hard link %q: %w", l.name, err)
		} else if !info.Mode().IsRegular() {
			return fmt.Errorf("the hard link %q leads to %q, which is no file", l.name, l.to)
		}
		if err := in.Link(l.to, l.name); err != nil {
			return err
		}
	}
	for _, l := range x.links {
		if l.name == "" || l.hard {
			continue
		}
		if !x.KeepOutside && x.leadsOutside(l) {
			if x.OutsideCount++; len(x.Outside) < maxOutside {
				x.Outside = append(x.Outside, l.name)
			}
			continue
		}
		if err := in.Symlink(l.to, l.name); err != nil {
			return err
		}
	}
	return nil
}

// leadsOutside reports whether a symbolic link leads out of what the archive becomes. A link whose target goes up
// after it went down counts too: what it goes down through may be a link.
func (x *Extraction) leadsOutside(l link) bool {
	if path.IsAbs(l.to) {
		return true
	}
	down := false
	for part := range strings.SplitSeq(l.to, "/") {
		switch part {
		case "", ".":
		case "..":
			if down {
				return true
			}
		default:
			down = true
		}
	}
	to := path.Join(path.Dir(l.name), l.to)
	if x.Name == "" {
		return !filepath.IsLocal(to)
	}
	return to != x.Name && !strings.HasPrefix(to, x.Name+"/")
}

// move renames an entry of the scratch directory to its place; both are names in Root. A directory is merged into
// one that is there; everything else replaces files and links.
func (x *Extraction) move(from, to string) error {
	source, err := x.Root.Lstat(from)
	if err != nil {
		return err
	}
	there, err := x.Root.Lstat(to)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case source.IsDir() && there.IsDir():
		return x.merge(from, to)
	case source.IsDir():
		return fmt.Errorf("%s is a directory in the archive and a %s here, which is not followed or replaced", to, kindOf(there.Mode()))
	case there.IsDir():
		return fmt.Errorf("%s is a directory here and a %s in the archive", to, kindOf(source.Mode()))
	}
	err = x.Root.Rename(from, to)
	if errors.Is(err, unix.EXDEV) { // something is mounted below Root
		return x.copyAcross(from, to, source)
	}
	return err
}

// merge moves all entries of a directory into another one. Both are names in Root.
func (x *Extraction) merge(from, to string) error {
	d, err := x.Root.Open(from)
	if err != nil {
		return err
	}
	names, err := d.Readdirnames(-1)
	if err := errors.Join(err, d.Close()); err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		if err := x.move(path.Join(from, name), path.Join(to, name)); err != nil {
			return err
		}
	}
	return nil
}

// copyAcross copies an entry to another file system, under a new name that replaces the place at the end.
func (x *Extraction) copyAcross(from, to string, source fs.FileInfo) error {
	switch mode := source.Mode(); {
	case mode.IsDir():
		if err := x.Root.Mkdir(to, mode.Perm()); err != nil {
			return err
		}
		return x.merge(from, to)
	case mode&fs.ModeSymlink != 0:
		text, err := x.Root.Readlink(from)
		if err != nil {
			return err
		}
		if err := x.Root.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return x.Root.Symlink(text, to)
	}
	in, err := x.Root.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	part := path.Join(path.Dir(to), scratchPrefix+rand.Text())
	out, err := x.Root.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_WRONLY, source.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Close()); err == nil {
		err = x.Root.Rename(part, to)
	}
	if err != nil {
		return errors.Join(err, x.Root.Remove(part))
	}
	return nil
}

// kindOf names what kind of file a mode is of.
func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "directory"
	case mode&fs.ModeSymlink != 0:
		return "symbolic link"
	case mode.IsRegular():
		return "file"
	}
	return "special file"
}
