package state_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/internal/state/statetest"
)

const (
	keyA = "0123456789abcdef0123456789abcdef"
	keyB = "11111111111111111111111111111111"
	keyC = "22222222222222222222222222222222"
	keyD = "33333333333333333333333333333333"
)

func openStore(t *testing.T, dir string, fsys state.FS) *state.Store {
	t.Helper()
	s, err := state.Open(dir, fsys)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func put(t *testing.T, s *state.Store, key, data string) {
	t.Helper()
	if err := s.Put(key, []byte(data)); err != nil {
		t.Fatal(err)
	}
}

func wantData(t *testing.T, s *state.Store, key, want string) {
	t.Helper()
	got, err := s.Get(key)
	if err != nil || string(got) != want {
		t.Errorf("Get = %q, %v; want %q", got, err, want)
	}
}

func TestRecordsOutliveTheStore(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "podtask")
	put(t, openStore(t, dir, state.OS{}), keyA, `{"n":1}`)

	s := openStore(t, dir, state.OS{})
	wantData(t, s, keyA, `{"n":1}`)
	put(t, s, keyA, "")
	wantData(t, s, keyA, "")
	if err := s.Delete(keyA); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(keyA); err != nil {
		t.Errorf("deleting what is not there: %v", err)
	}
	if _, err := s.Get(keyA); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Get after Delete: %v", err)
	}
}

func TestFilesArePrivateAndReadable(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "podtask")
	put(t, openStore(t, dir, state.OS{}), keyA, "{}\n")
	file := filepath.Join(dir, "tasks", keyA+".json")
	for path, want := range map[string]fs.FileMode{dir: 0o700, filepath.Dir(file): 0o700, file: 0o600} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %v, want %v", path, got, want)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	// sha256 of "{}\n", computed by sha256sum.
	want := "podtask-record 1 sha256:ca3d163bab055381827226140568f3bef7eaac187cebd76878e0b63e9e442356\n{}\n"
	if string(text) != want {
		t.Errorf("file is %q, want %q", text, want)
	}
}

func TestKeysAreHexDigitsOnly(t *testing.T) {
	t.Parallel()
	s := openStore(t, t.TempDir(), state.OS{})
	for _, key := range []string{"", "abc", strings.ToUpper(keyA), "../" + keyA[3:], keyA + "0"} {
		_, getErr := s.Get(key)
		for _, err := range []error{s.Put(key, nil), s.Delete(key), s.SetAside(key), getErr} {
			if !errors.Is(err, state.ErrBadKey) {
				t.Errorf("key %q: %v, want ErrBadKey", key, err)
			}
		}
	}
}

func damage(t *testing.T, dir, key, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "tasks", key+".json"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestBadRecordsDoNotEndTheWalk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openStore(t, dir, state.OS{})
	put(t, s, keyA, "good")
	put(t, s, keyD, "good too")
	damage(t, dir, keyB, "podtask-record 1 sha256:00\nx")
	damage(t, dir, keyC, "podtask-record 7 blake9:zz with more\nx")
	locks, err := state.OpenLocks(dir, state.Holder{})
	if err != nil {
		t.Fatal(err)
	}

	walk := func() (good []string, errs []error) {
		for rec, err := range s.All(locks) {
			if err != nil {
				errs = append(errs, err)
				continue
			}
			good = append(good, rec.Key+"="+string(rec.Data))
		}
		return good, errs
	}
	good, errs := walk()
	if want := []string{keyA + "=good", keyD + "=good too"}; fmt.Sprint(good) != fmt.Sprint(want) {
		t.Errorf("good records %v, want %v", good, want)
	}
	var corrupt *state.CorruptError
	var future *state.FutureError
	all := errors.Join(errs...)
	if !errors.As(all, &corrupt) || corrupt.Key != keyB || corrupt.MovedTo == "" {
		t.Errorf("no CorruptError with a new place in %v", all)
	} else if text, err := os.ReadFile(corrupt.MovedTo); err != nil || !bytes.HasSuffix(text, []byte("\nx")) {
		t.Errorf("moved file: %q, %v", text, err)
	}
	if !errors.As(all, &future) || future.Version != 7 {
		t.Errorf("no FutureError with version 7 in %v", all)
	}
	if _, errs := walk(); len(errs) != 1 || !errors.Is(errs[0], state.ErrFuture) {
		t.Errorf("second walk reports %v; want only the newer version, untouched", errs)
	}

	damage(t, dir, keyB, "again")
	if err := s.SetAside(keyB); !errors.As(err, &corrupt) || !strings.HasSuffix(corrupt.MovedTo, "corrupt-2") {
		t.Errorf("second damage: %v, want it moved to corrupt-2", err)
	}
}

