package host

import (
	"cmp"
	"io"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/connect/sshhost"
	"github.com/urfave/cli/v2"
)

// ContextCommand is `podtask context`.
func ContextCommand(p *command.Program) *cli.Command {
	o := contextOptions{out: p.Stdout, getenv: p.Getenv}
	return &cli.Command{
		Name:  "context",
		Usage: "name other hosts, and choose the one that commands work on",
		Description: `A context is a name for a host that is reached through ssh. Commands work on the host of
--host, else on that of PODTASK_HOST, else on that of the current context, else on this machine. The
context local is this machine. See docs/ssh.md.

Examples:
  podtask context add box ssh://me@box.example.net
  podtask context use box
  podtask --host box ps
  podtask context use local`,
		Subcommands: []*cli.Command{
			{
				Name:        "add",
				Usage:       "name a host",
				ArgsUsage:   "NAME HOST",
				Description: "Examples:\n  podtask context add box ssh://me@box.example.net:2222",
				Flags:       []cli.Flag{&cli.BoolFlag{Name: "replace", Usage: "give a context that is there another host"}},
				Action: o.action(2, func(c *cli.Context, all *sshhost.Contexts) error {
					return all.Add(c.Args().Get(0), c.Args().Get(1), c.Bool("replace"))
				}),
			},
			{
				Name:        "use",
				Usage:       "let commands work on the host of a context",
				ArgsUsage:   "CONTEXT",
				Description: "Examples:\n  podtask context use box\n  podtask context use local",
				Action: o.action(1, func(c *cli.Context, all *sshhost.Contexts) error {
					return all.Use(c.Args().First())
				}),
			},
			{
				Name:        "ls",
				Usage:       "list contexts",
				Description: "Examples:\n  podtask context ls\n  podtask context ls --format json",
				Flags:       []cli.Flag{command.FormatFlag(command.ListFormats), command.QuietFlag("names")},
				Action:      o.list,
			},
			{
				Name:        "rm",
				Usage:       "forget contexts; nothing on their hosts changes",
				ArgsUsage:   "CONTEXT ...",
				Description: "Examples:\n  podtask context rm box",
				Action: o.action(-1, func(c *cli.Context, all *sshhost.Contexts) error {
					for _, name := range c.Args().Slice() {
						if err := all.Remove(name); err != nil {
							return err
						}
					}
					return nil
				}),
			},
		},
	}
}

// contextOptions is what the commands of `podtask context` use.
type contextOptions struct {
	out    io.Writer
	getenv func(string) string
}

// action returns the action of a command that changes the contexts. It takes that many arguments; -1 means
// one or more.
func (o contextOptions) action(arguments int, change func(*cli.Context, *sshhost.Contexts) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		if n := c.Args().Len(); arguments >= 0 && n != arguments || n == 0 {
			return command.Usagef(command.Path(c), "%s takes %s, and there are %d arguments", command.Path(c), c.Command.ArgsUsage, n)
		}
		all, err := sshhost.LoadContexts(o.getenv)
		if err != nil {
			return err
		}
		if err := change(c, all); err != nil {
			return err
		}
		return all.Save()
	}
}

// contextRow is a context; templates see its fields.
type contextRow struct {
	Name    string `json:"name"`
	Host    string `json:"host"`
	Current bool   `json:"current"`
}

func (o contextOptions) list(c *cli.Context) error {
	if err := command.NoArguments(c); err != nil {
		return err
	}
	all, err := sshhost.LoadContexts(o.getenv)
	if err != nil {
		return err
	}
	rows := []contextRow{{Name: sshhost.Local, Current: all.Current == ""}}
	for _, x := range all.Contexts {
		rows = append(rows, contextRow{x.Name, x.Host, x.Name == all.Current})
	}
	return command.Listing[contextRow]{
		Items: rows,
		ID:    func(r contextRow) string { return r.Name },
		Columns: []command.Column[contextRow]{
			{Head: "NAME", Cell: func(r contextRow) string { return r.Name }},
			{Head: "CURRENT", Cell: func(r contextRow) string {
				if r.Current {
					return "*"
				}
				return ""
			}},
			{Head: "HOST", Cell: func(r contextRow) string { return cmp.Or(r.Host, "this machine") }},
		},
	}.Print(o.out, c)
}
