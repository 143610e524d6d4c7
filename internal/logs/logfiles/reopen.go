package logfiles

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Reopen tells the conmon of a container to open its log file again. Control is the directory
// with conmon's FIFO. An error means that conmon does not listen, for example because the
// container has ended.
func Reopen(control string) error {
	// Without a reader an open that may block would wait for one for ever.
	f, err := os.OpenFile(filepath.Join(control, "ctl"), os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("tell conmon to open its log again: %w", err)
	}
	_, err = f.WriteString("2 0 0\n")
	return errors.Join(err, f.Close())
}
