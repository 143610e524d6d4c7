package run

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/config"
	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/internal/engine/limits"
	"github.com/podtask/podtask/internal/engine/owner"
	"github.com/podtask/podtask/internal/engine/record"
	"github.com/podtask/podtask/internal/serve"
	"github.com/podtask/podtask/internal/unit/rollback"
	"github.com/podtask/podtask/internal/unit/supervise"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/urfave/cli/v2"
)

func Command(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "run",
		Usage:     "run a task",
		ArgsUsage: "FILE|-|FAMILY[:REV]",
		Description: `In the foreground, progress is written to stderr and the logs of the containers to stdout
and stderr. The exit code is that of the essential container that stopped first. Ctrl-C,
SIGTERM, a lost terminal (SIGHUP) and a closed output stop the task; a second signal kills
it. A stopped task is kept for logs and inspect, unless --rm is given.

With --detach the task runs in the background under its own owner, and only its ID is
printed.

Examples:
  podtask run web.json
  podtask run --rm -e LOG_LEVEL=debug --env-file web.env web.yaml
  podtask run -d --wait=healthy --timeout 2m --name web web.json
  podtask run --map-volume data=./data --map-secret /web/key=env:KEY web.json
  podtask run --override nightly.json --dry-run --strict web.json`,
		Flags: append([]cli.Flag{
			&cli.BoolFlag{Name: "detach", Aliases: []string{"d"}, Usage: "run the task in the background and print its ID"},
			&cli.StringFlag{Name: "name", Usage: "name the task `NAME`"},
			&cli.StringSliceFlag{Name: "env", Aliases: []string{"e"}, Usage: "set `NAME=VALUE` in every container; NAME alone takes the value from the environment"},
			&cli.StringSliceFlag{Name: "env-file", Usage: "read variables from `FILE`, one per line"},
			&cli.StringFlag{Name: "pull", Value: "default", Usage: "pull images as `POLICY` says: always, once, prefer-cached, never, or default, which is always with a local copy if that fails"},
			&cli.StringFlag{Name: "limits", Value: limits.Enforce, Usage: "apply cpu and memory limits in `MODE` enforce (refuse a task if this host cannot apply them), best-effort (apply what is possible) or off"},
			&cli.BoolFlag{Name: "replace", Usage: "with --name: stop and remove a task of that name first"},
			&cli.StringFlag{Name: "pids-limit", Usage: "allow the task `NUMBER` processes and threads, 0 for no limit", DefaultText: "4096, where the host can limit them"},
			&cli.StringFlag{Name: "cpu-period", Usage: "use a period of `TIME`, 8ms to 1s, for the task's cpu limit", DefaultText: "100ms"},
			&cli.BoolFlag{Name: "clamp-ulimits", Usage: "lower ulimits of the definition to the hard limits of this user, with a warning"},
			&cli.StringFlag{Name: "logs", Usage: "send the output of containers as `MODE` says: auto, local (nothing leaves this host) or remote (refuse the task if it cannot be sent)", DefaultText: "auto"},
			&cli.BoolFlag{Name: "rm", Usage: "remove the task when it has stopped"},
			&command.OptionalFlag{StringFlag: &cli.StringFlag{Name: "wait", Usage: "with --detach: wait for `CONDITION` running, healthy or stopped"}, Bare: string(connect.UntilRunning)},
			&cli.DurationFlag{Name: "timeout", Usage: "with --wait: wait no longer than `DURATION` (30s, 5m)", DefaultText: "no limit"},
			&cli.BoolFlag{Name: "dry-run", Usage: "check the task and this host, and create nothing"},
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "show no progress"},
			&cli.StringFlag{Name: "auto-update", Usage: "with --notify: `POLICY` registry lets podtask auto-update follow the tags of the images, and return to the previous images if new ones fail"},
			&cli.DurationFlag{Name: "settle", Value: 10 * time.Second, Usage: "with --auto-update: new images must work for `DURATION` before the service is ready"},
			&cli.StringFlag{Name: "progress", Value: "auto", Usage: "show pulls in `MODE` plain (lines), json (JSON Lines on stderr), none, or auto: bars on a terminal, else plain"},
			&cli.StringFlag{Name: "notify", Usage: "run as the main process of a systemd service that is ready on `CONDITION` healthy or running, or at once (no)"},
		}, append(command.AdjustFlags(), command.DefinitionFlags()...)...),
		Action: p.WithMachine(run),
	}
}

