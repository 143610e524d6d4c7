package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/config"
	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/internal/engine/act/imagestore"
	"github.com/podtask/podtask/internal/engine/act/observe"
	"github.com/podtask/podtask/internal/engine/act/tasksecrets"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/engine/network/names"
	"github.com/podtask/podtask/internal/engine/run/owner"
	"github.com/podtask/podtask/internal/serve"
	"github.com/podtask/podtask/internal/unit/rollback"
	"github.com/podtask/podtask/internal/unit/supervise"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/urfave/cli/v2"
)

// Command is `podtask run`.
func Command(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "run",
		Usage:     "run a task",
		ArgsUsage: "FILE|-|FAMILY[:REV]",
		Description: `In the foreground, progress is written to stderr and the logs of the containers to stdout
and stderr. The exit code is that of the essential container that stopped first, and 125
to 127 if one could not start. Ctrl-C, SIGTERM, a lost terminal (SIGHUP) and a closed output stop the task; a second signal kills
it. A stopped task is kept for logs and inspect, unless --rm is given.

With --detach the task runs in the background under its own owner, and only its ID is
printed.

Examples:
  podtask run web.json
  podtask run --rm -e LOG_LEVEL=debug --env-file web.env web.yaml
  podtask run -d --wait=healthy --timeout 2m --name web web.json
  podtask run --map-volume data=./data --map-secret /web/key=env:KEY web.json
  podtask run --locked web.yaml
  podtask run --leave-out datadog-agent web.json
  podtask run --override nightly.json --dry-run --strict web.json`,
		Flags: append([]cli.Flag{
			&cli.BoolFlag{Name: "detach", Aliases: []string{"d"}, Usage: "run the task in the background and print its ID"},
			&cli.StringFlag{Name: "name", Usage: "name the task `NAME`"},
			&cli.BoolFlag{Name: "replace", Usage: "with --name: stop and remove a task of that name first"},
			&cli.StringFlag{Name: "namespace", Usage: "let the task reach the names of services in the namespace `NAME`"},
			&cli.BoolFlag{Name: "rm", Usage: "remove the task when it has stopped"},
			&command.OptionalFlag{StringFlag: &cli.StringFlag{Name: "wait", Usage: "with --detach: wait for `CONDITION` running, steady (still running a second later), healthy or stopped"}, Bare: string(connect.UntilSteady)},
			&cli.DurationFlag{Name: "timeout", Usage: "with --wait: wait no longer than `DURATION` (30s, 5m)", DefaultText: "no limit"},
			&cli.BoolFlag{Name: "dry-run", Usage: "check the task and this host, and create nothing"},
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "show no progress"},
			&cli.StringFlag{Name: "auto-update", Usage: "with --notify: `POLICY` registry lets podtask auto-update follow the tags of the images, and return to the previous images if new ones fail"},
			&cli.DurationFlag{Name: "settle", Value: 10 * time.Second, Usage: "with --auto-update: new images must work for `DURATION` before the service is ready"},
			&cli.StringFlag{Name: "progress", Value: "auto", Usage: "show pulls in `MODE` plain (lines), json (JSON Lines on stderr), none, or auto: bars on a terminal, else plain"},
			&cli.StringFlag{Name: "notify", Usage: "run as the main process of a systemd service that is ready on `CONDITION` healthy or running, or at once (no)"},
		}, command.TaskFlags()...),
		Action: command.WithMachine(p, newRun),
	}
}

// request has the flags and the argument of `podtask run`.
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

// await has the condition that a detached run waits for.
type await struct {
	until   connect.Condition // empty: do not wait
	timeout time.Duration
}

// unitRequest has the flags for the main process of a systemd service.
type unitRequest struct {
	ready  connect.Condition // what READY=1 waits for; empty outside of a service
	settle time.Duration     // how long new images must work before they are kept, 0 to 1 h
}

// display has the flags for the output of a run.
type display struct {
	quiet    bool
	progress string // one of console.ProgressModes
}

type runOptions struct {
	out, errOut io.Writer
	getenv      func(string) string
	notify      func(chan<- os.Signal, ...os.Signal)
	warn        func(format string, args ...any)
	definition  func(c *cli.Context, name string) (command.Definition, error)
	defaults    config.Tasks
	log         *slog.Logger

	images   *imagestore.Resolver
	events   *record.Events
	logs     *observe.Logs
	secrets  *tasksecrets.Store
	owners   *connect.Connector
	launcher *connect.Launcher
	onPull   func(show func(imagestore.Progress)) // for the pulls of this process
}

func newRun(m *command.Machine) runOptions {
	p, e := m.Program, m.Engine
	return runOptions{
		out: p.Stdout, errOut: p.Stderr, getenv: p.Getenv, notify: p.Notify, warn: p.Warn,
		definition: p.TaskDefinition, defaults: m.Config.Tasks, log: m.Log,
		images: e.Images, events: e.Events, logs: e.Logs, secrets: e.Secrets, owners: m.Connector, launcher: m.Launcher(),
		onPull: func(show func(imagestore.Progress)) { m.OnPull = show },
	}
}

