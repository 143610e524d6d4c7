package lock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/define/lockfile"
	"github.com/podtask/podtask/internal/define/strictdoc"
	"github.com/podtask/podtask/internal/engine/act/imagestore"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"
)

// Command is `podtask lock`.
func Command(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "lock",
		Usage:     "write down the digests of a definition's images, for runs with --locked",
		ArgsUsage: "FILE",
		Description: `Asks the registries for the digest of every image of the definition, for all platforms, and
writes them with the digest of the definition itself into a lockfile beside it: web.lock for
web.yaml. With --locked, run, pull, service create and service update use exactly these
images, whatever the tags point to by then, and need no registry for those that are here.
An image of localhost/ is locked by its ID; no other machine has it.

A lock whose images and definition are still the same is left as it is.

Examples:
  podtask lock web.yaml
  podtask run --locked web.yaml
  podtask lock --check web.yaml`,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "file", Usage: "write the lock to `FILE`", DefaultText: "beside the definition"},
			&cli.BoolFlag{Name: "check", Usage: "write nothing, and fail if the lock is not what a new one would be"},
			command.FormatFlag(command.ItemFormats),
		}, command.DefinitionFlags()...),
		Action: command.WithMachine(p, newLock),
	}
}

// lockOptions holds the dependencies of `podtask lock`.
type lockOptions struct {
	out, errOut io.Writer
	warn        func(format string, args ...any)
	version     string
	definition  func(c *cli.Context, name string) (command.Definition, error)
	images      *imagestore.Resolver
	now         func() time.Time
	hostname    func() (string, error)
}

func newLock(m *command.Machine) lockOptions {
	p := m.Program
	return lockOptions{
		out: p.Stdout, errOut: p.Stderr, warn: p.Warn, version: p.Version,
		definition: p.Definition, images: m.Engine.Images, now: time.Now, hostname: os.Hostname,
	}
}

// Run implements command.Runner.
func (o lockOptions) Run(ctx context.Context, c *cli.Context) error {
	if n := c.Args().Len(); n != 1 {
		return command.Usagef("lock", "lock takes one FILE, not %d arguments", n)
	}
	name, path := c.Args().First(), c.String("file")
	if path == "" {
		if _, err := os.Stat(name); err != nil {
			return command.Usagef("lock", "%s has no lockfile beside it: name one with --file", name)
		}
		path = command.LockPathOf(name)
	}
	d, err := o.definition(c, name)
	if err != nil {
		return err
	}
	task, f, err := d.Read()
	if err != nil {
		return err
	}
	if !f.Runnable(o.errOut) {
		return command.ExitStatus(command.ExitOwnFailure)
	}
	digest, err := f.Definition.Digest()
	if err != nil {
		return err
	}
	host, err := o.hostname()
	if err != nil {
		host = "this host"
	}
	made := lockfile.File{
		Version: lockfile.Version, Definition: lockfile.Definition{File: name, Digest: digest},
		LockedAt: o.now().UTC().Truncate(time.Second), LockedBy: "podtask " + o.version + " on " + host,
	}
	if made.Images, err = o.lookUp(ctx, task, host); err != nil {
		return err
	}
	before, err := lockfile.Load(path)
	switch {
	case c.Bool("check") && err != nil:
		return err
	case c.Bool("check"):
		if differences := before.Differences(made); len(differences) > 0 {
			return &lockfile.DifferenceError{Lock: path, Definition: name, Differences: differences}
		}
	case errors.As(err, new(*strictdoc.InvalidError)):
		o.warn("%v: it is replaced", err)
	case err != nil && !errors.Is(err, lockfile.ErrMissing):
		return err
	}
	same := err == nil && before.Same(made)
	if same {
		made = before
	} else if err := made.Save(path); err != nil {
		return err
	}
	return command.PrintItems(o.out, c, []lockfile.File{made}, func(bool) error { return o.print(path, made, same) })
}

// print writes a line for each image.
func (o lockOptions) print(path string, f lockfile.File, same bool) error {
	rows := [][]string{{"IMAGE", "DIGEST", "PLATFORMS"}}
	for _, i := range f.Images {
		what, platforms := console.ShortDigest(i.Digest), fmt.Sprint(len(i.Platforms))
		if i.Local() {
			what, platforms = "ID "+lifecycle.ShortID(i.ID), "this host only"
		}
		rows = append(rows, []string{i.Image, what, platforms})
	}
	if err := console.WriteTable(o.out, rows); err != nil {
		return err
	}
	for _, i := range f.Images {
		if i.Local() {
			o.warn("%s: %s", i.Image, lockfile.NoOtherMachine)
		}
	}
	if same {
		fmt.Fprintf(o.errOut, "%s is up to date\n", path)
		return nil
	}
	fmt.Fprintf(o.errOut, "%s written; `podtask run --locked %s` uses it\n", path, f.Definition.File)
	return nil
}

// lookUp finds all images of a task at once. All that cannot be found are reported.
func (o lockOptions) lookUp(ctx context.Context, task taskdef.Task, host string) ([]lockfile.Image, error) {
	names := task.Images()
	found, errs := make([]lockfile.Image, len(names)), make([]error, len(names))
	var g errgroup.Group
	g.SetLimit(atOnce)
	for i, name := range names {
		g.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, lookUpLimit)
			defer cancel()
			origin, err := o.images.Origin(ctx, lifecycle.State{Task: task}, name)
			if err == nil {
				found[i], err = origin.Lock(name, task, host)
			}
			errs[i] = err
			return nil
		})
	}
	_ = g.Wait() // the errors are in errs
	return found, errors.Join(errs...)
}

// atOnce is the number of images that are looked up or pulled at the same time; lookUpLimit is how long one may take.
const (
	atOnce      = 8
	lookUpLimit = time.Minute
)
