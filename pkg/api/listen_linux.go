package api

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
)

// ErrInUse is the error if a living process serves the socket.
var ErrInUse = errors.New("the socket is in use")

// Listen creates the socket at path and its directory (mode 0700), and listens on it.
// Only processes of this user may connect; other connections are closed at once. A socket without a server is replaced; if another
// process serves it, the error is ErrInUse. Closing the listener removes the socket.
//
// Two processes must not Listen on one path at the same moment; for the socket of
// a task the task's lock ensures that. The kernel's limit on the length of a
// socket's path (108 bytes) counts for the last element only.
func Listen(path string) (net.Listener, error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of the socket: %w", err)
	}
	if err := checkPrivate(dir); err != nil {
		return nil, err
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	short, release, err := shortPath(path)
	if err != nil {
		return nil, err
	}
	defer release()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: short, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	l.SetUnlinkOnClose(false) // the short path is invalid later
	if err := os.Chmod(path, 0o600); err != nil {
		_ = l.Close()
		return nil, err
	}
	return &listener{UnixListener: l, path: path, uid: os.Getuid(), peer: peerUID}, nil
}

// Guard limits an existing listener, such as one from systemd, to processes of this user.
// Closing it leaves the socket where it is.
func Guard(l net.Listener) (net.Listener, error) {
	u, ok := l.(*net.UnixListener)
	if !ok {
		return nil, fmt.Errorf("%s is no unix socket: only these say who connects", l.Addr())
	}
	u.SetUnlinkOnClose(false)
	return &listener{UnixListener: u, uid: os.Getuid(), peer: peerUID}, nil
}

// checkPrivate checks that no other user can reach the files in dir.
func checkPrivate(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Getuid() {
		return fmt.Errorf("%s belongs to user %d, not to you: remove it or set XDG_RUNTIME_DIR", dir, st.Uid)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return os.Chmod(dir, 0o700)
	}
	return nil
}

// removeStale removes a socket that no process serves.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s is in the way and no socket: remove it", path)
	}
	c, err := dialUnix(context.Background(), path)
	if err == nil {
		_ = c.Close()
		return fmt.Errorf("%s: %w", path, ErrInUse)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// maxSunPath is the maximum length of the path in a socket's address, without the final NUL
// (unix(7)).
const maxSunPath = 107

// shortPath returns a path to the same file that fits into a socket's address. It is
// valid until release is called.
func shortPath(path string) (short string, release func(), err error) {
	if len(path) <= maxSunPath {
		return path, func() {}, nil
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return "", nil, err
	}
	short = "/proc/self/fd/" + strconv.Itoa(int(dir.Fd())) + "/" + filepath.Base(path)
	if len(short) > maxSunPath {
		_ = dir.Close()
		return "", nil, fmt.Errorf("the name of the socket %s is too long", path)
	}
	return short, func() { _ = dir.Close() }, nil
}

// DialSocket connects to a socket that Listen made. Unlike Dial, it sends no request.
func DialSocket(ctx context.Context, path string) (*net.UnixConn, error) {
	c, err := dialUnix(ctx, path)
	if err != nil {
		return nil, err
	}
	return c.(*net.UnixConn), nil
}

func dialUnix(ctx context.Context, path string) (net.Conn, error) {
	short, release, err := shortPath(path)
	if err != nil {
		return nil, err
	}
	defer release()
	var d net.Dialer
	return d.DialContext(ctx, "unix", short)
}

// listener accepts only connections of one user.
type listener struct {
	*net.UnixListener
	path string // empty: Close does not remove it
	uid  int
	peer func(*net.UnixConn) (int, error)
	once sync.Once
}

// Leave has Close leave the socket where it is: another process serves it from now on.
func (l *listener) Leave() { l.path = "" }

// Accept returns the next connection of the right user.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if uid, err := l.peer(c); err == nil && uid == l.uid {
			return c, nil
		}
		_ = c.Close()
	}
}

// Close removes the socket and stops listening. The order matters: once it no longer
// listens, another process may put its own socket there.
func (l *listener) Close() error {
	var err error
	l.once.Do(func() {
		if l.path != "" {
			err = os.Remove(l.path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		err = errors.Join(err, l.UnixListener.Close())
	})
	return err
}

// peerUID asks the kernel for the user at the other end (SO_PEERCRED, unix(7)).
func peerUID(c *net.UnixConn) (int, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *syscall.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err = errors.Join(err, credErr); err != nil {
		return 0, err
	}
	return int(cred.Uid), nil
}
