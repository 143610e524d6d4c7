package state_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/podtask/podtask/internal/state"
)

// roleVar makes the test binary play another process.
const roleVar = "STATE_TEST_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVar); role != "" {
		if err := play(role, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// play is the other process: it reports on stdout and lives until stdin ends.
func play(role string, args []string) error {
	switch role {
	case "hold":
		locks, err := state.OpenLocks(args[0], state.Holder{Command: "other run"})
		if err != nil {
			return err
		}
		lock, err := locks.Lock(keyA)
		if err != nil {
			return err
		}
		defer lock.Unlock()
		fmt.Println("held")
		_, err = io.Copy(io.Discard, os.Stdin)
		return err
	case "append":
		log, err := state.OpenLog(args[0], 2000)
		if err != nil {
			return err
		}
		for i := range 100 {
			data, _ := json.Marshal(map[string]any{"by": os.Getpid(), "i": i})
			if _, err := log.Append(context.Background(), data, data); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("no role %q", role)
}

func other(t *testing.T, role string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), roleVar+"="+role)
	cmd.Stderr = os.Stderr
	return cmd
}

// startHolder starts a process that holds the lock of keyA.
func startHolder(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	cmd := other(t, "hold", dir)
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Fatalf("holder says %q, %v", line, err)
	}
	return cmd
}

func openLocks(t *testing.T, dir string) *state.Locks {
	t.Helper()
	l, err := state.OpenLocks(dir, state.Holder{Command: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestLockExcludesWithinTheProcess(t *testing.T) {
	t.Parallel()
	locks := openLocks(t, t.TempDir())
	first, err := locks.Lock(keyA)
	if err != nil {
		t.Fatal(err)
	}
	var locked *state.LockedError
	if _, err := locks.Lock(keyA); !errors.As(err, &locked) || !errors.Is(err, state.ErrLocked) {
		t.Fatalf("second Lock: %v, want LockedError", err)
	}
	if locked.Holder.PID != os.Getpid() || !strings.Contains(locked.Error(), "(test)") {
		t.Errorf("holder %+v in %q, want this process", locked.Holder, locked)
	}
	if other, err := locks.Lock(keyB); err != nil {
		t.Errorf("another key: %v", err)
	} else {
		defer other.Unlock()
	}
	if err := errors.Join(first.Unlock(), first.Unlock()); err != nil {
		t.Error(err)
	}
	again, err := locks.Lock(keyA)
	if err != nil {
		t.Fatalf("after Unlock: %v", err)
	}
	again.Unlock()
}

func TestDeathOfTheHolderFreesTheLock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	locks := openLocks(t, dir)
	cmd := startHolder(t, dir)

	var locked *state.LockedError
	if _, err := locks.Lock(keyA); !errors.As(err, &locked) || locked.Holder.PID != cmd.Process.Pid || locked.Holder.Command != "other run" {
		t.Fatalf("Lock: %v, want LockedError naming process %d", err, cmd.Process.Pid)
	}
	if h, held, err := locks.Holder(keyA); !held || h.PID != cmd.Process.Pid || err != nil {
		t.Errorf("Holder = %+v, %v, %v", h, held, err)
	}
	got := make(chan error)
	go func() {
		lock, err := locks.LockWait(t.Context(), keyA)
		if err == nil {
			err = lock.Unlock()
		}
		got <- err
	}()
	cmd.Process.Kill()
	if err := <-got; err != nil {
		t.Errorf("LockWait: %v", err)
	}
	if _, held, err := locks.Holder(keyA); held || err != nil {
		t.Errorf("still held: %v, %v", held, err)
	}
}

func TestWaitForALockCanBeGivenUp(t *testing.T) {
	t.Parallel()
	locks := openLocks(t, t.TempDir())
	first, err := locks.Lock(keyA)
	if err != nil {
		t.Fatal(err)
	}
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(enough)
	if _, err := locks.LockWait(ctx, keyA); !errors.Is(err, enough) {
		t.Fatalf("LockWait: %v, want the cause", err)
	}
	// The wait given up must not keep the lock once it gets it.
	first.Unlock()
	next, err := locks.LockWait(t.Context(), keyA)
	if err != nil {
		t.Fatal(err)
	}
	next.Unlock()
}

// Many processes take the lock, remove its file and release it: no two may be inside.
func TestRemovalOfLockFilesLetsOnlyOneIn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const workers, rounds = 8, 50
	var inside, total atomic.Int32 // the race detector does not know flock
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			locks, err := state.OpenLocks(dir, state.Holder{})
			if err != nil {
				t.Error(err)
				return
			}
			for i := range rounds {
				lock, err := locks.LockWait(t.Context(), keyA)
				if err != nil {
					t.Error(err)
					return
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d inside", n)
				}
				total.Add(1)
				inside.Add(-1)
				if i%2 == 0 {
					err = lock.Remove()
				} else {
					err = lock.Unlock()
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if total.Load() != workers*rounds {
		t.Errorf("counted %d, want %d", total.Load(), workers*rounds)
	}
}

func TestAskingForTheHolderDisturbsNobody(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	asker, taker := openLocks(t, dir), openLocks(t, dir)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				if _, _, err := asker.Holder(keyA); err != nil {
					t.Error(err)
				}
			}
		}
	})
	for range 2000 {
		lock, err := taker.Lock(keyA)
		if err != nil {
			t.Error(err)
			break
		}
		lock.Unlock()
	}
	close(stop)
	wg.Wait()
}

func TestRemoveLeavesNoFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lock, err := openLocks(t, dir).Lock(keyA)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(lock.Remove(), lock.Remove(), lock.Unlock()); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(filepath.Join(dir, "locks")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	if _, err := openLocks(t, dir).Lock("../x"); !errors.Is(err, state.ErrBadKey) {
		t.Errorf("bad key: %v", err)
	}
}
