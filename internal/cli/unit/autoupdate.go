package unit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/internal/engine/act/imagestore"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/engine/run/imagelook"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/internal/unit/rollback"
	"github.com/podtask/podtask/pkg/cgroups"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/service"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/urfave/cli/v2"
)

// AutoUpdateCommand is `podtask auto-update`.
func AutoUpdateCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "auto-update",
		Usage:     "update units and services whose images have changed in the registry",
		ArgsUsage: "[TASK|SERVICE ...]",
		Description: `Asks the registries for the current digests of the images of .task units with
AutoUpdate=registry, and of services with --auto-update registry. If a digest has changed,
it restarts the unit's service of systemd, or has the agent deploy the service as its
strategy says, and waits until that is done. If the new images fail, the update is rolled
back, and they are not tried again until the tag points to another image.

An image that this host has not known for the minimum age is not taken yet, nor is one that a
rule of the configuration holds back (docs/minimum-age.md); --now takes an image at once,
as for a fix. Updates are made one at a time, by one auto-update at a time.

The exit code is 1 if an update failed or was rolled back.

Examples:
  podtask auto-update
  podtask auto-update --dry-run
  podtask auto-update --format json web
  podtask auto-update --now ghcr.io/team/web:1
  systemctl --user enable --now podtask-auto-update.timer    # daily`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "dry-run", Usage: "only show what would be updated"},
			&cli.StringSliceFlag{Name: "now", Usage: "take `IMAGE` whatever its age and the rules, once; it may be given several times"},
			command.FormatFlag(command.ListFormats),
		},
		Action: command.WithMachine(p, newAutoUpdate),
	}
}

// The results for an image, as in podman auto-update.
const (
	updateNone       = "false"
	updatePending    = "pending"
	updateDone       = "true"
	updateFailed     = "failed"
	updateRolledBack = "rolled back"
)

// updateRow is an image in the report.
type updateRow struct {
	Unit string `json:"unit"`
	// Service is the name of a service of the agent; absent for a unit.
	Service   string `json:"service,omitempty"`
	Task      string `json:"task"`
	Container string `json:"container"`
	Image     string `json:"image"`
	Policy    string `json:"policy"`
	Updated   string `json:"updated"`
	// Digest is the digest that runs in the end; empty for a local image that was not compared with the
	// registry. New is the digest in the registry.
	Digest string `json:"digest"`
	New    string `json:"newDigest"`
	// Waits is the reason for which New is not taken yet, Until the time at which that ends; absent if it does not wait.
	Waits string     `json:"waits,omitempty"`
	Until *time.Time `json:"until,omitempty"`
}

type autoUpdateOptions struct {
	out      io.Writer
	errOut   io.Writer
	getenv   func(string) string
	warn     func(format string, args ...any)
	stateDir string
	tasks    *record.Tasks
	owners   *connect.Connector
	images   *imagestore.Resolver
	logger   *slog.Logger
}

func newAutoUpdate(m *command.Machine) autoUpdateOptions {
	return autoUpdateOptions{
		out:      m.Program.Stdout,
		errOut:   m.Program.Stderr,
		getenv:   m.Program.Getenv,
		warn:     m.Program.Warn,
		stateDir: m.Connector.StateDir,
		tasks:    m.Engine.Tasks,
		owners:   m.Connector,
		images:   m.Engine.Images,
		logger:   m.Log,
	}
}

