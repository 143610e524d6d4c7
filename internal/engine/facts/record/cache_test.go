package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// cacheBed is a cache over records of which the clock can be moved.
type cacheBed struct {
	*testing.T
	dir   string
	store *state.Store
	cache *Cache
	ahead time.Duration // of the clock before that of the files
	moves int           // of the clock of the file system
}

// tick has the file system's clock move on after the directory of the records was changed, as the clock's lead says it has.
func (b *cacheBed) tick() {
	b.Helper()
	b.moves++
	at := time.Unix(1_000_000_000+int64(b.moves), 0)
	if err := os.Chtimes(filepath.Join(b.dir, "tasks"), at, at); err != nil {
		b.Fatal(err)
	}
}

func newCacheBed(t *testing.T) *cacheBed {
	t.Helper()
	b := &cacheBed{T: t, dir: t.TempDir()}
	var err error
	if b.store, err = state.Open(b.dir, state.OS{}); err != nil {
		t.Fatal(err)
	}
	locks, err := state.OpenLocks(b.dir, state.Holder{})
	if err != nil {
		t.Fatal(err)
	}
	b.cache = NewCache(&Tasks{Store: b.store, Locks: locks})
	b.cache.now = func() time.Time { return time.Now().Add(b.ahead) }
	return b
}

// put records a task, as its owner does, which may be another process.
func (b *cacheBed) put(id, name string) {
	b.Helper()
	s := podState(id, name, taskdef.PodRef{}, 0, lifecycle.Up)
	s.Task.Containers[0].Essential, s.Task.Containers[0].StopTimeout = true, taskdef.DefaultStopTimeout
	data, err := json.Marshal(s)
	if err == nil {
		err = b.store.Put(strings.Repeat(id, 32), data)
	}
	if err != nil {
		b.Fatal(err)
	}
	if b.ahead > 0 {
		b.tick()
	}
}

// names are those of all tasks.
func (b *cacheBed) names() (all []string) {
	b.Helper()
	states, errs := b.cache.States(func(string) (lifecycle.State, bool) { return lifecycle.State{}, false })
	for _, err := range errs {
		b.Error(err)
	}
	for _, s := range states {
		all = append(all, s.Name)
	}
	return all
}

func (b *cacheBed) want(names string) {
	b.Helper()
	if got := strings.Join(b.names(), " "); got != names {
		b.Errorf("the tasks are %q, want %q", got, names)
	}
}

// A record that is written is read again, also if it is as long as before, at the same moment, and with the
// inode of the version before the last.
func TestTheCacheHasWhatIsRecorded(t *testing.T) {
	t.Parallel()
	b := newCacheBed(t)
	b.want("")
	for i := range 300 {
		name := fmt.Sprintf("n%03d", i)
		b.put("a", name)
		b.want(name)
	}
	b.ahead = time.Hour // what is read now is kept
	for i := range 300 {
		name := fmt.Sprintf("m%03d", i)
		b.put("a", name)
		b.want(name)
		b.want(name)
	}
	b.put("b", "other")
	b.want("m299 other")
	if err := b.store.Delete(strings.Repeat("a", 32)); err != nil {
		t.Fatal(err)
	}
	b.tick()
	b.want("other")
	if _, err := b.cache.Get(strings.Repeat("a", 32)); !errors.As(err, new(*NotFoundError)) {
		t.Errorf("a record that is gone: %v", err)
	}
	if s, err := b.cache.Get(strings.Repeat("b", 32)); err != nil || s.Name != "other" {
		t.Errorf("%s %v", s.Name, err)
	}
}

// An unchanged record is not read again, and one that was written within the last moment is.
func TestTheCacheReadsWhatIsNewOnly(t *testing.T) {
	t.Parallel()
	b := newCacheBed(t)
	b.put("a", "one")
	path := filepath.Join(b.dir, "tasks", strings.Repeat("a", 32)+".json")
	// spoil changes the content without a trace, which no owner does.
	spoil := func() {
		t.Helper()
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.WriteFile(path, make([]byte, info.Size()), 0o600), os.Chtimes(path, info.ModTime(), info.ModTime())); err != nil {
			t.Fatal(err)
		}
	}
	b.want("one")
	b.ahead = time.Hour
	b.want("one")
	spoil()
	b.want("one") // from the cache
	b.cache = NewCache(b.cache.tasks)
	if _, err := b.cache.Get(strings.Repeat("a", 32)); !errors.Is(err, state.ErrCorrupt) {
		t.Errorf("a corrupt record: %v", err)
	}

	b = newCacheBed(t)
	b.put("a", "one")
	path = filepath.Join(b.dir, "tasks", strings.Repeat("a", 32)+".json")
	b.want("one")
	spoil()
	if _, errs := b.cache.States(func(string) (lifecycle.State, bool) { return lifecycle.State{}, false }); len(errs) != 1 {
		t.Errorf("a record of this moment was not read again: %v", errs)
	}
}

// While the directory is unchanged no file is looked at, but the record of a task that has lost its owner is.
func TestTheCacheLooksAtNoFileOfAnUnchangedDirectory(t *testing.T) {
	t.Parallel()
	b := newCacheBed(t)
	b.put("a", "one")
	b.put("b", "two")
	b.ahead = time.Hour
	owned := func(id string) (s lifecycle.State, ok bool) {
		if id != strings.Repeat("b", 32) {
			return s, false
		}
		s, err := b.cache.tasks.Get(id)
		s.Name = "mine"
		return s, err == nil
	}
	if states, errs := b.cache.States(owned); len(errs) != 0 || len(states) != 2 || states[1].Name != "mine" {
		t.Errorf("%v %v", states, errs)
	}
	if err := os.WriteFile(filepath.Join(b.dir, "tasks", strings.Repeat("a", 32)+".json"), []byte("changed without a trace in the directory"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.want("one two")
	b.tick()
	if _, errs := b.cache.States(owned); len(errs) != 1 {
		t.Errorf("a changed directory: %v", errs)
	}
}

// A record that was read before its task had an owner is read again after that, although nothing was written since the owner let it go.
func TestTheCacheReadsWhatAnOwnerHasWritten(t *testing.T) {
	t.Parallel()
	b := newCacheBed(t)
	b.put("a", "before")
	b.ahead = time.Hour // what is read now is kept
	b.want("before")
	b.put("a", "after")
	owned := func(id string) (lifecycle.State, bool) {
		s, err := b.cache.tasks.Get(id)
		return s, err == nil
	}
	if states, errs := b.cache.States(owned); len(errs) != 0 || len(states) != 1 || states[0].Name != "after" {
		t.Errorf("%v %v", states, errs)
	}
	b.want("after")
}

// States that are not asked for are dropped after a while, and read again.
func TestTheCacheForgets(t *testing.T) {
	t.Parallel()
	b := newCacheBed(t)
	b.put("a", "one")
	b.ahead = time.Hour
	b.want("one")
	b.cache.dropIdle()
	if len(b.cache.entries) != 1 {
		t.Error("a state that is used is dropped")
	}
	b.ahead += cacheIdle
	b.cache.dropIdle()
	if len(b.cache.entries) != 0 {
		t.Error("an idle state is kept")
	}
	b.want("one")
}
