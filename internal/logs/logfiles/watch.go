package logfiles

import (
	"context"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Changes reports possible changes of the files of a task.
type Changes struct{ watcher *fsnotify.Watcher }

// blind is the interval in which files are read where the kernel has no watches left.
const blind = time.Second

// Watch begins to watch the files of a task. Close it.
func (d Dir) Watch(id string) *Changes { return watchDir(d.Task(id)) }

// Watch begins to watch the files of a container. Close it.
func (f Files) Watch() *Changes { return watchDir(f.dir) }

func watchDir(dir string) *Changes {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return &Changes{}
	}
	if w.Add(dir) != nil {
		w.Close()
		return &Changes{}
	}
	return &Changes{watcher: w}
}

// Close ends the watch.
func (c *Changes) Close() {
	if c.watcher != nil {
		c.watcher.Close()
	}
}

// Await returns when a file may have changed since the last call, or ctx ended.
func (c *Changes) Await(ctx context.Context) { c.AwaitOr(ctx, nil) }

// AwaitOr is Await that also returns when a channel has a value.
func (c *Changes) AwaitOr(ctx context.Context, also <-chan struct{}) {
	if c.watcher == nil {
		select {
		case <-time.After(blind):
		case <-also:
		case <-ctx.Done():
		}
		return
	}
	for ours := false; !ours; {
		select {
		case e := <-c.watcher.Events:
			ours = strings.HasSuffix(e.Name, ".log") // not what podtask writes beside it
		case <-c.watcher.Errors: // such as too many events at once
			return
		case <-also:
			return
		case <-ctx.Done():
			return
		}
	}
	for {
		select {
		case <-c.watcher.Events:
		default:
			return
		}
	}
}
