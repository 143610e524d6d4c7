package task

import (
	"context"
	"errors"
	"fmt"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/define"
	"github.com/podtask/podtask/internal/engine/cleanup"
	"github.com/podtask/podtask/internal/serve"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/urfave/cli/v2"
)

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
		Action: p.WithMachine(gc),
	}
}

func gc(ctx context.Context, s *command.Machine, c *cli.Context) error {
	if err := command.NoArguments(c); err != nil {
		return err
	}
	if err := command.CheckFormat(c); err != nil {
		return err
	}
	_, _ = s.Engine.Tasks.States() // moves corrupt records aside
	removed, swept := s.Engine.Orphans.Sweep(ctx)
	corrupt, err := s.Engine.Orphans.Corrupt()
	if c.Bool("corrupt") && err == nil {
		corrupt, err = s.Engine.Orphans.RemoveCorrupt(ctx)
	}
	registered, catalogErr := define.OpenCatalog(s.Connector.StateDir, "podtask gc")
	if catalogErr == nil {
		catalogErr = serve.Keeper{Catalog: registered, Engine: s.Engine}.Release(ctx)
	}
	swept = errors.Join(swept, catalogErr)
	removed, swept = append(append([]cleanup.Orphan{}, removed...), corrupt...), errors.Join(swept, err)
	err = command.PrintItems(s.Program.Stdout, c, removed, func(bool) error {
		for _, o := range removed {
			if o.Kept {
				fmt.Fprintf(s.Program.Stdout, "task %s has a %s: its containers may still run; `podtask gc --corrupt` removes them and the record\n", lifecycle.ShortID(o.Task), o.Kind)
				continue
			}
			fmt.Fprintf(s.Program.Stdout, "removed %s %s of task %s\n", o.Kind, o.Name, lifecycle.ShortID(o.Task))
		}
		return nil
	})
	if swept != nil {
		return swept
	}
	return err
}
