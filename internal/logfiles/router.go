package logfiles

import (
	"fmt"
	"os"
	"path/filepath"
)

// Router is where the log router of a task finds its configuration and makes its socket.
type Router struct{ dir string }

// Router returns the files of the log router of a task. They go with the task's.
func (d Dir) Router(task string) Router { return Router{filepath.Join(d.Task(task), "router")} }

// Config is the configuration file.
func (r Router) Config() string { return filepath.Join(r.dir, "fluent.conf") }

// Sockets is the directory of the socket fluent.sock.
func (r Router) Sockets() string { return filepath.Join(r.dir, "socket") }

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
