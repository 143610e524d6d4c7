package command

import (
	"slices"

	"github.com/podtask/podtask/internal/engine/act/limits"
	"github.com/urfave/cli/v2"
)

// TaskFlags returns the flags that say which task a definition becomes: how it is read, what is changed in it, and
// how it is run. TaskDefinition reads them.
func TaskFlags() []cli.Flag {
	return slices.Concat([]cli.Flag{
		&cli.StringSliceFlag{Name: "env", Aliases: []string{"e"}, Usage: "set `NAME=VALUE` in every container; NAME alone takes the value from the environment"},
		&cli.StringSliceFlag{Name: "env-file", Usage: "read variables from `FILE`, one per line"},
		&cli.StringFlag{Name: "pull", Value: "default", Usage: "pull images as `POLICY` says: always, once, prefer-cached, never, or default, which is always with a local copy if that fails"},
		LockedFlag(),
		&cli.StringFlag{Name: "minimum-age", Usage: "follow a tag to another image only when this host has known that for `TIME`, such as 3d; 0 for no time", DefaultText: "as configured"},
		&cli.StringFlag{Name: "limits", Value: limits.BestEffort, Usage: "apply cpu and memory limits in `MODE` best-effort (all that this host can apply, with a warning about the others), enforce (refuse a task if it cannot apply all) or off"},
		&cli.StringFlag{Name: "pids-limit", Usage: "allow the task `NUMBER` processes and threads, 0 for no limit", DefaultText: "4096, where the host can limit them"},
		&cli.StringFlag{Name: "cpu-period", Usage: "use a period of `TIME`, 8ms to 1s, for the task's cpu limit", DefaultText: "100ms"},
		&cli.BoolFlag{Name: "clamp-ulimits", Usage: "lower ulimits of the definition to the hard limits of this user, with a warning"},
		&cli.StringFlag{Name: "logs", Usage: "send the output of containers as `MODE` says: auto, local (nothing leaves this host) or remote (refuse the task if it cannot be sent)", DefaultText: "auto"},
	}, AdjustFlags(), DefinitionFlags())
}

// TaskDefinition returns the definition that name and the values of TaskFlags describe. The configuration of its Reader
// has those that set a key of it.
func (p *Program) TaskDefinition(c *cli.Context, name string) (Definition, error) {
	d, err := p.Definition(c, name)
	if err != nil {
		return d, err
	}
	if d.Changes.Adjustments, err = ParseAdjustments(c); err != nil {
		return d, err
	}
	d.Changes.Environment, err = ReadEnv(p.CallerEnviron, Path(c), c.StringSlice("env-file"), c.StringSlice("env"))
	return d, err
}
