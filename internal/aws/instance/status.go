package instance

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/atomicfile"
	"github.com/podtask/podtask/internal/ecsstatus"
)

// statusFile writes the status when it has changed, at most once in statusPause: a thousand tasks may begin to
// wait at once.
type statusFile struct {
	path string

	mu      sync.Mutex
	status  ecsstatus.Status
	written time.Time
	due     bool // a write is on its way
}

// statusPause is between two writes.
const statusPause = 100 * time.Millisecond

func (f *statusFile) set(change func(*ecsstatus.Status)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.status
	change(&f.status)
	if f.due || reflect.DeepEqual(f.status, before) {
		return
	}
	if pause := statusPause - time.Since(f.written); pause > 0 && !f.written.IsZero() {
		f.due = true
		time.AfterFunc(pause, f.flush)
		return
	}
	f.write()
}

// flush writes what a write that is due would.
func (f *statusFile) flush() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.due {
		f.due = false
		f.write()
	}
}

// write writes the file; the lock is held.
func (f *statusFile) write() {
	f.written = time.Now()
	text, err := json.Marshal(f.status)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(f.path), 0o700)
	}
	if err == nil {
		err = atomicfile.Write(f.path, text, 0o600)
	}
	_ = err // the status is for people; the instance runs without it
}

// wait notes that something is waited for, done that it is no longer.
func (f *statusFile) wait(kind ecsstatus.Kind, task, text string) {
	f.set(func(s *ecsstatus.Status) { s.Wait(kind, task, text, time.Now()) })
}

func (f *statusFile) done(task string, kinds ...ecsstatus.Kind) {
	f.set(func(s *ecsstatus.Status) {
		for _, k := range kinds {
			s.Done(k, task)
		}
	})
}