// request is a run as the command line asks for it.
type request struct {
	command.Definition
	name    string
	options lifecycle.Options
	detach  bool
	replace bool
	remove  bool
	dryRun  bool
	await   await
	unit    unitRequest
	display display
}

// await is what a detached run waits for.
type await struct {
	until   connect.Condition // empty: do not wait
	timeout time.Duration
}

// unitRequest is what the main process of a systemd service needs to know.
type unitRequest struct {
	ready  connect.Condition // what READY=1 waits for; empty outside of a service
	settle time.Duration     // how long new images must work before they are kept, 0 to 1 h
}

// display is how a run shows its progress.
type display struct {
	quiet    bool
	progress string // one of console.ProgressModes
}

func parseRequest(p *command.Program, c *cli.Context, tasks config.Tasks) (request, error) {
	r := request{
		name:   c.String("name"),
		detach: c.Bool("detach"), remove: c.Bool("rm"), dryRun: c.Bool("dry-run"), replace: c.Bool("replace"),
		await:   await{timeout: c.Duration("timeout")},
		unit:    unitRequest{ready: connect.Condition(c.String("notify")), settle: c.Duration("settle")},
		display: display{quiet: c.Bool("quiet"), progress: c.String("progress")},
	}
	switch n := c.Args().Len(); {
	case n == 0:
		return r, command.Usagef("run", "run takes one FILE, not 0 arguments")
	case n > 1:
		return r, command.Usagef("run", "run takes one FILE, not %d arguments: a definition has the image and the command; `podman run` runs an image without one", n)
	}
	if r.name != "" && !serve.ValidTaskName(r.name) {
		return r, command.Usagef("run", "--name %q: a name has letters, digits, dots, dashes and underscores, and begins with a letter or a digit", r.name)
	}
	if !slices.Contains(console.ProgressModes, r.display.progress) {
		return r, command.Usagef("run", "--progress is auto, plain, json or none, not %q", r.display.progress)
	}
	r.options.Pull, r.options.Limits, r.options.Quota = tasks.Pull, tasks.Limits, tasks.Quota
	var err error
	if err := r.parseWait(c); err != nil {
		return r, err
	}
	if err := r.parseService(c); err != nil {
		return r, err
	}
	if r.unit.ready != "" {
		r.options.Persistent = true
		r.options.Unit = p.Getenv("PODMAN_SYSTEMD_UNIT")
	}
	if r.replace && r.name == "" {
		return r, command.Usagef("run", "--replace needs --name")
	}
	if r.Definition, err = p.Definition(c, c.Args().First()); err != nil {
		return r, err
	}
	if r.Changes.Adjustments, err = command.ParseAdjustments(c); err != nil {
		return r, err
	}
	r.Changes.Environment, err = command.ReadEnv(p.Environ, "run", c.StringSlice("env-file"), c.StringSlice("env"))
	return r, err
}

// parseWait reads what a detached run waits for, and for how long.
func (r *request) parseWait(c *cli.Context) (err error) {
	if c.IsSet("wait") {
		if r.await.until, err = connect.ParseCondition(c.String("wait")); err != nil {
			return command.Usagef("run", "%v", err)
		}
		if !r.detach {
			return command.Usagef("run", "--wait is for --detach: in the foreground run waits until the task has stopped")
		}
	}
	if r.await.timeout != 0 && (r.await.until == "" || r.await.timeout < 0) {
		return command.Usagef("run", "--timeout is a positive time and bounds --wait: give --detach --wait with it")
	}
	return nil
}

// parseService reads the flags for the main process of a systemd service.
func (r *request) parseService(c *cli.Context) error {
	switch r.unit.ready {
	case "", supervise.ReadyNo, connect.UntilRunning, connect.UntilHealthy:
	default:
		return command.Usagef("run", "--notify is healthy, running or no, not %q", r.unit.ready)
	}
	if r.unit.ready != "" && (r.detach || r.dryRun) {
		return command.Usagef("run", "--notify is for the main process of a service: leave out --detach and --dry-run")
	}
	if r.options.AutoUpdate = c.String("auto-update"); r.options.AutoUpdate != "" {
		if r.options.AutoUpdate != rollback.FromRegistry || r.unit.ready == "" || r.unit.ready == supervise.ReadyNo || r.name == "" {
			return command.Usagef("run", "--auto-update is registry, and is for a service with --name, and --notify healthy or running")
		}
	}
	if r.unit.settle < 0 || r.unit.settle > time.Hour || c.IsSet("settle") && r.options.AutoUpdate == "" {
		return command.Usagef("run", "--settle is a time of up to an hour, and is for --auto-update")
	}
	return nil
}

