package state_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/internal/state/statetest"
)

func openLedger(t *testing.T, dir string, fsys state.FS) *state.Ledger {
	t.Helper()
	l, err := state.OpenLedger(dir, fsys)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// count adds one to the number in the ledger.
func count(old []byte) ([]byte, error) {
	n := 0
	if old != nil {
		var err error
		if n, err = strconv.Atoi(string(old)); err != nil {
			return nil, err
		}
	}
	return []byte(strconv.Itoa(n + 1)), nil
}

func wantLedger(t *testing.T, l *state.Ledger, want string) {
	t.Helper()
	if got, err := l.Read(); err != nil || string(got) != want {
		t.Errorf("the ledger holds %q (%v), want %q", got, err, want)
	}
}

func TestLedgerLosesNoChange(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	wantLedger(t, openLedger(t, dir, state.OS{}), "")
	var wg sync.WaitGroup
	for range 8 {
		l := openLedger(t, dir, state.OS{}) // as another process would
		wg.Go(func() {
			for range 10 {
				if err := l.Update(context.Background(), count); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	wantLedger(t, openLedger(t, dir, state.OS{}), "80")
}

func TestLedgerIsLeftAloneByAChangeThatFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := openLedger(t, dir, state.OS{})
	if err := l.Update(t.Context(), count); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(filepath.Join(dir, "ledger", "00000000000000000000000000000000.json"))
	if err != nil {
		t.Fatal(err)
	}
	refused := errors.New("no")
	if err := l.Update(t.Context(), func(old []byte) ([]byte, error) { return []byte("x"), refused }); !errors.Is(err, refused) {
		t.Errorf("the error is %v", err)
	}
	if err := l.Update(t.Context(), func(old []byte) ([]byte, error) { return old, nil }); err != nil {
		t.Error(err)
	}
	after, err := os.Stat(filepath.Join(dir, "ledger", "00000000000000000000000000000000.json"))
	if err != nil || !os.SameFile(before, after) {
		t.Errorf("the ledger was written again (%v)", err)
	}
	wantLedger(t, l, "1")
}

func TestDamagedLedgerIsSetAside(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := openLedger(t, dir, state.OS{})
	if err := l.Update(t.Context(), count); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "ledger", "00000000000000000000000000000000.json")
	if err := os.WriteFile(file, []byte("not a record"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Read(); !errors.Is(err, state.ErrCorrupt) {
		t.Errorf("reading it gives %v", err)
	}
	if err := l.Update(t.Context(), count); err != nil {
		t.Fatal(err)
	}
	wantLedger(t, l, "1")
	if kept, err := os.ReadFile(filepath.Join(dir, "ledger", "00000000000000000000000000000000.corrupt-1")); err != nil || string(kept) != "not a record" {
		t.Errorf("the damaged file: %q, %v", kept, err)
	}
}

// At every moment at which the power may go, the ledger afterwards holds a change
// no older than the last acknowledged, and works again.
func TestLedgerSurvivesPowerLossAnywhere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	losses := 0
	for powerAt := 0; ; powerAt++ {
		disk := statetest.NewDisk(powerAt)
		l := openLedger(t, dir, disk)
		acked := 0
		for acked < 4 && l.Update(t.Context(), count) == nil {
			acked++
		}
		for after := range disk.Afterwards() {
			again := openLedger(t, dir, after)
			data, err := again.Read()
			n, _ := strconv.Atoi(string(data))
			if err != nil || n < acked || n > acked+1 {
				t.Fatalf("power lost before operation %d: %d changes were acknowledged, %q is found (%v)", powerAt, acked, data, err)
			}
			if err := again.Update(t.Context(), count); err != nil {
				t.Fatalf("power lost before operation %d: %v", powerAt, err)
			}
			wantLedger(t, again, strconv.Itoa(n+1))
		}
		if !disk.Off() {
			break
		}
		losses++
	}
	if losses < 10 {
		t.Errorf("only %d losses were tried", losses)
	}
}

func TestLedgerIsFollowed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := openLedger(t, dir, state.OS{})
	ctx, cancel := context.WithCancel(t.Context())
	calls, done := make(chan struct{}, 100), make(chan error, 1)
	go func() { done <- l.Follow(ctx, func() { calls <- struct{}{} }) }()
	<-calls // the first comes without a change
	for range 3 {
		if err := openLedger(t, dir, state.OS{}).Update(t.Context(), count); err != nil {
			t.Fatal(err)
		}
		<-calls
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Follow: %v", err)
	}
}
