package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/podtask/podtask/internal/define"
	"github.com/podtask/podtask/internal/define/lockfile"
	"github.com/podtask/podtask/internal/engine/act/imagestore"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/urfave/cli/v2"
)

// LockedFlag returns --locked, which Program.Definition reads.
func LockedFlag() cli.Flag {
	return &OptionalFlag{StringFlag: &cli.StringFlag{Name: "locked", Usage: "use exactly the images of the lockfile `FILE`, of the one beside the definition if no FILE is given, and fail if the definition has changed since"}, Bare: "true"}
}

// Lock is a lockfile that a command uses, and what it says about the definition.
type Lock struct {
	Path string
	File lockfile.File
	// Images maps each image of the definition, as it is written there, to the one to run.
	Images map[string]string

	definition string // in messages
}

// lockPath returns the lockfile that the flag --locked names; empty for none.
func (d Definition) lockPath() (string, error) {
	switch d.locked {
	case "", "false":
		return "", nil
	case "true":
	default:
		return d.locked, nil
	}
	if _, err := os.Stat(d.Document); errors.Is(err, fs.ErrNotExist) || d.Document == "-" {
		return "", fmt.Errorf("%s has no lockfile beside it: name one, as in --locked=%s", d.Document, "web"+lockfile.Extension)
	}
	return lockfile.Path(d.Document), nil
}

// Unlocked returns the definition without --locked, for a command whose lockfile is of several definitions.
func (d Definition) Unlocked() Definition {
	d.locked = ""
	return d
}

// lock compares a definition with its lockfile; nil without --locked.
func (d Definition) lock(read define.Definition) (*Lock, error) {
	path, err := d.lockPath()
	if err != nil || path == "" {
		return nil, err
	}
	l := &Lock{Path: path, definition: d.Document}
	if l.File, err = lockfile.Load(path); err != nil {
		return nil, err
	}
	digest, err := read.Digest()
	if err != nil {
		return nil, err
	}
	task := read.Task // without what takes the place of a container, which the definition does not have
	task.Containers = slices.DeleteFunc(slices.Clone(task.Containers), func(c taskdef.Container) bool {
		_, replaced := d.Changes.Adjustments.Replace[c.Name]
		return replaced
	})
	l.Images, err = l.File.Apply(path, d.Document, digest, task, imagestore.Platform(task))
	return l, err
}

// CheckBuilt compares the images of the lock that no registry has with those in local storage. A nil lock has none.
func (l *Lock) CheckBuilt(ctx context.Context, images *imagestore.Resolver) error {
	if l == nil {
		return nil
	}
	changed := &lockfile.DifferenceError{Lock: l.Path, Definition: l.definition}
	for _, i := range l.File.Images {
		if l.Images[i.Image] == "" || !i.Local() {
			continue
		}
		stored, found, err := images.Stored(ctx, i.Pinned())
		if err != nil {
			return err
		}
		if found && stored.ID == i.ID {
			continue
		}
		difference := lockfile.Difference{What: i.Reference, Locked: "ID " + i.ID + " of " + i.From}
		if stored, found, err = images.Stored(ctx, i.Reference); err != nil {
			return err
		}
		if found {
			difference.Now = "ID " + stored.ID
		}
		changed.Differences = append(changed.Differences, difference)
	}
	if len(changed.Differences) > 0 {
		return changed
	}
	return nil
}

// LockPathOf returns the file that `podtask lock` writes for a definition.
func LockPathOf(document string) string { return lockfile.Path(filepath.Clean(document)) }

// applyLock returns the task with the images of its lock.
func applyLock(t taskdef.Task, l *Lock) (taskdef.Task, error) {
	if l == nil {
		return t, nil
	}
	return t.Adjust(taskdef.Adjustments{Images: l.Images})
}
