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
	// Podman returns the value of a Podman secret; nil if Podman is not available.
	Podman func(ctx context.Context, name string) ([]byte, error)
}

// Read reads the secret. It removes one newline at the end of a file, a credential and a
// program's output, because editors and echo add it. An empty secret is an error. The
// error is an *Error.
//
// A file must be a regular file of the user or root that only its owner can read. A
// program has 30 seconds; its stderr is discarded, because it may contain the secret.
func (r Reader) Read(ctx context.Context, s Source) (Value, error) {
	b, err := r.read(ctx, s)
	if err == nil && len(b) == 0 {
		err = &Error{Message: "it is empty", Hint: "write the secret to it"}
	}
	if err != nil {
		clear(b)
		return Value{}, named(ctx, s, err)
	}
	return Value{b}, nil
}

// named adds the source to an error.
func named(ctx context.Context, s Source, err error) error {
	if end := ctx.Err(); end != nil {
		return &Error{Source: s.String(), Message: "canceled before it was read", Cause: end}
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
			return nil, &Error{Message: "CREDENTIALS_DIRECTORY is not set: this process is not a systemd service with credentials", Hint: "add LoadCredential= or SetCredential= to the unit"}
		}
		// systemd keeps the directory private; the group bits of a file come from an ACL.
		return readFile(filepath.Join(dir, s.Name), false)
	case Env:
		value := r.Getenv(s.Name)
		if value == "" {
			return nil, &Error{Message: "the variable is not set or is empty", Hint: "export it to podtask"}
		}
		return []byte(value), nil
	case Command:
		return runHelper(ctx, s)
	case Podman:
		if r.Podman == nil {
			return nil, &Error{Message: "Podman is not available"}
		}
		return r.Podman(ctx, s.Name)
	default:
		return nil, &Error{Message: "this source was not created by Parse"}
	}
}

func readFile(path string, private bool) ([]byte, error) {
	// Opening a named pipe would block.
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

// checkPrivate rejects a file that other users can read or could have created.
func checkPrivate(path string, info fs.FileInfo) error {
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return &Error{Message: fmt.Sprintf("other users can read or write it (mode %04o)", mode), Hint: "run: chmod 600 " + path}
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() && st.Uid != 0 {
		return &Error{Message: fmt.Sprintf("it belongs to user %d", st.Uid), Hint: "use a file that you own"}
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

// trim removes one newline at the end and rejects a value that is too long.
func trim(b []byte) ([]byte, error) {
	if len(b) > maxSize {
		return b, &Error{Message: fmt.Sprintf("it is longer than %d bytes", maxSize)}
	}
	b = bytes.TrimSuffix(b, []byte("\n"))
	return bytes.TrimSuffix(b, []byte("\r")), nil
}

// runHelper runs the program in its own process group, so that its child processes are
// killed with it.
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
		err = &Error{Message: "the program failed: " + exit.String(), Hint: "run it yourself: its messages are not shown here, because they may contain the secret"}
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

// bounded keeps what is written to it, up to one byte more than a secret may have.
type bounded struct{ b []byte }

func (w *bounded) Write(p []byte) (int, error) {
	room := maxSize + 1 - len(w.b)
	w.b = append(w.b, p[:min(room, len(p))]...)
	return len(p), nil
}
