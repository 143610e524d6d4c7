package stack

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/part"
	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/internal/define/catalog"
	"github.com/podtask/podtask/internal/define/composecall"
	"github.com/podtask/podtask/internal/define/stackfile"
	"github.com/podtask/podtask/internal/engine"
	"github.com/podtask/podtask/internal/engine/run/stacks"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/api"
)

// Part is the part stacks.
func Part() part.Part {
	return part.Part{
		Name: "stacks",
		Commands: func(p *command.Program) []part.Command {
			return []part.Command{{Command: Command(p), Group: "Services and systemd", After: "service"}}
		},
		Routes: func() map[string]part.Route {
			routes := map[string]part.Route{}
			for _, v := range verbs() {
				routes["stack "+v.name] = part.Route{}
				if v.reads {
					routes["stack "+v.name] = part.Route{Place: part.Refused, Why: "its files and the images that they name are of this machine: run it on the host itself"}
				}
			}
			return routes
		},
		Documents: []command.Document{{Name: "stack", Schema: func() any { return stackfile.Schema() }}},
		Complete:  complete,
		Agent:     agent,
	}
}

// verb is a command of `podtask stack`.
type verb struct {
	name, args, usage, description string
	most                           int
	flags                          []cli.Flag
	// reads: it reads the files of a stack; agent: it needs the agent.
	reads, agent bool
	do           func(call, context.Context, []string) error
}

const many = 1 << 20

// Command is `podtask stack`.
func Command(p *command.Program) *cli.Command {
	group := &cli.Command{
		Name:  "stack",
		Usage: "run several services as one thing, with an order, one update and one way back",
		Description: `A stack is a project of several services: each keeps its own copies, updates and logs, and they
start in order, reach each other by name, and change together. up applies what differs only; if
one service of a change fails, all of the change is put back. FILE is a Compose project, a
stack file of podtask, or what podtask import reads: task definitions, Kubernetes manifests,
templates of CloudFormation, plans of Terraform; DIR has such a file, or manifests. See
docs/stacks.md.

Examples:
  podtask stack plan compose.yaml
  podtask stack up compose.yaml
  podtask stack up --name shop manifests/
  podtask stack ps shop
  podtask stack rollback shop
  podtask stack rm shop`,
	}
	for _, v := range verbs() {
		group.Subcommands = append(group.Subcommands, &cli.Command{
			Name: v.name, Usage: v.usage, ArgsUsage: v.args, Flags: v.flags, Description: v.description,
			Action: command.WithMachine(p, newCall(v)),
		})
	}
	return group
}

func verbs() []verb { return append(readingVerbs(), otherVerbs()...) }

// limitFlag is --timeout.
func limitFlag() cli.Flag {
	return &cli.DurationFlag{Name: "timeout", Value: 10 * time.Minute, Usage: "give each step at most `TIME`, 0 for no limit"}
}

// readingVerbs are the commands that read the files of a stack.
func readingVerbs() []verb {
	reading := append([]cli.Flag{
		&cli.StringFlag{Name: "name", Usage: "call the stack `NAME`", DefaultText: "the project's name"},
		&cli.StringSliceFlag{Name: "profile", Usage: "include the services of `PROFILE` of a Compose file"},
		&cli.StringFlag{Name: "minimum-age", Usage: "take another image of a tag only when this host has known that for `TIME`, such as 3d; 0 for no time", DefaultText: "as configured"},
		command.ParamFlag(),
	}, slices.Concat(lockFlags(), previewFlags(), command.ReferenceFlags())...)
	return []verb{
		{
			name: "up", args: "[FILE|DIR ...]", usage: "make a stack what its files say, or leave it as it was", most: many, reads: true, agent: true, do: call.up,
			description: `Shows the plan, pulls all images, and then applies what differs only, each service after those that
it waits for. If a service fails, everything that the change did is put back, except what jobs did.
A change that another process did not end is continued. Volumes are never removed.

Examples:
  podtask stack up
  podtask stack up --name shop compose.yaml
  podtask stack up --dry-run compose.yaml`,
			flags: append([]cli.Flag{
				&cli.BoolFlag{Name: "dry-run", Usage: "show the plan and change nothing, as plan does"},
				&cli.BoolFlag{Name: "no-rollback", Usage: "leave a change that fails as it is then"},
				limitFlag(), command.FormatFlag(command.ItemFormats),
			}, reading...),
		},
		{
			name: "plan", args: "[FILE|DIR ...]", usage: "show what up would make, change, leave and remove", most: many, reads: true, do: call.plan,
			description: "Examples:\n  podtask stack plan compose.yaml",
			flags:       append([]cli.Flag{command.FormatFlag(command.ItemFormats)}, reading...),
		},
	}
}