func run(ctx context.Context, s *command.Machine, c *cli.Context) error {
	r, err := parseRequest(s.Program, c, s.Config.Tasks)
	if err != nil {
		return err
	}
	// Until there is something to stop, a signal just ends us.
	early, stop := signal.NotifyContext(ctx, stopSignals()...)
	defer stop()
	if r.unit.ready != "" {
		return superviseUnit(ctx, early, s, r)
	}
	task, err := prepareTask(early, s, r)
	if err == nil && !r.dryRun {
		if r.detach {
			err = runDetached(early, s, r, task)
			if code := command.ExitStatus(0); err != nil && early.Err() != nil && !errors.As(err, &code) {
				fmt.Fprintln(s.Program.Stderr, "interrupted: if the task was created, it continues; see `podtask ps`")
				return command.ExitStatus(command.ExitInterrupted)
			}
			return err
		}
		return runForeground(ctx, early, s, r, task)
	}
	if early.Err() != nil {
		return command.ExitStatus(command.ExitInterrupted)
	}
	if err != nil {
		return err
	}
	return printDryRun(s, task)
}

// prepare reads the task, makes place for it and makes sure that this host can run
// it.
func prepareTask(ctx context.Context, s *command.Machine, r request) (taskdef.Task, error) {
	task, err := defineTask(ctx, s, r)
	if err != nil {
		return task, err
	}
	if r.replace && !r.dryRun {
		if err := replaceTasks(ctx, s, r.name); err != nil {
			return task, err
		}
	}
	if err := s.Engine.Preflight.Check(ctx, task, r.options); err != nil {
		return task, err
	}
	for _, w := range s.Engine.Preflight.Warnings(ctx, task) {
		s.Program.Warn("%s", w)
	}
	command.WarnShortNames(s.Program.Warn, task, r.options)
	for _, l := range command.LogsOf(task, r.Definition.Logs()) {
		if !r.display.quiet {
			fmt.Fprintf(s.Program.Stderr, "the output of %s goes to %s\n", l.Container, l.Destination)
		}
	}
	return task, nil
}

// define reads the task as the request changes it, and says what is wrong with it.
func defineTask(ctx context.Context, s *command.Machine, r request) (taskdef.Task, error) {
	task, f, err := command.ParseDefinition(s.Program, r.Definition)
	if err != nil {
		return task, err
	}
	if !command.Runnable(s.Program, f) {
		return task, command.ExitStatus(command.ExitOwnFailure)
	}
	for _, line := range f.Definition.Lowered {
		s.Program.Warn("%s", line)
	}
	return f.Definition.Prepare(ctx, s.Engine.Secrets)
}

// createOwned makes the record of a task that is ours.
func createOwned(ctx context.Context, s *command.Machine, r request, task taskdef.Task) (*owner.Owner, error) {
	o, err := s.Engine.Creator.CreateOwned(ctx, task, r.name, r.options)
	if errors.Is(err, record.ErrNameTaken) {
		return nil, fmt.Errorf("run %s: %w", r.Document, err)
	}
	if err != nil {
		return nil, err
	}
	if unapplied := o.State().Options.Unapplied; len(unapplied) > 0 {
		s.Program.Warn("this host cannot apply limits of: %s; the task runs without", strings.Join(unapplied, ", "))
	}
	return o, nil
}

func printDryRun(s *command.Machine, task taskdef.Task) error {
	fmt.Fprintf(s.Program.Stdout, "%s: %d containers can run here, in this order:\n", task.Family, len(task.Containers))
	for i, level := range task.Levels() {
		var names []string
		for _, c := range level {
			names = append(names, fmt.Sprintf("%s (%s)", task.Containers[c].Name, task.Containers[c].Image))
		}
		fmt.Fprintf(s.Program.Stdout, "  %d. %s\n", i+1, strings.Join(names, ", "))
	}
	return nil
}

// pullMode returns how to show pulls. A quiet run shows them only if told to.
func (d display) pullMode() string {
	if d.quiet && d.progress == "auto" {
		return "none"
	}
	return d.progress
}
