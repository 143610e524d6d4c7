package libpod

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/podtask/podtask/internal/lazy"
)

// A service that is killed between mounting the root of a container and recording that leaves a
// root that counts as mounted and is not. The next start writes /etc/hosts and others into the
// directory where it should be mounted, and then its removal fails for good.

// occupied matches the error of containers/storage about such a directory.
var occupied = lazy.MustCompile(`replacing mount point "?(/[^"]+/merged)"?: directory not empty`)

// clearing runs a removal, and once more after emptying the directory in its way. If that is not
// possible, the error has the command that does it. The directory shows what is below the mount:
// Podman mounts in a mount namespace of its own.
func (c *Client) clearing(ctx context.Context, remove func() error) error {
	err := remove()
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	found := occupied.FindStringSubmatch(e.Cause)
	if found == nil {
		return err
	}
	dir := filepath.Clean(found[1])
	if _, hostErr := c.Host(ctx); hostErr != nil { // it tells where the storage is
		return err
	}
	if clearErr := c.storage.clear(dir); clearErr != nil {
		return &Error{Op: e.Op, Object: e.Object, Class: e.Class, Status: e.Status, Cause: fmt.Sprintf(
			"%s; Podman's service was killed during a start and left files there (%v): podman unshare find %s -mindepth 1 -delete", e.Cause, clearErr, dir)}
	}
	return remove()
}

// clear removes what is in the directory where the storage mounts the root of a container. It
// refuses a directory elsewhere.
func (s *storage) clear(dir string) error {
	s.mu.Lock()
	root := s.root
	s.mu.Unlock()
	inside, err := filepath.Rel(root, dir)
	if err != nil || root == "" || !filepath.IsLocal(inside) || strings.Count(inside, "/") != 2 {
		return errors.New("it is not in Podman's storage")
	}
	place, err := os.OpenRoot(dir) // follows no link that leads out
	if err != nil {
		return err
	}
	defer place.Close()
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, entry := range entries {
		errs = append(errs, place.RemoveAll(entry.Name()))
	}
	return errors.Join(errs...)
}