// otherVerbs are the commands that work with the record of a stack.
func otherVerbs() []verb {
	output := command.FormatFlag(command.ListFormats)
	return []verb{
		{
			name: "ls", args: " ", usage: "list stacks", do: call.list, description: "Examples:\n  podtask stack ls",
			flags: []cli.Flag{command.QuietFlag("names"), output, command.SortFlag()},
		},
		{
			name: "ps", args: "[NAME|FILE]", usage: "list the services and jobs of a stack", most: 1, agent: true, do: call.ps,
			description: "Examples:\n  podtask stack ps shop", flags: []cli.Flag{command.QuietFlag("names"), output, command.SortFlag()},
		},
		{
			name: "why", args: "[NAME|FILE]", usage: "say what a stack and each of its services waits for", most: 1, agent: true, do: call.why,
			description: "Examples:\n  podtask stack why shop", flags: []cli.Flag{command.FormatFlag(command.ItemFormats)},
		},
		{
			name: "logs", args: "[NAME|FILE [SERVICE ...]]", usage: "show the logs of all tasks of a stack", most: many, do: call.logs,
			description: "Examples:\n  podtask stack logs -f shop\n  podtask stack logs --tail 20 shop web worker",
			flags: []cli.Flag{
				&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "continue until the containers have ended"},
				&cli.StringFlag{Name: "tail", Aliases: []string{"n"}, Usage: "begin with the last `N` lines of each container", DefaultText: "all"},
				&cli.BoolFlag{Name: "timestamps", Aliases: []string{"t"}, Usage: "show when each line was written"},
			},
		},
		{
			name: "history", args: "[NAME|FILE]", usage: "list the changes of a stack with their results", most: 1, do: call.history,
			description: "Examples:\n  podtask stack history shop", flags: []cli.Flag{output, command.SortFlag()},
		},
		{
			name: "rollback", args: "[NAME|FILE [N]]", usage: "return to what a stack was, or put back a change that has not ended", most: 2, agent: true, do: call.rollback,
			description: `Without N it puts back a change that has not ended, else it returns to the revision before. N is the
number of a change in the history. No job runs: what jobs did to volumes stays.

Examples:
  podtask stack rollback shop
  podtask stack rollback shop 3`, flags: []cli.Flag{limitFlag()},
		},
		{
			name: "start", args: "[NAME|FILE]", usage: "start the copies of a stack that was stopped, in order", most: 1, agent: true, do: call.start,
			description: "Waits until all services are healthy. No job runs, and what runs already stays.\n\nExamples:\n  podtask stack start shop", flags: []cli.Flag{limitFlag()},
		},
		{
			name: "stop", args: "[NAME|FILE]", usage: "stop the copies of a stack, in the opposite order; up and start bring them back", most: 1, agent: true, do: call.stop,
			description: "Examples:\n  podtask stack stop shop", flags: []cli.Flag{limitFlag()},
		},
		{
			name: "install", args: "[NAME|FILE]", usage: "start a stack at boot, in order, and stop it so at shutdown", most: 1, do: call.install,
			description: `Writes podtask-stack-NAME.service for systemd's user manager, and starts it. stack rm removes it.

Examples:
  podtask stack install shop`,
		},
		{
			name: "rm", args: "[NAME|FILE]", usage: "remove a stack with its services and jobs; volumes stay", most: 1, agent: true, do: call.remove,
			description: "Examples:\n  podtask stack rm shop\n  podtask stack rm --volumes shop",
			flags:       []cli.Flag{&cli.BoolFlag{Name: "volumes", Aliases: []string{"v"}, Usage: "remove the volumes that were made for the stack, with all data in them"}, limitFlag()},
		},
	}
}

// options names what a command of `podtask stack` uses.
type options struct {
	verb        verb
	failed      error // to open the store
	store       *stacks.Store
	in          io.Reader
	out, errOut io.Writer
	warn        func(format string, args ...any)
	getenv      func(string) string
	environ     func() []string
	executable  func() (string, error)
	flags       []string // of the configuration
	previews    int      // that there may be
	compose     composecall.Caller
	owners      *connect.Connector
	engine      *engine.Engine
	definition  func(c *cli.Context, name string) (command.Definition, error)
	catalog     func(c *cli.Context) (*catalog.Catalog, error)
	// serviceSettings returns what flags of podtask service create say.
	serviceSettings func(words []string) (count *int, s api.ServiceSettings, err error)
}

func newCall(v verb) func(*command.Machine) options {
	return func(m *command.Machine) options {
		p := m.Program
		store, err := stacks.Open(m.Connector.StateDir, state.OS{})
		return options{
			verb: v, failed: err, store: store, in: p.Stdin, out: p.Stdout, errOut: p.Stderr, warn: p.Warn, getenv: p.Getenv,
			compose: composecall.Caller{Find: p.FindProgram, Environ: p.Environ}, owners: m.Connector, engine: m.Engine, definition: p.Definition, catalog: p.OpenCatalog,
			serviceSettings: p.ServiceSettings, environ: p.Environ, executable: p.Executable, flags: m.Config.FlagArgs(), previews: m.Config.Stacks.Previews,
		}
	}
}

// call is a command line of `podtask stack`.
type call struct {
	options
	c     *cli.Context
	agent stacks.Agent
}

// Run implements command.Runner.
func (o options) Run(ctx context.Context, c *cli.Context) error {
	args, path := c.Args().Slice(), command.Path(c)
	switch {
	case o.failed != nil:
		return o.failed
	case len(args) > o.verb.most:
		return command.Usagef(path, "%s does not take %q", path, args[o.verb.most])
	}
	if err := command.CheckFormat(c); err != nil {
		return err
	}
	k := call{options: o, c: c}
	if o.verb.agent && !c.Bool("dry-run") {
		client, err := o.owners.RequireAgent(ctx)
		if err != nil {
			return err
		}
		defer client.Close()
		k.agent = client
	} else if client := o.owners.DialAgent(ctx); client != nil {
		defer client.Close()
		k.agent = client
	}
	return o.verb.do(k, ctx, args)
}

// complete returns the names of stacks.
func complete(q part.Completion) (names []string, ok bool) {
	if q.Path[0] != "stack" {
		return nil, false
	}
	if verb := q.Path[len(q.Path)-1]; verb == "up" || verb == "plan" {
		return nil, false
	}
	store, err := stacks.Open(q.StateDir, state.OS{})
	if err != nil || len(q.Arguments) > 0 {
		return nil, true
	}
	all, _ := store.All()
	for _, s := range all {
		names = append(names, s.Name)
	}
	return names, true
}
