package inject

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/fault"
	"github.com/urfave/cli/v2"
)

// FaultCommand is `podtask fault`.
func FaultCommand(p *command.Program) *cli.Command {
	group := &cli.Command{
		Name:  "fault",
		Usage: "disturb the network of a task: drop packets, delay them, lose some",
		Description: `Faults show what a task does when its network is bad. Only a task whose definition has
"enableFaultInjection": true can have them, and only in a network of its own (not with
networkMode host or none). Its containers inject them too, as on ECS. A fault ends when it
is stopped, after its --duration, with its task, and with the process that owns the task.
See docs/faults.md.

Examples:
  podtask fault start web latency --delay 200ms --jitter 50ms --duration 5m
  podtask fault status web
  podtask fault stop web`,
	}
	kinds := strings.Join(kindNames(), "|")
	group.Subcommands = []*cli.Command{
		{
			Name: "start", Usage: "inject a fault, and return when the task has it", ArgsUsage: "TASK " + kinds,
			Description: `blackhole-port drops the packets for a port: --port and --direction, from the view of the task.
latency holds back what the task sends (--delay, --jitter), packet-loss loses a part of it
(--loss). A task has one of latency and packet-loss at a time, and black holes beside it.

Examples:
  podtask fault start web latency --delay 200ms --jitter 50ms --duration 5m
  podtask fault start web packet-loss --loss 20 --to 10.1.0.0/16 --except 10.1.0.7
  podtask fault start web blackhole-port --port 5432 --direction egress`,
			Flags: append([]cli.Flag{
				&cli.DurationFlag{Name: "delay", Usage: "latency: hold packets back for `TIME`, such as 200ms", DefaultText: "none"},
				&cli.DurationFlag{Name: "jitter", Usage: "latency: vary that by `TIME`", DefaultText: "none"},
				&cli.Uint64Flag{Name: "loss", Usage: "packet-loss: lose `PERCENT` of the packets", DefaultText: "none"},
				&cli.StringSliceFlag{Name: "to", Usage: "latency and packet-loss: packets to `ADDRESS` or network, such as 10.1.0.0/16; may be given again", DefaultText: "all"},
				&cli.StringSliceFlag{Name: "except", Usage: "spare the packets to, or for ingress from, `ADDRESS` or network; may be given again"},
				&cli.IntFlag{Name: "flows", Usage: "latency and packet-loss: disturb `PERCENT` of the connections", DefaultText: "100"},
				&cli.DurationFlag{Name: "duration", Usage: "end it after `TIME`, such as 5m", DefaultText: "until it is stopped"},
			}, holeFlags("tcp", fault.Ingress)...),
			Action: command.WithMachine(p, newFault(faultOptions.start)),
		},
		{
			Name: "stop", Usage: "remove faults, and return when the task does not have them", ArgsUsage: "TASK [" + kinds + "]",
			Description: `Without a kind all faults are removed. That there are none is no error.

Examples:
  podtask fault stop web
  podtask fault stop web latency
  podtask fault stop web blackhole-port --port 5432`,
			Flags:  holeFlags("", ""),
			Action: command.WithMachine(p, newFault(faultOptions.stop)),
		},
		{
			Name: "status", Usage: "list the faults of a task", ArgsUsage: "TASK [" + kinds + "]",
			Description: "Examples:\n  podtask fault status web\n  podtask fault status web latency --format json",
			Flags:       []cli.Flag{command.FormatFlag(command.ListFormats), command.SortFlag()},
			Action:      command.WithMachine(p, newFault(faultOptions.status)),
		},
	}
	return group
}

// holeFlags say which black hole is meant.
func holeFlags(protocol, direction string) []cli.Flag {
	return []cli.Flag{
		&cli.UintFlag{Name: "port", Usage: "blackhole-port: the `PORT` of the receiver", DefaultText: "none"},
		&cli.StringFlag{Name: "protocol", Value: protocol, Usage: "blackhole-port: `PROTOCOL` tcp or udp"},
		&cli.StringFlag{Name: "direction", Value: direction, Usage: "blackhole-port: `DIRECTION` ingress or egress"},
	}
}

// kindNames are the kinds of faults as arguments.
func kindNames() []string {
	var names []string
	for _, k := range fault.Kinds() {
		names = append(names, k.Short())
	}
	return names
}

type faultOptions struct {
	do     func(faultOptions, context.Context, faultCall) error
	out    io.Writer
	tasks  *record.Tasks
	reader command.TaskReader
	owners *connect.Connector
}

// faultCall is a command line of `podtask fault`.
type faultCall struct {
	c    *cli.Context
	task string
	kind fault.Kind // empty: none is given
}

func newFault(do func(faultOptions, context.Context, faultCall) error) func(*command.Machine) faultOptions {
	return func(m *command.Machine) faultOptions {
		return faultOptions{do: do, out: m.Program.Stdout, tasks: m.Engine.Tasks, reader: m.TaskReader(), owners: m.Connector}
	}
}

// Run implements command.Runner.
func (o faultOptions) Run(ctx context.Context, c *cli.Context) error {
	path, args := command.Path(c), c.Args().Slice()
	if len(args) == 0 || len(args) > 2 {
		return command.Usagef(path, "%s takes a TASK and one of %s, not %d arguments", path, strings.Join(kindNames(), ", "), len(args))
	}
	call := faultCall{c: c, task: args[0]}
	if len(args) == 2 {
		kind, known := fault.ParseKind(args[1])
		if call.kind = kind; !known {
			return command.Usagef(path, "%q is not a fault: choose one of %s", args[1], strings.Join(kindNames(), ", "))
		}
	}
	return o.do(o, ctx, call)
}

