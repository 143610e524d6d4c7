package task

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/define"
	"github.com/podtask/podtask/internal/define/catalog"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/engine/run/cleanup"
	"github.com/podtask/podtask/internal/serve"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/urfave/cli/v2"
)

// GCCommand is `podtask gc`.
func GCCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:  "gc",
		Usage: "remove pods and networks whose task no longer exists",
		Description: `If podtask is killed while it creates or removes a task, a pod may be left without a
record. Owners of tasks look for such pods at most every ten minutes. This command does it
now and lists what it removes. It removes only what podtask created for this state
directory, and nothing of a task that has a record or an owner.

It also removes what Podman leaves when its service is killed during a start, and the Secrets
of deregistered manifests that no service and no task needs. It lists tasks whose records are
corrupt. Their containers may still run; --corrupt removes them, their volumes and the records.

Examples:
  podtask gc
  podtask gc --corrupt
  podtask gc --format json`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "corrupt", Usage: "remove corrupt records too, and what belongs to their tasks"},
			command.FormatFlag(command.ItemFormats),
		},
		Action: command.WithMachine(p, newGC),
	}
}

type gcOptions struct {
	out       io.Writer
	stateDir  string
	tasks     *record.Tasks
	orphans   *cleanup.Orphans
	manifests func(*catalog.Catalog) serve.SecretManifests // removes Secrets of manifests
}

func newGC(m *command.Machine) gcOptions {
	return gcOptions{
		out:      m.Program.Stdout,
		stateDir: m.Connector.StateDir,
		tasks:    m.Engine.Tasks,
		orphans:  m.Engine.Orphans,
		manifests: func(r *catalog.Catalog) serve.SecretManifests {
			return serve.SecretManifests{Catalog: r, Engine: m.Engine}
		},
	}
}

// Run implements command.Runner.
func (o gcOptions) Run(ctx context.Context, c *cli.Context) error {
	if err := command.NoArguments(c); err != nil {
		return err
	}
	if err := command.CheckFormat(c); err != nil {
		return err
	}
	_, _ = o.tasks.States() // moves corrupt records aside
	removed, swept := o.orphans.Sweep(ctx)
	corrupt, err := o.orphans.Corrupt()
	if c.Bool("corrupt") && err == nil {
		corrupt, err = o.orphans.RemoveCorrupt(ctx)
	}
	registered, catalogErr := define.OpenCatalog(o.stateDir, "podtask gc")
	if catalogErr == nil {
		catalogErr = o.manifests(registered).Release(ctx)
	}
	swept = errors.Join(swept, catalogErr)
	removed, swept = append(append([]cleanup.Orphan{}, removed...), corrupt...), errors.Join(swept, err)
	err = command.PrintItems(o.out, c, removed, func(bool) error {
		for _, orphan := range removed {
			if orphan.Kept {
				fmt.Fprintf(o.out, "task %s has a %s: its containers may still run; `podtask gc --corrupt` removes them and the record\n", lifecycle.ShortID(orphan.Task), orphan.Kind)
				continue
			}
			fmt.Fprintf(o.out, "removed %s %s of task %s\n", orphan.Kind, orphan.Name, lifecycle.ShortID(orphan.Task))
		}
		return nil
	})
	if swept != nil {
		return swept
	}
	return err
}
