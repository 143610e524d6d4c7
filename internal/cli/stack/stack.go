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
	"github.com/podtask/podtask/internal/engine/run/schedule"
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
		Routes:    routes,
		Documents: []command.Document{{Name: "stack", Schema: func() any { return stackfile.Schema() }}},
		Complete:  complete,
		Explain:   newExplainer,
		Beside:    newBeside,
		Agent:     agent,
	}
}

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
	group.Subcommands = command.Verbs(p, newCall, verbs())
	return group
}

func verbs() []command.Verb[call] { return append(readingVerbs(), otherVerbs()...) }

// limitFlag is --timeout.
func limitFlag() cli.Flag {
	return &cli.DurationFlag{Name: "timeout", Value: 10 * time.Minute, Usage: "give each step at most `TIME`, 0 for no limit"}
}

// readingVerbs are the commands that read the files of a stack.
func readingVerbs() []command.Verb[call] {
	reading := append([]cli.Flag{
		&cli.StringFlag{Name: "name", Usage: "call the stack `NAME`", DefaultText: "the project's name"},
		&cli.StringSliceFlag{Name: "profile", Usage: "include the services of `PROFILE` of a Compose file"},
		&cli.StringFlag{Name: "minimum-age", Usage: "take another image of a tag only when this host has known that for `TIME`, such as 3d; 0 for no time", DefaultText: "as configured"},
		command.ParamFlag(),
	}, slices.Concat(lockFlags(), previewFlags(), command.ReferenceFlags())...)
	return []command.Verb[call]{
		{
			Name: "up", Args: "[FILE|DIR ...]", Usage: "make a stack what its files say, or leave it as it was", Most: command.Many, Do: withAgent(call.up),
			Description: `Shows the plan, pulls all images, and then applies what differs only, each service after those that
it waits for. If a service fails, everything that the change did is put back, except what jobs did.
A change that another process did not end is continued. Volumes are never removed.

Examples:
  podtask stack up
  podtask stack up --name shop compose.yaml
  podtask stack up --dry-run compose.yaml`,
			Flags: append([]cli.Flag{
				&cli.BoolFlag{Name: "dry-run", Usage: "show the plan and change nothing, as plan does"},
				&cli.BoolFlag{Name: "no-rollback", Usage: "leave a change that fails as it is then"},
				limitFlag(), command.FormatFlag(command.ItemFormats),
			}, reading...),
		},
		{
			Name: "plan", Args: "[FILE|DIR ...]", Usage: "show what up would make, change, leave and remove", Most: command.Many, Do: anyhow(call.plan),
			Description: "Examples:\n  podtask stack plan compose.yaml",
			Flags:       append([]cli.Flag{command.FormatFlag(command.ItemFormats)}, reading...),
		},
	}
}

