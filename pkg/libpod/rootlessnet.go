package libpod

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/containers/podman/v5/libpod/define"
	"github.com/containers/podman/v5/pkg/bindings/containers"
	"github.com/containers/podman/v5/pkg/bindings/system"
	entities "github.com/containers/podman/v5/pkg/domain/entities/types"
	"golang.org/x/sys/unix"
)

// Podman 4 keeps the bridge networks of a user in one network namespace. If its service is
// killed while it makes that namespace, the file of the namespace is there and the directory
// that belongs to it is empty. Podman takes the file for a complete namespace, so each later
// start with a bridge network fails, until the user has logged out everywhere. Without the
// file, Podman makes the namespace again.

// brokenNamespace is how Podman reports in lower case that the directory is empty.
const brokenNamespace = "failed to mount runtime directory for rootless netns: no such file or directory"

// needsNamespace reports whether err is about a namespace that Podman made in part.
func needsNamespace(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Cause == incompleteNetwork
}

// repairNamespace removes the file of the namespace if the namespace is incomplete and no
// container uses it. It reports whether a start may succeed now.
func (c *connection) repairNamespace(ctx context.Context) bool {
	dir := c.runtimeDir
	lock, err := os.OpenFile(filepath.Join(dir, "libpod", "tmp", "rootless-netns.lock"), os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer func() { _ = lock.Close() }()
	if !c.noBridgeInUse(ctx) {
		return false
	}
	name, ok := c.namespaceFile(ctx, filepath.Join(dir, "netns"))
	// Podman holds the lock while it makes a namespace, and while it works in it.
	write := unix.Flock_t{Type: unix.F_WRLCK}
	if err := unix.FcntlFlock(lock.Fd(), unix.F_OFD_SETLK, &write); err != nil {
		return true // the next start waits for the one that holds it
	}
	if _, err := os.Stat(filepath.Join(dir, "libpod", "tmp", "rootless-netns", "run")); err == nil {
		return true // somebody else repaired it
	}
	if !ok {
		return true // somebody else has just removed it
	}
	// The namespace is mounted on the file in the mount namespace of Podman only.
	err = os.Remove(name)
	return err == nil || errors.Is(err, os.ErrNotExist)
}

// namespaceFile finds the file of the namespace in dir. Its name has a hash of the directory
// of Podman's database, which is that of the storage or the one it is in by default.
func (c *connection) namespaceFile(ctx context.Context, dir string) (path string, ok bool) {
	var info *define.Info
	err := c.ask(ctx, "ask Podman about", "the host", func(ctx context.Context) (err error) {
		info, err = system.Info(ctx, nil)
		return err
	})
	if err != nil || info.Store == nil {
		return "", false
	}
	for _, root := range []string{info.Store.GraphRoot, filepath.Join(os.Getenv("HOME"), ".local/share/containers/storage")} {
		hash := sha256.Sum256([]byte(filepath.Join(root, "libpod")))
		path = filepath.Join(dir, fmt.Sprintf("rootless-netns-%x", hash[:10]))
		if _, err := os.Stat(path); err == nil {
			return path, true
		}
	}
	return "", false
}

// noBridgeInUse reports whether no container that runs is part of a bridge network.
func (c *connection) noBridgeInUse(ctx context.Context) bool {
	var found []entities.ListContainer
	err := c.ask(ctx, "list", "containers", func(ctx context.Context) (err error) {
		found, err = containers.List(ctx, nil)
		return err
	})
	for i := range found {
		if len(found[i].Networks) > 0 {
			return false
		}
	}
	return err == nil
}
