package state

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// FS is the part of a file system that the store works on. It is small so that
// a disk which loses power at any moment can be put in its place (package
// statetest). Errors satisfy errors.Is with fs.ErrNotExist where a name is
// missing.
type FS interface {
	// MkdirAll makes dir (mode 0700) and its missing parents. When it returns
	// nil, the directories survive a power loss.
	MkdirAll(dir string) error
	// Create opens name (mode 0600) for writing and empties it.
	Create(name string) (File, error)
	// ReadFile returns the content of name.
	ReadFile(name string) ([]byte, error)
	// ReadDir returns the names in dir, sorted.
	ReadDir(dir string) ([]string, error)
	// Rename gives a file another name in the same directory, replacing what
	// was there, in one step.
	Rename(from, to string) error
	// Remove removes the file called name.
	Remove(name string) error
	// SyncDir returns when the names in dir survive a power loss.
	SyncDir(dir string) error
}

// File is a file being written.
type File interface {
	Write(p []byte) (int, error)
	// Sync returns when the content survives a power loss.
	Sync() error
	Close() error
}

// OS is the file system of the operating system. The zero value is ready.
type OS struct{}

var _ FS = OS{}

// MkdirAll implements FS.
func (o OS) MkdirAll(dir string) error {
	dir = filepath.Clean(dir)
	info, err := os.Stat(dir)
	switch {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		return fmt.Errorf("%s is in the way: it is not a directory", dir)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	parent := filepath.Dir(dir)
	if err := o.MkdirAll(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return o.SyncDir(parent)
}

// Create implements FS.
func (OS) Create(name string) (File, error) {
	return os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
}

// maxFile limits the bytes of a file: more is no record.
const maxFile = 64 << 20

// ReadFile implements FS. What is no file, such as a pipe, is an error at once, and so is a file that is too large.
func (OS) ReadFile(name string) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no file: remove it", name)
	case info.Size() > maxFile:
		return nil, fmt.Errorf("%s has %d bytes, and no record has more than %d: remove it", name, info.Size(), maxFile)
	}
	return io.ReadAll(io.LimitReader(f, maxFile))
}

// ReadDir implements FS.
func (OS) ReadDir(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

// Rename implements FS.
func (OS) Rename(from, to string) error { return os.Rename(from, to) }

// Remove implements FS.
func (OS) Remove(name string) error { return os.Remove(name) }

// SyncDir implements FS.
func (OS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
