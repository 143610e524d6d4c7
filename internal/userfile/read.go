package userfile

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// InterruptedError is the error of a read that a signal ended.
type InterruptedError struct {
	Name   string
	Signal os.Signal
}

func (e *InterruptedError) Error() string {
	return fmt.Sprintf("interrupted (%s) while %s was read", e.Signal, e.Name)
}

// Open opens a file for reading and does not wait for a writer. It refuses what is no regular file, except for the null
// device and for the streams of this process, such as /dev/stdin and the /dev/fd/63 of a shell's <(command).
func Open(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = Check(name, info)
	}
	if err != nil {
		return nil, closing(f, err)
	}
	return f, nil
}

func closing(f *os.File, err error) error {
	_ = f.Close() // nothing was written
	return err
}

// Check returns an error for what [Open] refuses.
func Check(name string, info fs.FileInfo) error {
	mode := info.Mode()
	switch {
	case mode.IsRegular(), isStream(name) && !mode.IsDir():
		return nil
	case mode.IsDir():
		return &fs.PathError{Op: "read", Path: name, Err: unix.EISDIR}
	case mode&fs.ModeNamedPipe != 0:
		return fmt.Errorf("%s is a named pipe, not a file: redirect it to the standard input and write /dev/stdin", name)
	case mode&fs.ModeDevice != 0:
		if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Rdev == unix.Mkdev(1, 3) {
			return nil // /dev/null
		}
		return fmt.Errorf("%s is a device, not a file", name)
	}
	return fmt.Errorf("%s is no regular file", name)
}

// isStream reports whether a name is that of an open file of this process or of the one that started it, which the user
// has connected to it.
func isStream(name string) bool {
	name = filepath.Clean(name)
	if name == "/dev/stdin" || strings.HasPrefix(name, "/dev/fd/") {
		return true
	}
	rest, below := strings.CutPrefix(name, "/proc/")
	_, number, isFD := strings.Cut(rest, "/fd/")
	return below && isFD && !strings.Contains(number, "/")
}

// Read reads a file that the command line names, as [Open] opens it. Of a file with more than limit bytes it reads
// limit+1. SIGINT, SIGTERM and SIGHUP end it with an *InterruptedError.
func Read(name string, limit int64) ([]byte, error) {
	return interruptible(name, func() ([]byte, error) {
		f, err := Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return io.ReadAll(io.LimitReader(f, limit+1))
	})
}

// ReadFrom is Read for a stream, such as the standard input; name is for errors.
func ReadFrom(r io.Reader, name string, limit int64) ([]byte, error) {
	return interruptible(name, func() ([]byte, error) { return io.ReadAll(io.LimitReader(r, limit+1)) })
}

// interruptible calls read, and returns without its result when a signal comes; then read goes on until the process
// ends.
func interruptible(name string, read func() ([]byte, error)) ([]byte, error) {
	signals := make(chan os.Signal, 1)
	for _, s := range []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP} {
		if !signal.Ignored(s) { // as under nohup
			signal.Notify(signals, s)
		}
	}
	defer signal.Stop(signals)
	type result struct {
		text []byte
		err  error
	}
	done := make(chan result, 1)
	go func() {
		text, err := read()
		done <- result{text, err}
	}()
	select {
	case r := <-done:
		return r.text, r.err
	case s := <-signals:
		return nil, &InterruptedError{name, s}
	}
}
