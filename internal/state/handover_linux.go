package state

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// Send hands the lock over to the process at the other end of c, which calls Receive. The lock
// belongs to the open file, so it is held all the time. If that process does not confirm, or ctx
// ends before it does, the error says so and the lock stays with this process.
func (k *Lock) Send(ctx context.Context, c *net.UnixConn) error {
	if k.f == nil {
		return errors.New("hand over a lock: it is not held")
	}
	if _, _, err := c.WriteMsgUnix([]byte{0}, unix.UnixRights(int(k.f.Fd())), nil); err != nil {
		return fmt.Errorf("hand over lock %s: %w", k.f.Name(), err)
	}
	// After CloseRead the other process cannot confirm any more, and a confirmation that has
	// arrived can still be read: both processes know which one holds the lock.
	stop := context.AfterFunc(ctx, func() { _ = c.CloseRead() })
	defer stop()
	var confirmed [1]byte
	if n, err := c.Read(confirmed[:]); n == 0 {
		return fmt.Errorf("hand over lock %s: the other process did not confirm: %w", k.f.Name(), errors.Join(err, context.Cause(ctx)))
	}
	err := k.f.Close() // no unlock: the lock is the other process's now
	k.f = nil
	if err != nil {
		return fmt.Errorf("hand over lock: %w", err)
	}
	return nil
}

// Receive takes over the lock of key from the process at the other end of c, which calls Send.
func (l *Locks) Receive(c *net.UnixConn, key string) (*Lock, error) {
	lock, err := l.receive(c, key)
	return lock, wrapLock(key, err)
}

func (l *Locks) receive(c *net.UnixConn, key string) (*Lock, error) {
	if !validKey(key) {
		return nil, ErrBadKey
	}
	f, err := receiveFile(c, l.path(key))
	if err != nil {
		return nil, err
	}
	same, err := stillNamed(f, l.path(key))
	if err == nil && !same {
		err = errors.New("the other process sent another file")
	}
	if err == nil {
		var held bool
		if held, err = tryFlock(f, unix.LOCK_EX); err == nil && !held { // nothing changes if the file is locked
			err = errors.New("the other process does not hold the lock")
		}
	}
	if err == nil {
		l.sign(f)
		_, err = c.Write([]byte{0})
	}
	if err != nil {
		return nil, errors.Join(err, f.Close()) // no unlock: the other process keeps the lock
	}
	return &Lock{f: f}, nil
}

// receiveFile returns the file of which the other end of c sends a descriptor.
func receiveFile(c *net.UnixConn, name string) (*os.File, error) {
	// ReadMsgUnix sets close-on-exec.
	text, rights := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := c.ReadMsgUnix(text, rights)
	if err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:n])
	if err != nil {
		return nil, err
	}
	if len(messages) != 1 {
		return nil, errors.New("the other process sent no file")
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return nil, err
	}
	if len(fds) != 1 {
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
		return nil, fmt.Errorf("the other process sent %d files", len(fds))
	}
	return os.NewFile(uintptr(fds[0]), name), nil
}