func (o faultOptions) start(ctx context.Context, call faultCall) error {
	c, path := call.c, command.Path(call.c)
	if call.kind == "" {
		return command.Usagef(path, "%s needs a fault: %s", path, strings.Join(kindNames(), ", "))
	}
	f, err := parseFault(call)
	if err != nil {
		return err
	}
	duration := c.Duration("duration")
	if c.IsSet("duration") && (duration < time.Second || duration > fault.MaxDuration) {
		return command.Usagef(path, "--duration %s: a fault lasts 1s to %s", duration, fault.MaxDuration)
	}
	st, err := o.tasks.Find(call.task)
	if err != nil {
		return err
	}
	return o.owners.Ask(ctx, st.ID, func(r *connect.Task) error { return r.StartFault(ctx, f, duration) }, anything)
}

// anything is met by any state of a task.
func anything(api.Task) (bool, error) { return true, nil }

// parseFault reads the flags of a start, and reports those that do not go with the kind.
func parseFault(call faultCall) (fault.Fault, error) {
	c, path := call.c, command.Path(call.c)
	f := fault.Fault{Kind: call.kind, SourcesToFilter: c.StringSlice("except")}
	own := map[fault.Kind][]string{
		fault.BlackholePort: {"port", "protocol", "direction"}, fault.Latency: {"delay", "jitter", "to", "flows"}, fault.PacketLoss: {"loss", "to", "flows"},
	}
	for _, flag := range []string{"port", "protocol", "direction", "delay", "jitter", "loss", "to", "flows"} {
		if c.IsSet(flag) && !slices.Contains(own[f.Kind], flag) {
			return f, command.Usagef(path, "--%s is not for %s", flag, f.Kind.Short())
		}
	}
	if f.Shaped() {
		if f.Sources, f.FlowsPercent = c.StringSlice("to"), 100; len(f.Sources) == 0 {
			f.Sources = []string{"0.0.0.0/0", "::/0"}
		}
		if c.IsSet("flows") {
			f.FlowsPercent = c.Int("flows")
		}
	}
	switch f.Kind {
	case fault.BlackholePort:
		if p := c.Uint("port"); p < 1 || p > 65535 {
			return f, command.Usagef(path, "--port is 1 to 65535, not %d", p)
		}
		f.Port, f.Protocol, f.TrafficType = uint16(c.Uint("port")), c.String("protocol"), c.String("direction")
	case fault.Latency:
		for _, flag := range []string{"delay", "jitter"} {
			if d := c.Duration(flag); d < 0 || d%time.Millisecond != 0 {
				return f, command.Usagef(path, "--%s %s: it has whole milliseconds", flag, d)
			}
		}
		f.DelayMilliseconds, f.JitterMilliseconds = uint64(c.Duration("delay").Milliseconds()), uint64(c.Duration("jitter").Milliseconds())
		if f.DelayMilliseconds == 0 && f.JitterMilliseconds == 0 {
			return f, command.Usagef(path, "latency needs --delay or --jitter, such as --delay 200ms")
		}
	case fault.PacketLoss:
		f.LossPercent = c.Uint64("loss")
		if !c.IsSet("loss") {
			return f, command.Usagef(path, "packet-loss needs --loss, such as --loss 20")
		}
	}
	if problems := f.Problems(); len(problems) > 0 {
		return f, command.Usagef(path, "%s", strings.Join(problems, "; "))
	}
	return f, nil
}

func (o faultOptions) stop(ctx context.Context, call faultCall) error {
	c, path := call.c, command.Path(call.c)
	like := fault.Fault{Kind: call.kind, Protocol: c.String("protocol"), TrafficType: c.String("direction")}
	if p := c.Uint("port"); c.IsSet("port") && (p < 1 || p > 65535) {
		return command.Usagef(path, "--port is 1 to 65535, not %d", p)
	}
	if like.Port = uint16(c.Uint("port")); like.Kind != fault.BlackholePort && (like.Port != 0 || like.Protocol != "" || like.TrafficType != "") {
		return command.Usagef(path, "--port, --protocol and --direction are for blackhole-port: %s TASK blackhole-port --port PORT", path)
	}
	st, err := o.tasks.Find(call.task)
	if err != nil || st.Settled() {
		return err
	}
	return o.owners.Ask(ctx, st.ID, func(r *connect.Task) error { return r.StopFaults(ctx, like) }, func(t api.Task) (bool, error) {
		return !slices.ContainsFunc(t.Faults, like.Matches), nil
	})
}

// FaultRow is a fault in `fault status`; templates see its fields.
type FaultRow struct {
	api.Fault
}

// Text describes the fault.
func (r FaultRow) Text() string { return r.String() }

func (o faultOptions) status(ctx context.Context, call faultCall) error {
	if err := command.CheckFormat(call.c); err != nil {
		return err
	}
	t, err := o.reader.Inspect(ctx, call.task)
	if err != nil {
		return err
	}
	rows := []FaultRow{}
	for _, f := range t.Faults {
		if call.kind == "" || call.kind == f.Kind {
			rows = append(rows, FaultRow{f})
		}
	}
	now := time.Now()
	return command.Listing[FaultRow]{Items: rows, Columns: []command.Column[FaultRow]{
		{Head: "KIND", Cell: func(r FaultRow) string { return r.Kind.Short() }},
		{Head: "FAULT", Cell: FaultRow.Text},
		{Head: "SINCE", Cell: func(r FaultRow) string { return console.Span(now.Sub(r.Since)) + " ago" }, Order: func(a, b FaultRow) int { return a.Since.Compare(b.Since) }},
		{Head: "ENDS", Cell: func(r FaultRow) string {
			if r.Until.IsZero() {
				return command.NoValue
			}
			return "in " + console.Span(r.Until.Sub(now))
		}},
	}}.Print(o.out, call.c)
}
