package state

import (
	"context"
	"errors"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// tryFlock takes the lock without waiting; ok is false if it is held.
func tryFlock(f *os.File, how int) (ok bool, err error) {
	err = flock(f, how|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// tryExclusive takes the exclusive lock unless another process holds it. A shared lock
// belongs to a process that only checks the lock, and is released immediately.
func tryExclusive(f *os.File) (ok bool, err error) {
	for {
		if ok, err := tryFlock(f, unix.LOCK_EX); ok || err != nil {
			return ok, err
		}
		if shared, err := tryFlock(f, unix.LOCK_SH); !shared || err != nil {
			return false, err
		}
		if err := flock(f, unix.LOCK_UN); err != nil {
			return false, err
		}
		runtime.Gosched()
	}
}

// waitFlock takes the lock and waits for it as long as ctx lasts. It owns f
// when it fails: f is then closed, at the latest when the lock becomes free.
//
// The kernel has no way to wait for a flock and for something else, and no
// way to interrupt the wait of a Go thread. So a wait that is given up leaves
// a thread behind which gets the lock one day and drops it at once: the only
// effect is that a LOCK_NB attempt of that very instant may fail.
func waitFlock(ctx context.Context, f *os.File, how int) error {
	if ok, err := tryFlock(f, how); ok || err != nil {
		if err != nil {
			f.Close()
		}
		return err
	}
	got := make(chan error)
	go func() {
		err := flock(f, how)
		select {
		case got <- err:
			if err != nil {
				f.Close()
			}
		case <-ctx.Done():
			letGo(f)
		}
	}()
	select {
	case err := <-got:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// letGo releases the lock and closes f. Closing alone is not enough: a child between fork
// and exec still has the descriptor, and with it the lock.
func letGo(f *os.File) error {
	return errors.Join(flock(f, unix.LOCK_UN), f.Close())
}

func flock(f *os.File, how int) error {
	for {
		// Fd of a regular file: no poller is involved, blocking is safe.
		err := unix.Flock(int(f.Fd()), how)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