func TestOwnedCorruptRecordIsOnlyReported(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openStore(t, dir, state.OS{})
	damage(t, dir, keyA, "torn")
	locks, err := state.OpenLocks(dir, state.Holder{})
	if err != nil {
		t.Fatal(err)
	}
	lock, err := locks.Lock(keyA)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Unlock()
	for _, err := range s.All(locks) {
		var corrupt *state.CorruptError
		if !errors.As(err, &corrupt) || corrupt.MovedTo != "" {
			t.Errorf("walk: %v, want a CorruptError left in place", err)
		}
	}
	if _, err := s.Get(keyA); !errors.Is(err, state.ErrCorrupt) {
		t.Errorf("Get: %v, want ErrCorrupt", err)
	}
}

func TestSetAsideKeepsWhatIsGood(t *testing.T) {
	t.Parallel()
	s := openStore(t, t.TempDir(), state.OS{})
	put(t, s, keyA, "good")
	if err := s.SetAside(keyA); err != nil {
		t.Error(err)
	}
	if err := s.SetAside(keyB); err != nil {
		t.Error(err)
	}
	wantData(t, s, keyA, "good")
}

func TestFullDiskKeepsTheOldRecord(t *testing.T) {
	t.Parallel()
	for _, op := range []statetest.Op{statetest.OpCreate, statetest.OpWrite, statetest.OpSync, statetest.OpClose, statetest.OpRename} {
		t.Run(string(op), func(t *testing.T) {
			t.Parallel()
			disk := statetest.NewDisk(-1)
			s := openStore(t, "/s", disk)
			put(t, s, keyA, "old")
			disk.Fault = failOnce(op, syscall.ENOSPC)
			if err := s.Put(keyA, []byte("new")); !errors.Is(err, state.ErrNoSpace) {
				t.Errorf("Put: %v, want ErrNoSpace", err)
			}
			if op != statetest.OpClose && op != statetest.OpSync { // these find a full disk only
				disk.Fault = failOnce(op, syscall.EROFS)
				if err := s.Put(keyA, []byte("new")); !errors.Is(err, state.ErrNoSpace) || !strings.Contains(err.Error(), "read-only file system") {
					t.Errorf("Put on a read-only file system: %v", err)
				}
			}
			wantData(t, s, keyA, "old")
			if names, _ := disk.ReadDir("/s/tasks"); len(names) != 1 {
				t.Errorf("left behind: %v", names)
			}
			put(t, s, keyA, "new")
			wantData(t, s, keyA, "new")
		})
	}
}

// failOnce fails the first operation of that kind.
func failOnce(op statetest.Op, err error) func(statetest.Op, string) error {
	done := false
	return func(o statetest.Op, _ string) error {
		if o != op || done {
			return nil
		}
		done = true
		return err
	}
}

func TestFailedDirectorySyncStopsWritesUntilReadAgain(t *testing.T) {
	t.Parallel()
	disk := statetest.NewDisk(-1)
	s := openStore(t, "/s", disk)
	put(t, s, keyA, "old")
	disk.Fault = failOnce(statetest.OpSyncDir, syscall.EIO)
	if err := s.Put(keyA, []byte("new")); !errors.Is(err, state.ErrInDoubt) || !errors.Is(err, syscall.EIO) {
		t.Fatalf("Put: %v, want ErrInDoubt and EIO", err)
	}
	if err := s.Put(keyA, []byte("newer")); !errors.Is(err, state.ErrInDoubt) {
		t.Errorf("second Put: %v, want ErrInDoubt", err)
	}
	if err := s.Delete(keyA); !errors.Is(err, state.ErrInDoubt) {
		t.Errorf("Delete: %v, want ErrInDoubt", err)
	}
	put(t, s, keyB, "others are free")

	wantData(t, s, keyA, "new")
	for after := range disk.Afterwards() {
		wantData(t, openStore(t, "/s", after), keyA, "new") // what Get told is durable
	}
	put(t, s, keyA, "newer")
}

func TestGetFailsWhileTheDoubtLasts(t *testing.T) {
	t.Parallel()
	disk := statetest.NewDisk(-1)
	s := openStore(t, "/s", disk)
	disk.Fault = func(op statetest.Op, _ string) error {
		if op == statetest.OpSyncDir {
			return syscall.EIO
		}
		return nil
	}
	_ = s.Put(keyA, []byte("new"))
	if _, err := s.Get(keyA); !errors.Is(err, state.ErrInDoubt) {
		t.Errorf("Get: %v, want ErrInDoubt", err)
	}
	disk.Fault = nil
	wantData(t, s, keyA, "new")
}

func TestAbandonedFirstWriteIsFoundAndDeleted(t *testing.T) {
	t.Parallel()
	disk := statetest.NewDisk(-1)
	s := openStore(t, "/s", disk)
	put(t, s, keyA, "x")
	disk.Set("/s/tasks/."+keyA+".tmp", []byte("half"))
	disk.Set("/s/tasks/."+keyB+".tmp", []byte("half"))
	keys, err := s.Abandoned()
	if err != nil || fmt.Sprint(keys) != fmt.Sprint([]string{keyB}) {
		t.Fatalf("Abandoned = %v, %v; want [%s]", keys, err, keyB)
	}
	if err := s.Delete(keyB); err != nil {
		t.Fatal(err)
	}
	if keys, _ := s.Abandoned(); len(keys) != 0 {
		t.Errorf("still abandoned: %v", keys)
	}
}

