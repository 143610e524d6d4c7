package stack

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/define/lockfile"
	"github.com/podtask/podtask/internal/engine/act/imagestore"
	"github.com/podtask/podtask/internal/engine/run/stacks"
)

// lockFlags are --lock and --locked.
func lockFlags() []cli.Flag {
	return []cli.Flag{
		&command.OptionalFlag{StringFlag: &cli.StringFlag{Name: "lock", Usage: "write the images of all members to the lockfile `FILE`, or the one beside the first file of the stack"}, Bare: "true"},
		&command.OptionalFlag{StringFlag: &cli.StringFlag{Name: "locked", Usage: "use exactly the images of the lockfile `FILE`, or of the one beside the first file of the stack, and fail if the stack has changed since"}, Bare: "true"},
	}
}

// lockPath returns the file of --lock or --locked of a stack whose first file is source; empty without the flag.
func (k call) lockPath(flag, source string) string {
	switch path := k.c.String(flag); path {
	case "", "false":
		return ""
	case "true":
		return lockfile.Path(strings.TrimRight(source, "/"))
	default:
		return path
	}
}

// lockDigest tells apart what stacks say: their members and the definition of each.
func (w *wanted) lockDigest() string {
	var all []string
	for _, m := range w.Members {
		all = append(all, m.Name+" "+m.digest)
	}
	slices.Sort(all)
	return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(strings.Join(all, "\n"))))
}

func lockMissing(err error) error {
	return fmt.Errorf("%w; `podtask stack plan --lock` writes that of a stack", err)
}

// applyLock gives all members the images of a lockfile.
func (k call) applyLock(path string, w *wanted) error {
	f, digest := w.Lock, w.LockDigest
	if !w.sent {
		loaded, err := lockfile.Load(path)
		if err != nil {
			return lockMissing(err)
		}
		f, digest = &loaded, w.lockDigest()
	}
	var err error
	var errs []error
	for _, m := range w.Members {
		m.Images, err = f.Apply(path, w.Source[0], digest, m.task, imagestore.Platform(m.task))
		if errors.As(err, new(*lockfile.DifferenceError)) {
			return fmt.Errorf("%w, and `podtask stack plan --lock` that of a stack", err)
		}
		errs = append(errs, err)
		for _, i := range f.Images {
			if _, has := m.Images[i.Image]; has && i.Local() && i.Digest == "" {
				m.Images[i.Image] = stacks.IDPrefix + i.ID
			}
		}
	}
	return errors.Join(errs...)
}

// writeLock writes the lockfile of what was looked up.
func (k call) writeLock(path string, w *wanted, all []lockfile.Image) error {
	host, err := os.Hostname()
	if err != nil {
		host = "this host"
	}
	f := lockfile.File{
		Version: lockfile.Version, Definition: lockfile.Definition{File: w.Source[0], Digest: w.lockDigest()},
		LockedAt: time.Now().UTC().Truncate(time.Second), LockedBy: "podtask stack on " + host,
	}
	slices.SortFunc(all, func(a, b lockfile.Image) int { return strings.Compare(a.Image, b.Image) })
	f.Images = slices.CompactFunc(all, func(a, b lockfile.Image) bool { return a.Image == b.Image })
	if before, err := lockfile.Load(path); err == nil && before.Same(f) {
		return nil
	}
	if err := f.Save(path); err != nil {
		return err
	}
	fmt.Fprintf(k.errOut, "%s written; `podtask stack up --locked` uses it\n", path)
	return nil
}
