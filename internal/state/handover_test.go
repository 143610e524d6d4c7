package state_test

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podtask/podtask/internal/state"
)

// socketPair returns two connected sockets, as two processes have them.
func socketPair(t *testing.T) (a, b *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var conns [2]*net.UnixConn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "socket")
		c, err := net.FileConn(f)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		conns[i] = c.(*net.UnixConn)
		t.Cleanup(func() { c.Close() })
	}
	return conns[0], conns[1]
}

func lockA(t *testing.T, l *state.Locks) *state.Lock {
	t.Helper()
	lock, err := l.Lock(keyA)
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

func TestLockIsNeverFreeWhileItIsHandedOver(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sender, receiver, rival := openLocks(t, dir), openLocks(t, dir), openLocks(t, dir)
	for range 50 {
		lock := lockA(t, sender)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			for ctx.Err() == nil {
				if stolen, err := rival.Lock(keyA); !errors.Is(err, state.ErrLocked) {
					t.Errorf("another process got the lock: %v", err)
					if err == nil {
						stolen.Unlock()
					}
					return
				}
			}
		})
		ours, theirs := socketPair(t)
		var sent error
		wg.Go(func() { sent = lock.Send(t.Context(), ours) })
		got, err := receiver.Receive(theirs, keyA)
		if err != nil {
			t.Fatal(err)
		}
		for range 100 { // attempts of the sender fail as well
			if _, err := sender.Lock(keyA); !errors.Is(err, state.ErrLocked) {
				t.Errorf("the sender got the lock again: %v", err)
			}
		}
		cancel()
		wg.Wait()
		if sent != nil {
			t.Error(sent)
		}
		if err := lock.Unlock(); err != nil { // has no effect any more
			t.Error(err)
		}
		if _, err := rival.Lock(keyA); !errors.Is(err, state.ErrLocked) {
			t.Errorf("the sender unlocked what it had handed over: %v", err)
		}
		if err := got.Unlock(); err != nil {
			t.Error(err)
		}
	}
}

func TestLockStaysUnlessItsReceptionIsConfirmed(t *testing.T) {
	t.Parallel()
	for name, receive := range map[string]func(t *testing.T, dir string, c *net.UnixConn, giveUp func()){
		"the other process ends": func(_ *testing.T, _ string, c *net.UnixConn, _ func()) { c.Close() },
		"the other process wants another lock": func(t *testing.T, dir string, c *net.UnixConn, _ func()) {
			if _, err := openLocks(t, dir).Receive(c, keyB); err == nil {
				t.Error("the lock of another task was accepted")
			}
			c.Close()
		},
		"the sender gives up": func(t *testing.T, dir string, c *net.UnixConn, giveUp func()) {
			giveUp()
			if _, err := openLocks(t, dir).Receive(c, keyA); err == nil {
				t.Error("a lock was accepted that its sender keeps")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			lock := lockA(t, openLocks(t, dir))
			ours, theirs := socketPair(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var wg sync.WaitGroup
			wg.Go(func() {
				if err := lock.Send(ctx, ours); err == nil {
					t.Error("the lock counts as handed over")
				}
			})
			receive(t, dir, theirs, func() { cancel(); wg.Wait() })
			wg.Wait()
			if _, err := openLocks(t, dir).Lock(keyA); !errors.Is(err, state.ErrLocked) {
				t.Errorf("the lock is not held any more: %v", err)
			}
			if err := lock.Unlock(); err != nil {
				t.Error(err)
			}
			lockA(t, openLocks(t, dir)).Unlock()
		})
	}
}

func TestOnlyTheFileOfALockIsAccepted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	locks := openLocks(t, dir)
	lockA(t, locks).Unlock()
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for name, rights := range map[string][]byte{
		"no file": nil, "another file": unix.UnixRights(int(f.Fd())), "two files": unix.UnixRights(int(f.Fd()), int(f.Fd())),
	} {
		ours, theirs := socketPair(t)
		if _, _, err := ours.WriteMsgUnix([]byte{0}, rights, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := locks.Receive(theirs, keyA); err == nil {
			t.Errorf("%s was accepted as the lock", name)
		}
	}
}
