package libpod

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/containers/podman/v5/libpod/define"
	"github.com/containers/podman/v5/pkg/bindings/containers"
	"github.com/containers/podman/v5/pkg/bindings/system"
	entities "github.com/containers/podman/v5/pkg/domain/entities/types"
	"golang.org/x/sys/unix"

	"github.com/podtask/podtask/internal/lazy"
)

// Podman keeps the bridge networks of a user in one network namespace. If its service is killed
// while it creates that namespace, Podman uses the incomplete namespace, and each later start
// with a bridge network fails until the user has logged out everywhere. Podman 4 has then
// created only the file of the namespace; without the file, it creates the namespace again.
// Podman 5 has started pasta but not written the files that follow; if pasta is not running, it
// starts pasta again and writes them. No version is without the fault (docs/upstream#a-kill-during-the-first-start-on-a-bridge-leaves-no-bridge-that-works).

// incompleteText matches the errors of Podman 4 and 5, in lower case, for an incomplete namespace.
var incompleteText = lazy.MustCompile(`(failed to mount runtime directory for rootless netns|rootless netns: mount resolv.conf to .*): no such file or directory|rootless netns: deserialize info`)

// incompleteNamespace reports whether err is about an incomplete namespace.
func incompleteNamespace(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Cause == incompleteNetwork
}

// repairLimit is the longest time for a repair. Podman holds the lock of the namespace while it
// sets up a container in it, which took more than ten seconds on a slow and busy host.
const repairLimit = time.Minute

// repairNamespace prepares the namespace so that Podman creates it again, unless a container of
// Podman 4 uses it. It reports whether a start may succeed now.
func (c *Client) repairNamespace(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, repairLimit)
	defer cancel()
	var info *define.Info
	err := c.ask(ctx, "get information about", "the host", func(ctx context.Context) (err error) {
		info, err = system.Info(ctx, nil)
		return err
	})
	if err != nil || info.Store == nil {
		return false
	}
	if c.version.Major < 5 {
		// If a container uses the namespace, another start may have repaired it.
		return c.noBridgeInUse(ctx) && repair4(ctx, c.runtimeDir, info.Store.GraphRoot) || complete4(c.runtimeDir)
	}
	return repair5(ctx, info.Store.RunRoot, info.Store.GraphRoot)
}

// noBridgeInUse reports whether no running container is connected to a bridge network.
func (c *Client) noBridgeInUse(ctx context.Context) bool {
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

// repair4 removes the file of the namespace of Podman 4. Its name contains a hash of the
// directory of Podman's database, which is in the configured or the default directory of the
// storage.
func repair4(ctx context.Context, runtimeDir, graphRoot string) bool {
	unlock, err := lockOf(ctx, filepath.Join(runtimeDir, "libpod", "tmp", "rootless-netns.lock"))
	if err != nil {
		return false
	}
	defer unlock()
	if complete4(runtimeDir) {
		return true
	}
	for _, root := range []string{graphRoot, filepath.Join(os.Getenv("HOME"), ".local/share/containers/storage")} {
		hash := sha256.Sum256([]byte(filepath.Join(root, "libpod")))
		// The namespace is mounted on the file only in Podman's mount namespace.
		err := os.Remove(filepath.Join(runtimeDir, "netns", fmt.Sprintf("rootless-netns-%x", hash[:10])))
		if !errors.Is(err, os.ErrNotExist) {
			return err == nil
		}
	}
	return true // another process has just removed it
}

// complete4 reports whether the last directory that Podman 4 creates exists.
func complete4(runtimeDir string) bool {
	_, err := os.Stat(filepath.Join(runtimeDir, "libpod", "tmp", "rootless-netns", runtimeDir, "netns"))
	return err == nil
}

// repair5 ends the pasta process of the namespace of Podman 5 if files are missing that Podman
// writes after it has started pasta.
func repair5(ctx context.Context, runRoot, graphRoot string) bool {
	unlock, err := lockOf(ctx, filepath.Join(graphRoot, "networks", "netavark.lock"))
	if err != nil {
		return false
	}
	defer unlock()
	dir := filepath.Join(runRoot, "networks", "rootless-netns")
	info, err := os.Stat(filepath.Join(dir, "info.json"))
	if _, noResolver := os.Stat(filepath.Join(dir, "resolv.conf")); noResolver == nil && err == nil && info.Size() > 0 {
		return true // another start has repaired it
	}
	pidFile := filepath.Join(dir, "rootless-netns-conn.pid")
	text, err := os.ReadFile(pidFile)
	if err != nil {
		return errors.Is(err, os.ErrNotExist)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || !end(pid, "pasta", "slirp4netns") {
		return false
	}
	return os.Remove(pidFile) == nil
}

// endLimit is the longest wait for the end of a program after SIGTERM, in milliseconds.
const endLimit = 3000

// end terminates a process if it runs one of these programs, and waits for its end. It reports
// whether no such process is left.
func end(pid int, programs ...string) bool {
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return errors.Is(err, unix.ESRCH)
	}
	defer func() { _ = unix.Close(process) }()
	name, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "comm"))
	if err != nil {
		return errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH)
	}
	for _, p := range programs {
		if !strings.HasPrefix(string(name), p) { // pasta.avx2, for instance
			continue
		}
		if err := unix.PidfdSendSignal(process, unix.SIGTERM, nil, 0); err != nil {
			return errors.Is(err, unix.ESRCH)
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(process), Events: unix.POLLIN}}, endLimit)
		return n > 0 && err == nil
	}
	return true // another program has the PID now
}

// lockOf takes a lock that Podman holds while it creates the namespace and while it works in it.
func lockOf(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	locked := make(chan error, 1)
	go func() {
		locked <- unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLKW, &unix.Flock_t{Type: unix.F_WRLCK})
	}()
	select {
	case err := <-locked:
		if err != nil {
			_ = f.Close()
			return nil, err
		}
		return func() { _ = f.Close() }, nil
	case <-ctx.Done():
		go func() { // Podman still holds the lock
			<-locked
			_ = f.Close()
		}()
		return nil, context.Cause(ctx)
	}
}
