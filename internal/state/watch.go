package state

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/podtask/podtask/internal/sleep"
)

// lookInterval is the interval in which a directory is read that cannot be watched.
const lookInterval = time.Second

// watch tells of changes to the files of a directory. It sleeps on inotify; where the
// user's programs have used up what there is of it (fs.inotify.max_user_instances,
// max_user_watches), it says every lookInterval that anything may have changed.
type watch struct{ inotify *fsnotify.Watcher } // nil: there is none

// newWatch begins to watch dir. The caller looks at it afterwards, so that nothing falls
// between, and closes the watch.
func newWatch(inotify func() (*fsnotify.Watcher, error), dir string) watch {
	w, err := inotify()
	if err != nil {
		return watch{}
	}
	if w.Add(dir) != nil {
		w.Close()
		return watch{}
	}
	return watch{w}
}

func (w watch) close() {
	if w.inotify != nil {
		w.inotify.Close()
	}
}

// next returns the next change, with the base name of the file; no name says that any
// may have changed. The error is the cause of the context's end, or the watch has failed.
func (w watch) next(ctx context.Context) (change fsnotify.Event, err error) {
	if w.inotify == nil {
		if !sleep.For(ctx, lookInterval) {
			return change, context.Cause(ctx)
		}
		return change, nil
	}
	var open bool
	select {
	case <-ctx.Done():
		return change, context.Cause(ctx)
	case change, open = <-w.inotify.Events:
		change.Name = filepath.Base(change.Name)
	case err, open = <-w.inotify.Errors:
		if errors.Is(err, fsnotify.ErrEventOverflow) {
			err = nil // what was lost can only mean: look again
		}
	}
	if !open {
		err = errors.New("the watch ended")
	}
	return change, err
}

// await returns when a file whose name begins with prefix may have changed.
func (w watch) await(ctx context.Context, prefix string) error {
	for {
		change, err := w.next(ctx)
		if err != nil || change.Name == "" || strings.HasPrefix(change.Name, prefix) {
			return err
		}
	}
}