// FuzzRecord: whatever lies in a record's file, it is read back exactly as it
// was written or named corrupt or newer.
func FuzzRecord(f *testing.F) {
	f.Add([]byte("podtask-record 1 sha256:ca3d163bab055381827226140568f3bef7eaac187cebd76878e0b63e9e442356\n{}\n"))
	f.Add([]byte("podtask-record 2\n"))
	f.Add([]byte("podtask-record 1 sha256:\n"))
	f.Add([]byte("\n"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, content []byte) {
		disk := statetest.NewDisk(-1)
		s, err := state.Open("/s", disk)
		if err != nil {
			t.Fatal(err)
		}
		disk.Set("/s/tasks/"+keyA+".json", content)
		data, err := s.Get(keyA)
		if err != nil {
			if !errors.Is(err, state.ErrCorrupt) && !errors.Is(err, state.ErrFuture) {
				t.Fatalf("unnamed error %v", err)
			}
			return
		}
		if err := s.Put(keyA, data); err != nil {
			t.Fatal(err)
		}
		again, err := disk.ReadFile("/s/tasks/" + keyA + ".json")
		if err != nil || !bytes.Equal(again, content) {
			t.Fatalf("accepted %q but writes %q (%v)", content, again, err)
		}
	})
}

func TestDirs(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name           string
		env            map[string]string
		state, runtime string
		wantErr        string
	}{
		{"XDG variables win", map[string]string{"HOME": "/h", "XDG_STATE_HOME": "/s", "XDG_RUNTIME_DIR": "/r"}, "/s/podtask", "/r/podtask", ""},
		{"state falls back to HOME", map[string]string{"HOME": "/h", "XDG_RUNTIME_DIR": "/r"}, "/h/.local/state/podtask", "/r/podtask", ""},
		{"relative counts as unset", map[string]string{"HOME": "/h", "XDG_STATE_HOME": "s", "XDG_RUNTIME_DIR": "/r"}, "/h/.local/state/podtask", "/r/podtask", ""},
		{"without runtime dir the state is still told", map[string]string{"HOME": "/h"}, "/h/.local/state/podtask", "", "loginctl enable-linger"},
		{"without HOME", map[string]string{"XDG_RUNTIME_DIR": "/r"}, "", "/r/podtask", "XDG_STATE_HOME"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			st, rt, err := state.Dirs(func(k string) string { return tt.env[k] })
			if st != tt.state || rt != tt.runtime {
				t.Errorf("Dirs = %q, %q; want %q, %q", st, rt, tt.state, tt.runtime)
			}
			if (err == nil) != (tt.wantErr == "") || err != nil && !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("error %v, want %q", err, tt.wantErr)
			}
		})
	}
}

func TestFollowRecordsTellsOfOldAndNewAndRemovedOnes(t *testing.T) {
	t.Parallel()
	s, err := state.Open(t.TempDir(), state.OS{})
	if err != nil {
		t.Fatal(err)
	}
	old, young := strings.Repeat("a", 32), strings.Repeat("b", 32)
	if err := s.Put(old, []byte("1")); err != nil {
		t.Fatal(err)
	}
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	var seen []string
	err = s.FollowRecords(ctx, func(key string) {
		seen = append(seen, key[:1])
		switch len(seen) {
		case 2: // written
			err = s.Delete(young)
		case 3: // removed
			cancel(enough)
		}
		if err != nil {
			t.Error(err)
		}
	}, func() {
		seen[0] += " listed"
		if err := s.Put(young, []byte("2")); err != nil {
			t.Error(err)
		}
	})
	if !errors.Is(err, enough) || strings.Join(seen, ",") != "a listed,b,b" {
		t.Errorf("%q, %v", seen, err)
	}
}

func TestCorruptRecordsAreListedAndRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := state.Open(dir, state.OS{})
	if err != nil {
		t.Fatal(err)
	}
	key, other := strings.Repeat("ab", 16), strings.Repeat("cd", 16)
	for _, name := range []string{key + ".corrupt-1", key + ".corrupt-2", other + ".corrupt-1", "short.corrupt-1"} {
		if err := os.WriteFile(filepath.Join(dir, "tasks", name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Put(key, []byte("good")); err != nil {
		t.Fatal(err)
	}
	if keys, err := state.CorruptKeys(s); err != nil || !slices.Equal(keys, []string{key, other}) {
		t.Errorf("%v, %v", keys, err)
	}
	if err := state.DeleteCorrupt(s, key); err != nil {
		t.Error(err)
	}
	if keys, err := state.CorruptKeys(s); err != nil || !slices.Equal(keys, []string{other}) {
		t.Errorf("after the removal: %v, %v", keys, err)
	}
	if data, err := s.Get(key); err != nil || string(data) != "good" {
		t.Errorf("the record of that key is %q, %v", data, err)
	}
}