// parse reads the command line.
func (o runOptions) parse(c *cli.Context) (request, error) {
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
	r.options.Pull, r.options.Limits, r.options.Quota = o.defaults.Pull, o.defaults.Limits, o.defaults.Quota
	var err error
	if err := r.parseWait(c); err != nil {
		return r, err
	}
	if err := r.parseService(c); err != nil {
		return r, err
	}
	if r.unit.ready != "" {
		r.options.Persistent = true
		r.options.Unit = o.getenv("PODMAN_SYSTEMD_UNIT")
	}
	if locked := c.String("locked"); locked != "" && locked != "false" && r.options.AutoUpdate != "" {
		return r, command.Usagef("run", "--locked keeps the images as they are, --auto-update replaces them: leave out one of them")
	}
	if r.replace && r.name == "" {
		return r, command.Usagef("run", "--replace needs --name")
	}
	r.Definition, err = o.definition(c, c.Args().First())
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

// taskRun is a task that a command line runs.
type taskRun struct {
	runOptions
	request
}

// Run implements command.Runner: it reads the definition, and starts the task as the main process of a unit, in the
// background or in the foreground. With --dry-run it only checks.
func (o runOptions) Run(ctx context.Context, c *cli.Context) error {
	request, err := o.parse(c)
	if err != nil {
		return err
	}
	r := taskRun{o, request}
	// Until the task exists, a signal ends this process.
	early, stop := signal.NotifyContext(ctx, stopSignals()...)
	defer stop()
	if r.unit.ready != "" {
		return r.supervise(ctx, early)
	}
	task, err := r.read(early)
	if err == nil {
		switch launch := r.launch(task); {
		case r.dryRun:
			if err = r.owners.Check(early, launch); err == nil {
				return r.printDryRun(task)
			}
		case r.detach:
			err = r.runDetached(early, launch)
			if code := command.ExitStatus(0); err != nil && early.Err() != nil && !errors.As(err, &code) {
				fmt.Fprintln(r.errOut, "interrupted: if the task was created, it continues; see `podtask ps`")
			}
		default:
			return r.runForeground(ctx, early, launch)
		}
	}
	if code := command.ExitStatus(0); early.Err() != nil && !errors.As(err, &code) && err != nil {
		return command.ExitStatus(command.ExitInterrupted)
	}
	return err
}

// launch is the task with what the command line says of it.
func (r taskRun) launch(task taskdef.Task) connect.Launch {
	options := r.options
	options.Remove = r.remove && r.unit.ready == "" // the process of a unit removes its task
	return connect.Launch{
		Launch:  owner.Launch{Task: task, Name: r.name, Options: options},
		Replace: r.replace,
		Replacing: func(st lifecycle.State) {
			fmt.Fprintf(r.errOut, "replacing task %s (%s), which stops within %s\n", lifecycle.ShortID(st.ID), r.name, st.Task.StopBound())
		},
	}
}

// read reads the definition, and prints its problems and what the user may not expect of it.
func (r taskRun) read(ctx context.Context) (taskdef.Task, error) {
	task, err := r.define(ctx)
	if err != nil {
		return task, err
	}
	command.WarnShortNames(r.warn, task, r.options)
	if all := task.Extensions.Ingress; len(all) > 0 {
		r.warn("%s is not served: only copies of a service have public addresses (`podtask service create`)", all[0].URL)
	}
	r.warnWithoutAgent(ctx, task)
	for _, l := range command.LogsOf(task, r.Definition.Logs()) {
		if !r.display.quiet {
			fmt.Fprintf(r.errOut, "the output of %s goes to %s\n", l.Container, l.Destination)
		}
	}
	return task, nil
}

// warnWithoutAgent says that a task in a namespace reaches no services if this host has no agent.
func (r taskRun) warnWithoutAgent(ctx context.Context, task taskdef.Task) {
	if task.Extensions.Namespace == "" {
		return
	}
	if c := r.owners.DialAgent(ctx); c != nil {
		c.Close()
		return
	}
	r.warn("the task does not reach the services of the namespace %s: %v", task.Extensions.Namespace, names.ErrNoAgent)
}

// define reads the definition with the changes of the command line, and prints its problems.
func (r taskRun) define(ctx context.Context) (taskdef.Task, error) {
	task, f, err := r.Definition.Read()
	if err != nil {
		return task, err
	}
	if !f.Runnable(r.errOut) {
		return task, command.ExitStatus(command.ExitOwnFailure)
	}
	for _, line := range f.Definition.Lowered {
		r.warn("%s", line)
	}
	if err := f.Lock.CheckBuilt(ctx, r.images); err != nil {
		return task, err
	}
	return f.Definition.Prepare(ctx, r.secrets)
}

func (r taskRun) printDryRun(task taskdef.Task) error {
	fmt.Fprintf(r.out, "%s: %d containers can run here, in this order:\n", task.Family, len(task.Containers))
	for i, level := range task.Levels() {
		var names []string
		for _, c := range level {
			names = append(names, fmt.Sprintf("%s (%s)", task.Containers[c].Name, task.Containers[c].Image))
		}
		fmt.Fprintf(r.out, "  %d. %s\n", i+1, strings.Join(names, ", "))
	}
	return nil
}

// pullMode returns how to show pulls: with --quiet only if --progress is given.
func (d display) pullMode() string {
	if d.quiet && d.progress == "auto" {
		return "none"
	}
	return d.progress
}
