package unit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/engine/act/imagestore"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/unit/rollback"
	"github.com/podtask/podtask/pkg/cgroups"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/urfave/cli/v2"
)

// AutoUpdateCommand is `podtask auto-update`.
func AutoUpdateCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "auto-update",
		Usage:     "restart services whose images have changed in the registry",
		ArgsUsage: "[TASK ...]",
		Description: `Asks the registries for the current digests of the images of .task units with
AutoUpdate=registry. If a digest has changed, it restarts the service and waits until it is
ready. If the task does not become ready with the new images, the update is rolled back:
the task is started with the previous images, and the new ones are not tried again until
the tag points to another image.

The exit code is 1 if an update failed or was rolled back.

Examples:
  podtask auto-update
  podtask auto-update --dry-run
  podtask auto-update --format json web
  systemctl --user enable --now podtask-auto-update.timer    # daily`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "dry-run", Usage: "only show what would be updated"},
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
	Unit      string `json:"unit"`
	Task      string `json:"task"`
	Container string `json:"container"`
	Image     string `json:"image"`
	Policy    string `json:"policy"`
	Updated   string `json:"updated"`
	// Digest is the digest that runs in the end; empty for a local image that was not compared with the
	// registry. New is the digest in the registry.
	Digest string `json:"digest"`
	New    string `json:"newDigest"`
}

type autoUpdateOptions struct {
	out      io.Writer
	errOut   io.Writer
	getenv   func(string) string
	warn     func(format string, args ...any)
	stateDir string
	tasks    *record.Tasks
	images   *imagestore.Resolver
}

func newAutoUpdate(m *command.Machine) autoUpdateOptions {
	return autoUpdateOptions{
		out:      m.Program.Stdout,
		errOut:   m.Program.Stderr,
		getenv:   m.Program.Getenv,
		warn:     m.Program.Warn,
		stateDir: m.Connector.StateDir,
		tasks:    m.Engine.Tasks,
		images:   m.Engine.Images,
	}
}

// Run implements command.Runner.
func (o autoUpdateOptions) Run(ctx context.Context, c *cli.Context) error {
	if err := command.CheckFormat(c); err != nil {
		return err
	}
	tasks, err := o.updatable(c.Args().Slice())
	if err != nil {
		return err
	}
	rows := []updateRow{}
	var errs []error
	for _, st := range tasks {
		more, err := o.update(ctx, st, c.Bool("dry-run"))
		rows = append(rows, more...)
		errs = append(errs, err)
	}
	err = command.PrintItems(o.out, c, rows, func(bool) error {
		table := [][]string{{"UNIT", "TASK", "CONTAINER", "IMAGE", "POLICY", "UPDATED"}}
		for _, r := range rows {
			table = append(table, []string{r.Unit, r.Task, r.Container, r.Image, r.Policy, r.Updated})
		}
		return console.WriteTable(o.out, table)
	})
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

// updatable returns the running tasks with AutoUpdate=registry; those of these names if there are
// any.
func (o autoUpdateOptions) updatable(names []string) ([]lifecycle.State, error) {
	follows := func(st lifecycle.State) bool {
		return st.Options.AutoUpdate != "" && st.Options.Unit != "" && st.Goal == lifecycle.Up
	}
	var out []lifecycle.State
	if len(names) == 0 {
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
			err = fmt.Errorf("%s is not run by a unit with AutoUpdate=registry", st.DisplayName())
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out = append(out, st)
	}
	return out, errors.Join(errs...)
}

// update updates one task. The error means that the check could not run.
func (o autoUpdateOptions) update(ctx context.Context, st lifecycle.State, dryRun bool) ([]updateRow, error) {
	record, err := rollback.Open(o.stateDir, st.Name)
	if err != nil {
		o.warn("%v", err)
	}
	task := record.Unpin(st.Task)
	running := rollback.DigestsOf(task, st)
	var rows []updateRow
	pending := false
	for _, c := range task.Containers {
		if strings.Contains(c.Image, "@") {
			continue // it does not follow a tag
		}
		digest := running[c.Image]
		fresh, err := o.images.Digest(ctx, st, c.Image)
		if err != nil {
			return rows, fmt.Errorf("%s: %w", st.DisplayName(), err)
		}
		r := updateRow{Unit: st.Options.Unit, Task: st.DisplayName(), Container: c.Name, Image: c.Image, Policy: st.Options.AutoUpdate, Updated: updateNone, Digest: digest, New: fresh}
		if fresh != "" && fresh != digest && !record.Avoids(c.Image, fresh) {
			r.Updated, pending = updatePending, true
		}
		rows = append(rows, r)
	}
	if dryRun || !pending {
		return rows, nil
	}
	return o.apply(ctx, st, task, rows)
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
