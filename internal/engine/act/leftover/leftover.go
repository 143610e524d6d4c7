package leftover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/sleep"
	"github.com/podtask/podtask/pkg/cgroups"
)

// Podman is what is asked of Podman.
type Podman interface {
	// Inventory lists everything that Podman knows, also what others made.
	Inventory(ctx context.Context) (libpod.Inventory, error)
	// FreeStorage removes a container that only the storage knows.
	FreeStorage(ctx context.Context, name string) error
}

// Remover removes leftovers.
type Remover struct {
	Log *slog.Logger
	// Dir holds the notes: a file for each task that had a call cut off.
	Dir string
	// RunDir is $XDG_RUNTIME_DIR, where Podman and the OCI runtimes keep what does not
	// outlast a reboot; "" if there is none.
	RunDir string
	Podman func(context.Context) (Podman, error)
	// Manager is the connection to the user's systemd manager.
	Manager func(context.Context) (*cgroups.User, error)
}

// Window is the time of a call that was cut off.
type Window struct {
	Began time.Time `json:"began"`
	Ended time.Time `json:"ended"`
}

// slack covers the granularity of the times of files.
const slack = 50 * time.Millisecond

// settleTime is longer than Podman takes from making a namespace or a slice to recording it.
const settleTime = 3 * time.Second

// contains reports whether something that was made at that time may be of a call.
func contains(windows []Window, at time.Time) bool {
	for _, w := range windows {
		if !at.Before(w.Began.Add(-slack)) && !at.After(w.Ended.Add(slack)) {
			return true
		}
	}
	return false
}

// NoteCutOff notes that a call for a task was cut off.
func (r *Remover) NoteCutOff(id string, w Window) {
	if err := r.Note(id, w); err != nil {
		r.Log.Warn("what Podman left behind may stay", "task", id, "error", err)
	}
}

// Forget removes the notes of a task.
func (r *Remover) Forget(id string) error {
	err := os.Remove(r.path(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Note notes that a task may have something in Podman that was made at that time.
func (r *Remover) Note(id string, w Window) error {
	if err := os.MkdirAll(r.Dir, 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(r.path(id), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(json.NewEncoder(f).Encode(w), f.Close())
}

func (r *Remover) path(id string) string { return filepath.Join(r.Dir, id) }

// Noted returns the tasks that had a call cut off.
func (r *Remover) Noted() ([]string, error) {
	entries, err := os.ReadDir(r.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var ids []string
	for _, e := range entries {
		ids = append(ids, e.Name())
	}
	return ids, err
}

// windows returns the calls of a task that were cut off; none if no call was.
func (r *Remover) windows(id string) (found []Window, err error) {
	f, err := os.Open(r.path(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for d := json.NewDecoder(f); d.More(); {
		var w Window
		if err := d.Decode(&w); err != nil {
			return found, fmt.Errorf("read %s: %w", f.Name(), err)
		}
		found = append(found, w)
	}
	return found, nil
}

// Remove removes what calls for a task have left that were cut off; there is nothing to do
// if none was. It returns what it removed. With forget, which is for a task that is
// removed, it also removes the notes.
func (r *Remover) Remove(ctx context.Context, id string, forget bool) (removed []string, err error) {
	windows, err := r.windows(id)
	if err != nil || len(windows) == 0 {
		return nil, err
	}
	podman, err := r.Podman(ctx)
	if err != nil {
		return nil, err
	}
	found, err := r.look(ctx, podman, id, windows)
	if err != nil {
		return nil, err
	}
	var errs []error
	collect := func(what string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("remove %s: %w", what, err))
			return
		}
		removed = append(removed, what)
	}
	for _, name := range found.storage {
		collect("storage container "+name, podman.FreeStorage(ctx, name))
	}
	r.removeMonitors(found.monitors, found.processes, collect)
	removeNamespaces(found.namespaces, found.processes, collect)
	for _, unit := range found.slices {
		collect("slice "+unit, r.stopSlice(ctx, unit))
	}
	if forget && errors.Join(errs...) == nil {
		// Another process may have removed the notes: the next command, or the agent.
		if err := os.Remove(r.path(id)); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return removed, errors.Join(errs...)
}

// look returns what Podman does not know, also not some time later: what a call makes right
// now, Podman records in that time.
func (r *Remover) look(ctx context.Context, podman Podman, id string, windows []Window) (found unknown, err error) {
	found, err = r.unknown(ctx, podman, id, windows)
	if err != nil || found.certain() {
		return found, err
	}
	if !sleep.For(ctx, settleTime) {
		return unknown{}, context.Cause(ctx)
	}
	storage := found.storage
	found, err = r.unknown(ctx, podman, id, windows)
	found.storage = slices.DeleteFunc(found.storage, func(name string) bool { return !slices.Contains(storage, name) })
	return found, err
}

// ofTask reports whether a container has the name of one of the task's (podspec.PodName).
func ofTask(name, id string) bool {
	return strings.HasPrefix(name, "podtask-") && strings.Contains(name, "-"+id[:min(12, len(id))]+"-")
}

// unknown is what Podman does not know: of the task, or made while a call was cut off.
type unknown struct {
	storage    []string  // names of the task's containers that only the storage knows
	monitors   []process // of the task's containers
	namespaces []string  // paths
	slices     []string  // units
	processes  []process // all
}

// certain reports whether a second look would show the same.
func (u unknown) certain() bool { return len(u.storage)+len(u.namespaces)+len(u.slices) == 0 }

// unknown lists processes before it asks Podman, which knows a container before it starts the
// monitor.
func (r *Remover) unknown(ctx context.Context, podman Podman, id string, windows []Window) (found unknown, err error) {
	if found.processes, err = processes(); err != nil {
		return unknown{}, err
	}
	known, err := podman.Inventory(ctx)
	if err != nil {
		return unknown{}, err
	}
	found.monitors = monitors(found.processes, id, known.Containers)
	for _, name := range known.StorageOnly {
		if ofTask(name, id) {
			found.storage = append(found.storage, name)
		}
	}
	if r.RunDir != "" {
		files, err := filepath.Glob(filepath.Join(r.RunDir, "netns", "netns-*"))
		if err != nil {
			return unknown{}, err
		}
		for _, path := range files {
			info, err := os.Lstat(path)
			if err == nil && !known.Namespaces[path] && contains(windows, info.ModTime()) {
				found.namespaces = append(found.namespaces, path)
			}
		}
	}
	user, err := r.Manager(ctx)
	if err != nil {
		return found, nil // there is no user manager, and so no slice
	}
	pods, err := cgroups.PodSlices(ctx, user)
	for _, s := range pods {
		if !known.Pods[s.PodID] && contains(windows, s.Since) {
			found.slices = append(found.slices, s.Unit)
		}
	}
	return found, err
}

func (r *Remover) stopSlice(ctx context.Context, unit string) error {
	user, err := r.Manager(ctx)
	if err != nil {
		return err
	}
	return user.StopSlice(ctx, unit)
}