// otherVerbs are the commands that work with the record of a stack.
func otherVerbs() []command.Verb[call] {
	output, whole := command.FormatFlag(command.ListFormats), command.NoTruncFlag("what is too wide")
	return []command.Verb[call]{
		{
			Name: "ls", Args: " ", Usage: "list stacks", Do: anyhow(call.list), Description: "Examples:\n  podtask stack ls",
			Flags: []cli.Flag{command.QuietFlag("names"), whole, output, command.SortFlag()},
		},
		{
			Name: "ps", Args: "[NAME|FILE]", Usage: "list the services and jobs of a stack", Most: 1, Do: withAgent(call.ps),
			Description: "Examples:\n  podtask stack ps shop", Flags: []cli.Flag{command.QuietFlag("names"), whole, output, command.SortFlag()},
		},
		{
			Name: "why", Args: "[NAME|FILE]", Usage: "say what a stack and each of its services waits for", Most: 1, Do: withAgent(call.why),
			Description: "Examples:\n  podtask stack why shop", Flags: []cli.Flag{command.FormatFlag(command.ItemFormats)},
		},
		{
			Name: "logs", Args: "[NAME|FILE [SERVICE ...]]", Usage: "show the logs of all tasks of a stack", Most: command.Many, Do: anyhow(call.logs),
			Description: "Examples:\n  podtask stack logs -f shop\n  podtask stack logs --tail 20 shop web worker",
			Flags: []cli.Flag{
				&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "continue until the containers have ended"},
				&cli.StringFlag{Name: "tail", Aliases: []string{"n"}, Usage: "begin with the last `N` lines of each container", DefaultText: "all"},
				&cli.BoolFlag{Name: "timestamps", Aliases: []string{"t"}, Usage: "show when each line was written"},
			},
		},
		{
			Name: "history", Args: "[NAME|FILE]", Usage: "list the changes of a stack with their results", Most: 1, Do: anyhow(call.history),
			Description: "Examples:\n  podtask stack history shop", Flags: []cli.Flag{whole, output, command.SortFlag()},
		},
		{
			Name: "rollback", Args: "[NAME|FILE [N]]", Usage: "return to what a stack was, or put back a change that has not ended", Most: 2, Do: withAgent(call.rollback),
			Description: `Without N it puts back a change that has not ended, else it returns to the revision before. N is the
number of a change in the history. No job runs: what jobs did to volumes stays.

Examples:
  podtask stack rollback shop
  podtask stack rollback shop 3`, Flags: []cli.Flag{limitFlag()},
		},
		{
			Name: "start", Args: "[NAME|FILE]", Usage: "start the copies of a stack that was stopped, in order", Most: 1, Do: withAgent(call.start),
			Description: "Waits until all services are healthy. No job runs, and what runs already stays.\n\nExamples:\n  podtask stack start shop", Flags: []cli.Flag{limitFlag()},
		},
		{
			Name: "stop", Args: "[NAME|FILE]", Usage: "stop the copies of a stack, in the opposite order; up and start bring them back", Most: 1, Do: withAgent(call.stop),
			Description: "Examples:\n  podtask stack stop shop", Flags: []cli.Flag{limitFlag()},
		},
		{
			Name: "install", Args: "[NAME|FILE]", Usage: "start a stack at boot, in order, and stop it so at shutdown", Most: 1, Do: anyhow(call.install),
			Description: `Writes podtask-stack-NAME.service for systemd's user manager, and starts it. stack rm removes it.

Examples:
  podtask stack install shop`,
		},
		{
			Name: "rm", Args: "[NAME|FILE]", Usage: "remove a stack with its services and jobs; volumes stay", Most: 1, Do: withAgent(call.remove),
			Description: "Examples:\n  podtask stack rm shop\n  podtask stack rm --volumes shop",
			Flags:       []cli.Flag{&cli.BoolFlag{Name: "volumes", Aliases: []string{"v"}, Usage: "remove the volumes that were made for the stack, with all data in them"}, limitFlag()},
		},
	}
}

// options names what a command of `podtask stack` uses.
type options struct {
	store       *stacks.Store
	schedules   *schedule.Store
	units       schedule.Units
	in          io.Reader
	sent        bool // in has a stack that another machine has read
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

func newCall(m *command.Machine, c *cli.Context) (call, error) {
	p := m.Program
	store, err := stacks.Open(m.Connector.StateDir, state.OS{})
	if err != nil {
		return call{}, err
	}
	timed, err := schedule.Open(m.Connector.StateDir, state.OS{})
	if err == nil {
		err = command.CheckFormat(c)
	}
	return call{c: c, options: options{
		store: store, schedules: timed, units: schedule.Units{Getenv: p.Getenv, Environ: p.Environ, Executable: p.Executable, Flags: m.Config.FlagArgs()}, in: p.Stdin, sent: p.Caller != nil, out: p.Stdout, errOut: p.Stderr, warn: p.Warn, getenv: p.Getenv,
		compose: composecall.Caller{Find: p.FindProgram, Environ: p.Environ}, owners: m.Connector, engine: m.Engine, definition: p.Definition, catalog: p.OpenCatalog,
		serviceSettings: p.ServiceSettings, environ: p.Environ, executable: p.Executable, flags: m.Config.FlagArgs(), previews: m.Config.Stacks.Previews,
	}}, err
}

// call is a command line of `podtask stack`.
type call struct {
	options
	c       *cli.Context
	agent   stacks.Agent
	applies bool // the command changes the stack, and does not only show what it would do
}

type doFunc = func(call, context.Context, []string) error

// anyhow returns do with a connection to the agent if one runs.
func anyhow(do doFunc) doFunc {
	return func(k call, ctx context.Context, args []string) error {
		return k.with(ctx, k.owners.DialAgent(ctx), do, args)
	}
}

// withAgent returns do with a connection to the agent, without which it is an error but for --dry-run.
func withAgent(do doFunc) doFunc {
	return func(k call, ctx context.Context, args []string) error {
		if k.c.Bool("dry-run") {
			return anyhow(do)(k, ctx, args)
		}
		client, err := k.owners.RequireAgent(ctx)
		if err != nil {
			return err
		}
		k.applies = true
		return k.with(ctx, client, do, args)
	}
}

func (k call) with(ctx context.Context, client *api.Client, do doFunc, args []string) error {
	if client != nil {
		defer client.Close()
		k.agent = client
	}
	return do(k, ctx, args)
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