// Run implements command.Runner.
func (o autoUpdateOptions) Run(ctx context.Context, c *cli.Context) error {
	if err := command.CheckFormat(c); err != nil {
		return err
	}
	services, err := o.followers(c.Args().Slice())
	if err != nil {
		return err
	}
	tasks, err := o.updatable(slices.DeleteFunc(c.Args().Slice(), func(name string) bool {
		return slices.ContainsFunc(services, func(s service.State) bool { return s.Name == name })
	}), c.NArg() == 0)
	if err != nil {
		return err
	}
	all := slices.Clone(tasks)
	for _, s := range services {
		all = append(all, imagestore.OfService(s))
	}
	now, err := imagesNow(c.StringSlice("now"), all)
	if err != nil {
		return err
	}
	if !c.Bool("dry-run") {
		lock, err := o.alone(ctx)
		if err != nil {
			return err
		}
		defer lock.Unlock()
	}
	rows := []updateRow{}
	var errs []error
	for _, st := range tasks {
		more, err := o.update(ctx, st, now, c.Bool("dry-run"))
		rows = append(rows, more...)
		errs = append(errs, err)
	}
	for _, s := range services {
		more, err := o.updateService(ctx, s, now, c.Bool("dry-run"))
		rows = append(rows, more...)
		errs = append(errs, err)
	}
	if !c.Bool("dry-run") {
		o.look(ctx)
	}
	err = o.print(c, rows)
	if err := errors.Join(append(errs, err)...); err != nil {
		return err
	}
	for _, r := range rows {
		if r.Updated == updateFailed || r.Updated == updateRolledBack {
			return command.ExitStatus(command.ExitInvalid)
		}
	}
	return nil
}

func (o autoUpdateOptions) print(c *cli.Context, rows []updateRow) error {
	return command.PrintItems(o.out, c, rows, func(bool) error {
		table := [][]string{{"UNIT", "TASK", "CONTAINER", "IMAGE", "POLICY", "UPDATED"}}
		for _, r := range rows {
			table = append(table, []string{r.Unit, r.Task, r.Container, r.Image, r.Policy, r.Updated})
			if r.Waits != "" {
				fmt.Fprintf(o.errOut, "%s: %s goes on with its image: %s\n", r.Task, r.Image, r.Waits)
			}
		}
		return console.WriteTable(o.out, table)
	})
}

