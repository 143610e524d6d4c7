package logfiles

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// Router is the directory in which the log router of a task finds its configuration and makes its socket.
type Router struct{ dir string }

// Router returns the files of the log router of a task. They go with the task's.
func (d Dir) Router(task string) Router { return Router{filepath.Join(d.Task(task), "router")} }

// Config is the configuration file.
func (r Router) Config() string { return filepath.Join(r.dir, "fluent.conf") }

// Sockets is the directory of the socket fluent.sock.
func (r Router) Sockets() string { return filepath.Join(r.dir, "socket") }

// External is the copy of a configuration file that ECS would download.
func (r Router) External() string { return filepath.Join(r.dir, "external.conf") }

// longestConfig is the most bytes of a configuration file.
const longestConfig = 1 << 20

// PlaceExternal copies a configuration file of the user, after Place.
func (r Router) PlaceExternal(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a named pipe would block
	if err != nil {
		return fmt.Errorf("log configuration: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > longestConfig {
		return errors.Join(fmt.Errorf("log configuration: %s is not a regular file of at most %d bytes", path, longestConfig), err)
	}
	text, err := io.ReadAll(io.LimitReader(f, longestConfig))
	if err != nil {
		return fmt.Errorf("log configuration: %w", err)
	}
	if err := os.WriteFile(r.External(), text, 0o644); err != nil { //nolint:gosec // below a private directory
		return fmt.Errorf("log configuration: %w", err)
	}
	return os.Chmod(r.External(), 0o644) // whatever the umask is
}

// Place writes the configuration and makes the directory of the socket. A router may run as any
// user; outside, the state directory is the user's alone.
func (r Router) Place(config []byte) error {
	if err := os.MkdirAll(r.Sockets(), 0o700); err != nil {
		return fmt.Errorf("log router: %w", err)
	}
	if err := os.WriteFile(r.Config(), config, 0o644); err != nil { //nolint:gosec // below a private directory
		return fmt.Errorf("log router: %w", err)
	}
	for path, mode := range map[string]os.FileMode{r.Sockets(): 0o777, r.Config(): 0o644} { // whatever the umask is
		if err := os.Chmod(path, mode); err != nil {
			return fmt.Errorf("log router: %w", err)
		}
	}
	return nil
}
