package secrets

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

const (
	// maxSize is the most a secret may hold, in bytes: Podman's own limit.
	maxSize = 512000
	// commandLimit is how long a helper program may take.
	commandLimit = 30 * time.Second
)

// Reader reads secrets. It keeps nothing and is safe for concurrent use if its
// functions are.
type Reader struct {
	// Getenv reads the environment; os.Getenv outside of tests.
	Getenv func(string) string
	// Podman gives out a secret of Podman; nil means that there is no Podman to ask.
	Podman func(ctx context.Context, name string) ([]byte, error)
}

// Read reads the secret. One newline at the end of a file, a credential and a
// program's output is dropped: editors and echo put it there. The error is an
// *Error; an empty secret is one.
//
// A file must be a regular one that only its owner may read, the user or root. A
// program has 30 seconds; its stderr is dropped, because it may hold anything.
func (r Reader) Read(ctx context.Context, s Source) (Value, error) {
	b, err := r.read(ctx, s)
	if err == nil && len(b) == 0 {
		err = &Error{Message: "it is empty", Hint: "put the secret there"}
	}
	if err != nil {
		clear(b)
		return Value{}, named(ctx, s, err)
	}
	return Value{b}, nil
}

// named gives an error its source.
func named(ctx context.Context, s Source, err error) error {
	if end := ctx.Err(); end != nil {
		return &Error{Source: s.String(), Message: "given up before it was read", Cause: end}
	}
	var e *Error
	if !errors.As(err, &e) {
		e = &Error{Message: err.Error(), Cause: err}
	}
	e.Source = s.String()
	return e
}

func (r Reader) read(ctx context.Context, s Source) ([]byte, error) {
	switch s.Kind {
	case File:
		return readFile(s.Name, true)
	case Credential:
		dir := r.Getenv("CREDENTIALS_DIRECTORY")
		if dir == "" {
			return nil, &Error{Message: "CREDENTIALS_DIRECTORY is not set: this process is no systemd service with credentials", Hint: "give the unit LoadCredential= or SetCredential="}
		}
		// systemd keeps the directory private; a file's group bits are an ACL's.
		return readFile(filepath.Join(dir, s.Name), false)
	case Env:
		value := r.Getenv(s.Name)
		if value == "" {
			return nil, &Error{Message: "the variable is not set or empty", Hint: "export it for podtask"}
		}
		return []byte(value), nil
	case Command:
		return runHelper(ctx, s)
	case Podman:
		if r.Podman == nil {
			return nil, &Error{Message: "there is no Podman to ask"}
		}
		return r.Podman(ctx, s.Name)
	default:
		return nil, &Error{Message: "this source was not made by Parse"}
	}
}

func readFile(path string, private bool) ([]byte, error) {
	// A named pipe would block the open.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fileError(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fileError(err)
	}
	if !info.Mode().IsRegular() {
		return nil, &Error{Message: "it is not a regular file"}
	}
	if private {
		if err := checkPrivate(path, info); err != nil {
			return nil, err
		}
	}
	b, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err != nil {
		return b, fileError(err)
	}
	return trim(b)
}

// checkPrivate refuses a file that others may read or could have put there.
func checkPrivate(path string, info fs.FileInfo) error {
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return &Error{Message: fmt.Sprintf("others may read or write it (mode %04o)", mode), Hint: "run: chmod 600 " + path}
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() && st.Uid != 0 {
		return &Error{Message: fmt.Sprintf("it belongs to user %d", st.Uid), Hint: "use a file of your own"}
	}
	return nil
}

func fileError(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err // the path is in the source already
	}
	return &Error{Message: "it cannot be read: " + err.Error(), Cause: err}
}

// trim drops one newline at the end and refuses what is too long.
func trim(b []byte) ([]byte, error) {
	if len(b) > maxSize {
		return b, &Error{Message: fmt.Sprintf("it is longer than %d bytes", maxSize)}
	}
	b = bytes.TrimSuffix(b, []byte("\n"))
	return bytes.TrimSuffix(b, []byte("\r")), nil
}

// runHelper runs the program in a process group of its own, so that all it
// started ends with it.
func runHelper(ctx context.Context, s Source) ([]byte, error) {
	limited, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	cmd := exec.CommandContext(limited, s.Name, s.Args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	out := &bounded{}
	cmd.Stdout = out
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case limited.Err() != nil:
		err = &Error{Message: fmt.Sprintf("the program took longer than %v", commandLimit), Passing: true}
	case errors.As(err, &exit):
		err = &Error{Message: "the program failed: " + exit.String(), Hint: "run it by hand: its messages are not shown here, they might hold the secret"}
	case err != nil:
		var p *fs.PathError
		if errors.As(err, &p) {
			err = p.Err
		}
		err = &Error{Message: "the program cannot be run: " + err.Error()}
	}
	if err != nil {
		return out.b, err
	}
	return trim(out.b)
}

// bounded keeps what is written to it, up to a byte more than a secret may have.
type bounded struct{ b []byte }

func (w *bounded) Write(p []byte) (int, error) {
	room := maxSize + 1 - len(w.b)
	w.b = append(w.b, p[:min(room, len(p))]...)
	return len(p), nil
}
