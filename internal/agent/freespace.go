package agent

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// freeSpace is what the user may still write where dir is, in bytes.
func freeSpace(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, fmt.Errorf("ask for the free space in %s: %w", dir, err)
	}
	return int64(s.Bavail) * s.Bsize, nil
}
