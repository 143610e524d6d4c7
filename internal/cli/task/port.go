package task

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/pkg/api"
	"github.com/urfave/cli/v2"
)

// PortCommand is `podtask port`.
func PortCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "port",
		Usage:     "show where the ports of tasks are published",
		ArgsUsage: "TASK [PORT[/PROTOCOL]]",
		Description: `Prints one line for each published port, as podman port does; for a PORT of the task only
where it is published.

Examples:
  podtask port web
  podtask port web 80/tcp
  podtask port -o json web`,
		Flags:  []cli.Flag{command.FormatFlag(command.ListFormats)},
		Action: command.WithMachine(p, newPort),
	}
}

// portRow is a published port; templates see its fields.
type portRow struct {
	// Container is absent for a port of the whole task.
	Container string `json:"container,omitempty"`
	api.Port
}

// Host returns IP:PORT.
func (r portRow) Host() string { return console.HostPort(r.Port) }

// Inside returns PORT/PROTOCOL.
func (r portRow) Inside() string { return fmt.Sprintf("%d/%s", r.ContainerPort, r.Protocol) }

type portOptions struct {
	out    io.Writer
	reader command.TaskReader
}

func newPort(m *command.Machine) portOptions {
	return portOptions{
		out:    m.Program.Stdout,
		reader: m.TaskReader(),
	}
}

// Run implements command.Runner.
func (o portOptions) Run(ctx context.Context, c *cli.Context) error {
	if n := c.Args().Len(); n < 1 || n > 2 {
		return command.Usagef("port", "port takes a TASK and an optional PORT, not %d arguments", n)
	}
	t, err := o.reader.Inspect(ctx, c.Args().First())
	if err != nil {
		return err
	}
	rows := publishedPorts(t)
	wanted := c.Args().Get(1)
	if wanted != "" {
		number, protocol, _ := strings.Cut(wanted, "/")
		if _, err := strconv.ParseUint(number, 10, 16); err != nil {
			return command.Usagef("port", "%q is not a PORT such as 80 or 53/udp", wanted)
		}
		rows = slices.DeleteFunc(rows, func(r portRow) bool {
			return strconv.Itoa(int(r.ContainerPort)) != number || protocol != "" && r.Protocol != protocol
		})
		if len(rows) == 0 {
			return fmt.Errorf("task %s publishes no port %s: `podtask port %s` lists its ports", c.Args().First(), wanted, c.Args().First())
		}
	}
	return command.PrintItems(o.out, c, rows, func(bool) error {
		for _, r := range rows {
			line := r.Host()
			if wanted == "" {
				line = r.Inside() + " -> " + line
				if r.Container != "" {
					line = r.Container + "  " + line
				}
			}
			if _, err := fmt.Fprintln(o.out, line); err != nil {
				return err
			}
		}
		return nil
	})
}

// publishedPorts returns the ports of a task, each once. A port of a container with its own network has the
// name of the container.
func publishedPorts(t api.Task) []portRow {
	rows := []portRow{}
	for _, c := range t.Containers {
		for _, p := range c.Ports {
			rows = append(rows, portRow{Container: c.Name, Port: p})
		}
	}
	for _, p := range t.Ports {
		if !slices.ContainsFunc(rows, func(r portRow) bool { return r.Port == p }) {
			rows = append(rows, portRow{Port: p})
		}
	}
	return rows
}
