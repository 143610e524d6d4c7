package conn

import (
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// FreeSpace returns how much the user may still write to the file system that holds path,
// or its nearest directory that exists: in bytes, and in files as a percentage.
func FreeSpace(path string) (bytes uint64, files int, err error) {
	var fs unix.Statfs_t
	err = unix.Statfs(path, &fs)
	if errors.Is(err, unix.ENOENT) && path != filepath.Dir(path) {
		return FreeSpace(filepath.Dir(path))
	}
	if err != nil {
		return 0, 0, fmt.Errorf("read the free space of %s: %w", path, err)
	}
	files = 100 // a file system without a limit of files reports 0
	if fs.Files > 0 {
		files = int(fs.Ffree * 100 / fs.Files)
	}
	return fs.Bavail * uint64(fs.Bsize), files, nil
}
