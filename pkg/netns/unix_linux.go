package netns

import (
	"context"
	"fmt"
	"net"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// unixArg begins the helper's argument for DialUnix.
const unixArg = "unix="

// DialUnix connects to a unix socket of this host, whatever the length of its path, as root of
// the user namespace of process pid: so it reaches one that belongs to another user of that
// namespace. The helper is that of ListenIn.
func DialUnix(ctx context.Context, pid int, helper []string, path string) (net.Conn, error) {
	files, _, err := inside(ctx, pid, helper, unixArg+path)
	if err != nil {
		return nil, fmt.Errorf("connect to %s as root of the user namespace of process %d: %w", filepath.Base(path), pid, err)
	}
	defer closeAll(files) // FileConn has its own copy
	return net.FileConn(files[0])
}

// passConnection connects to a socket and hands the connection to descriptor 3.
func passConnection(path string) error {
	dir, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: fmt.Sprintf("/proc/self/fd/%d/%s", dir, filepath.Base(path))}); err != nil {
		return err
	}
	return unix.Sendmsg(passedTo, []byte("[]"), unix.UnixRights(fd), nil, 0)
}