// updatable returns the running tasks with AutoUpdate=registry: all of them, or those of these names.
func (o autoUpdateOptions) updatable(names []string, whole bool) ([]lifecycle.State, error) {
	follows := func(st lifecycle.State) bool {
		return st.Options.AutoUpdate != "" && st.Options.Unit != "" && st.Goal == lifecycle.Up
	}
	var out []lifecycle.State
	if whole {
		all, _ := o.tasks.States() // a corrupt record does not belong to a running service
		for _, st := range all {
			if follows(st) {
				out = append(out, st)
			}
		}
		return out, nil
	}
	var errs []error
	for _, name := range names {
		st, err := o.tasks.Find(name)
		if err == nil && !follows(st) {
			err = fmt.Errorf("%s is neither run by a unit with AutoUpdate=registry nor a service with --auto-update registry", st.DisplayName())
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out = append(out, st)
	}
	return out, errors.Join(errs...)
}

// imagesNow returns the images that are taken at once, and an error for those that no task of a unit follows.
func imagesNow(given []string, tasks []lifecycle.State) (refs []string, err error) {
	followed := map[string]bool{}
	for _, st := range tasks {
		for _, c := range st.Task.Containers {
			if i, ok := imagestore.ImageOf(c.Image); ok {
				followed[i.Ref] = true
			}
		}
	}
	var errs []error
	for _, text := range given {
		i, ok := imagestore.ImageOf(text)
		switch {
		case !ok:
			errs = append(errs, fmt.Errorf("--now %s: this is no tag of a registry, and nothing else is updated: write REGISTRY/NAME:TAG", text))
		case !followed[i.Ref]:
			errs = append(errs, fmt.Errorf("--now %s: no running unit with AutoUpdate=registry and no service with --auto-update registry has this image", text))
		}
		refs = append(refs, i.Ref)
	}
	return refs, errors.Join(errs...)
}

// alone waits until no other auto-update of this user runs.
func (o autoUpdateOptions) alone(ctx context.Context) (*state.Lock, error) {
	locks, err := state.OpenLocks(filepath.Join(o.stateDir, "updates"), state.Holder{Command: "podtask auto-update"})
	if err != nil {
		return nil, err
	}
	return locks.LockWait(ctx, strings.Repeat("0", 32))
}

// look notes what the tags of services and of other units have now, on a host whose agent does not.
func (o autoUpdateOptions) look(ctx context.Context) {
	if err := imagelook.New(o.logger, o.images, o.tasks, o.stateDir).Look(ctx); err != nil && ctx.Err() == nil {
		o.warn("%v", err)
	}
}

// update updates one task. Now has images that are taken at once. The error means that the check could not run.
func (o autoUpdateOptions) update(ctx context.Context, st lifecycle.State, now []string, dryRun bool) ([]updateRow, error) {
	record, err := rollback.Open(o.stateDir, st.Name)
	if err != nil {
		o.warn("%v", err)
	}
	task := record.Unpin(st.Task)
	running := rollback.DigestsOf(task, st)
	unpinned := st
	unpinned.Task = task
	var rows []updateRow
	pending := false
	for _, c := range task.Containers {
		if strings.Contains(c.Image, "@") {
			continue // it does not follow a tag
		}
		digest := running[c.Image]
		f, err := o.images.Follow(ctx, unpinned, c.Image)
		if err != nil {
			return rows, fmt.Errorf("%s: %w", st.DisplayName(), err)
		}
		if i, ok := imagestore.ImageOf(c.Image); ok && slices.Contains(now, i.Ref) {
			f = imagestore.Followed{Digest: f.New, New: f.New}
		}
		r := rowOf(c.Name, c.Image, digest, f)
		r.Unit, r.Task, r.Policy = st.Options.Unit, st.DisplayName(), st.Options.AutoUpdate
		if f.Digest != "" && f.Digest != digest && !record.Avoids(c.Image, f.Digest) {
			r.Updated, r.New, pending = updatePending, f.Digest, true
		}
		rows = append(rows, r)
	}
	if dryRun || !pending {
		return rows, nil
	}
	for _, r := range rows {
		if r.Updated == updatePending {
			if err := o.images.Allow(ctx, unpinned, r.Image, r.New); err != nil {
				return rows, err
			}
		}
	}
	return o.apply(ctx, st, task, rows)
}

// rowOf is a container whose image is not updated.
func rowOf(container, image, digest string, f imagestore.Followed) updateRow {
	r := updateRow{Container: container, Image: image, Updated: updateNone, Digest: digest, New: f.New, Waits: f.Why}
	if !f.Until.IsZero() {
		r.Until = &f.Until
	}
	return r
}

// apply restarts the service, which uses the new images or, if they fail, the previous ones.
func (o autoUpdateOptions) apply(ctx context.Context, st lifecycle.State, task taskdef.Task, rows []updateRow) ([]updateRow, error) {
	manager, err := cgroups.Dial(ctx, o.getenv)
	if err != nil {
		return rows, err
	}
	defer manager.Close()
	fmt.Fprintf(o.errOut, "updating %s: restarting %s\n", st.DisplayName(), st.Options.Unit)
	restarted := manager.RestartService(ctx, st.Options.Unit)
	if ctx.Err() != nil {
		return rows, context.Cause(ctx)
	}
	now := map[string]string{}
	if after, err := o.tasks.Find(st.Name); err == nil && restarted == nil {
		now = rollback.DigestsOf(task, after)
	}
	for i := range rows {
		r := &rows[i]
		if r.Updated != updatePending {
			continue
		}
		switch digest := now[r.Image]; digest {
		case "":
			r.Updated = updateFailed
		case r.New:
			r.Updated, r.Digest = updateDone, r.New
		case r.Digest:
			r.Updated = updateRolledBack
		default:
			r.Updated = updateFailed
		}
	}
	if restarted != nil {
		o.warn("%v", restarted)
	}
	return rows, nil
}
