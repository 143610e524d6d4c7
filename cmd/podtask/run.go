package main

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/internal/console"
	"github.com/podtask/podtask/internal/envfile"
	"github.com/podtask/podtask/internal/limits"
	"github.com/podtask/podtask/internal/owner"
	"github.com/podtask/podtask/internal/record"
	"github.com/podtask/podtask/internal/rollback"
	"github.com/podtask/podtask/internal/supervise"
	"github.com/podtask/podtask/pkg/config"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/urfave/cli/v2"
)

func runCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "run",
		Usage:     "run a task",
		ArgsUsage: "FILE|-|FAMILY[:REV]",
		Description: `In the foreground progress goes to stderr and the logs of the containers to stdout
and stderr, and the exit code is that of the essential container that stopped
first. Ctrl-C, SIGTERM, a lost terminal (SIGHUP) and a closed output stop the task;
the second signal kills it. Afterwards the task stays for logs and inspect, unless
--rm is given.

With --detach the task runs on under an owner of its own and only its id is printed.

Examples:
  podtask run web.json
  podtask run --rm -e LOG_LEVEL=debug --env-file web.env web.yaml
  podtask run -d --wait=healthy --timeout 2m --name web web.json
  podtask run --map-volume data=./data --map-secret /web/token=env:TOKEN web.json
  podtask run --override nightly.json --dry-run --strict web.json`,
		Flags: append([]cli.Flag{
			&cli.BoolFlag{Name: "detach", Aliases: []string{"d"}, Usage: "leave the task running and print its id"},
			&cli.StringFlag{Name: "name", Usage: "call the task `NAME`"},
			&cli.StringSliceFlag{Name: "env", Aliases: []string{"e"}, Usage: "set `NAME=VALUE` in every container; NAME alone takes the value from here"},
			&cli.StringSliceFlag{Name: "env-file", Usage: "read variables from `FILE`, a line each"},
			&cli.StringFlag{Name: "pull", Value: "default", Usage: "when to pull images: default (always; a local copy will do if that fails), always, once, prefer-cached or never"},
			&cli.StringFlag{Name: "limits", Value: limits.Enforce, Usage: "enforce refuses a task whose cpu and memory limits this host cannot apply; best-effort applies those it can; off none"},
			&cli.BoolFlag{Name: "replace", Usage: "with --name: stop and remove a task of that name first"},
			&cli.StringFlag{Name: "pids-limit", Usage: "allow the task `NUMBER` processes and threads, 0 for no limit", DefaultText: "4096, where the host can limit them"},
			&cli.StringFlag{Name: "cpu-period", Usage: "count the task's cpu limit in `TIME`, 8ms to 1s", DefaultText: "100ms"},
			&cli.BoolFlag{Name: "rm", Usage: "remove the task when it has stopped"},
			&optionalFlag{StringFlag: &cli.StringFlag{Name: "wait", Usage: "with --detach: wait until the task is `running`, healthy or stopped"}, bare: string(connect.UntilRunning)},
			&cli.DurationFlag{Name: "timeout", Usage: "with --wait: wait no longer than this (30s, 5m)", DefaultText: "for ever"},
			&cli.BoolFlag{Name: "dry-run", Usage: "check the task and this host, and make nothing"},
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "show no progress"},
			&cli.StringFlag{Name: "auto-update", Usage: "with --notify: `registry` lets podtask auto-update follow the images' tags, and goes back to the digests of before when new ones fail"},
			&cli.DurationFlag{Name: "settle", Value: 10 * time.Second, Usage: "with --auto-update: how long new images have to do well before the service is ready with them"},
			&cli.StringFlag{Name: "progress", Value: "auto", Usage: "how to show pulls: plain (lines), json (JSON Lines on stderr), none, or auto: a status line on a terminal, else plain"},
			&cli.StringFlag{Name: "notify", Usage: "be the main process of a systemd service that is ready when the task is `healthy` or running, or that is not waited for (no)"},
		}, append(adjustFlags(), definitionFlags()...)...),
		Action: p.withHost(run),
	}
}

// request is a run as the command line asks for it.
type request struct {
	definition
	name    string
	adjust  taskdef.Adjustments
	options lifecycle.Options
	detach  bool
	replace bool
	remove  bool
	wait    connect.Condition // empty: do not
	timeout time.Duration
	dryRun  bool
	quiet   bool
	// progress is one of progressModes.
	progress string
	// notify is what READY=1 waits for; empty outside of a service.
	notify connect.Condition
	// settle is how long new images have to do well, 0 to 1 h.
	settle time.Duration
}

func parseRequest(p *program, c *cli.Context, tasks config.Tasks) (request, error) {
	r := request{
		name:   c.String("name"),
		detach: c.Bool("detach"), remove: c.Bool("rm"), timeout: c.Duration("timeout"),
		dryRun: c.Bool("dry-run"), quiet: c.Bool("quiet"), progress: c.String("progress"),
		replace: c.Bool("replace"), notify: connect.Condition(c.String("notify")), settle: c.Duration("settle"),
	}
	if n := c.Args().Len(); n != 1 {
		return r, usagef("run", "run takes one FILE, not %d arguments", n)
	}
	if r.name != "" && !connect.TaskName.MatchString(r.name) {
		return r, usagef("run", "--name %q: a name has letters, digits, dots, dashes and underscores, and begins with a letter or a digit", r.name)
	}
	if !slices.Contains(console.ProgressModes, r.progress) {
		return r, usagef("run", "--progress is auto, plain, json or none, not %q", r.progress)
	}
	r.options.Pull, r.options.Limits, r.options.Quota = tasks.Pull, tasks.Limits, tasks.Quota
	var err error
	if err := r.parseWait(c); err != nil {
		return r, err
	}
	if err := r.parseService(c); err != nil {
		return r, err
	}
	if r.notify != "" {
		r.options.Unit = p.getenv("PODMAN_SYSTEMD_UNIT")
	}
	if r.replace && r.name == "" {
		return r, usagef("run", "--replace needs --name")
	}
	if r.adjust, err = parseAdjustments(c); err != nil {
		return r, err
	}
	if r.definition, err = definitionOf(p, c, c.Args().First()); err != nil {
		return r, err
	}
	r.settings.Env, err = readEnv(p, "run", c.StringSlice("env-file"), c.StringSlice("env"))
	return r, err
}

// parseWait reads what a detached run waits for, and for how long.
func (r *request) parseWait(c *cli.Context) (err error) {
	if c.IsSet("wait") {
		if r.wait, err = connect.ParseCondition(c.String("wait")); err != nil {
			return usagef("run", "%v", err)
		}
		if !r.detach {
			return usagef("run", "--wait is for --detach: in the foreground run waits until the task has stopped")
		}
	}
	if r.timeout != 0 && (r.wait == "" || r.timeout < 0) {
		return usagef("run", "--timeout is a positive time and bounds --wait: give --detach --wait with it")
	}
	return nil
}

// parseService reads the flags for the main process of a systemd service.
func (r *request) parseService(c *cli.Context) error {
	switch r.notify {
	case "", supervise.ReadyNo, connect.UntilRunning, connect.UntilHealthy:
	default:
		return usagef("run", "--notify is healthy, running or no, not %q", r.notify)
	}
	if r.notify != "" && (r.detach || r.dryRun) {
		return usagef("run", "--notify is for the main process of a service: leave out --detach and --dry-run")
	}
	if r.options.AutoUpdate = c.String("auto-update"); r.options.AutoUpdate != "" {
		if r.options.AutoUpdate != rollback.FromRegistry || r.notify == "" || r.notify == supervise.ReadyNo || r.name == "" {
			return usagef("run", "--auto-update is registry, and is for a service with --name, and --notify healthy or running")
		}
	}
	if r.settle < 0 || r.settle > time.Hour || c.IsSet("settle") && r.options.AutoUpdate == "" {
		return usagef("run", "--settle is a time of up to an hour, and is for --auto-update")
	}
	return nil
}

func run(ctx context.Context, s *session, c *cli.Context) error {
	r, err := parseRequest(s.program, c, s.config.Tasks)
	if err != nil {
		return err
	}
	// Until there is something to stop, a signal just ends us.
	early, stop := signal.NotifyContext(ctx, stopSignals()...)
	defer stop()
	if r.notify != "" {
		return superviseUnit(ctx, early, s, r)
	}
	task, err := s.prepare(early, r)
	if err == nil && !r.dryRun {
		if r.detach {
			if err = runDetached(early, s, r, task); err != nil && early.Err() != nil {
				fmt.Fprintln(s.stderr, "interrupted: if the task was created, it continues; see `podtask ps`")
				return exitStatus(exitInterrupted)
			}
			return err
		}
		return s.foreground(ctx, early, r, task)
	}
	if early.Err() != nil {
		return exitStatus(exitInterrupted)
	}
	if err != nil {
		return err
	}
	return printDryRun(s, task)
}

// prepare reads the task, makes place for it and makes sure that this host can run
// it.
func (s *session) prepare(ctx context.Context, r request) (taskdef.Task, error) {
	task, err := s.define(r)
	if err != nil {
		return task, err
	}
	if r.replace && !r.dryRun {
		if err := s.replace(ctx, r.name); err != nil {
			return task, err
		}
	}
	if err := s.Agent.Preflight.Check(ctx, task, r.options); err != nil {
		return task, err
	}
	for _, w := range s.Agent.Preflight.Warnings(ctx, task) {
		s.warn("%s", w)
	}
	warnShortNames(s.program, task, r.options)
	return task, nil
}

// define reads the task as the request changes it, and says what is wrong with it.
func (s *session) define(r request) (taskdef.Task, error) {
	task, f, err := parseDefinition(s.program, r.definition)
	if err != nil {
		return task, err
	}
	if !runnable(s.program, f) {
		return task, exitStatus(exitOwnFailure)
	}
	if err := connect.ProvideManifest(s.Agent.Secrets, f.loaded); err != nil {
		return task, err
	}
	if task, err = task.Adjust(r.adjust); err != nil {
		return task, err
	}
	return envfile.Read(task)
}

// create makes the record.
func (s *session) create(ctx context.Context, r request, task taskdef.Task) (lifecycle.State, error) {
	o, err := s.createOwned(ctx, r, task)
	if err != nil {
		return lifecycle.State{}, err
	}
	return o.State(), o.Close()
}

// createOwned makes the record of a task that is ours.
func (s *session) createOwned(ctx context.Context, r request, task taskdef.Task) (*owner.Owner, error) {
	o, err := s.Agent.Creator.CreateOwned(ctx, task, r.name, r.options)
	if errors.Is(err, record.ErrNameTaken) {
		return nil, fmt.Errorf("run %s: %w", r.document, err)
	}
	if err != nil {
		return nil, err
	}
	if unapplied := o.State().Options.Unapplied; len(unapplied) > 0 {
		s.warn("this host cannot apply limits of: %s; the task runs without", strings.Join(unapplied, ", "))
	}
	return o, nil
}

func printDryRun(s *session, task taskdef.Task) error {
	fmt.Fprintf(s.stdout, "%s: %d containers can run here, in this order:\n", task.Family, len(task.Containers))
	for i, level := range task.Levels() {
		var names []string
		for _, c := range level {
			names = append(names, fmt.Sprintf("%s (%s)", task.Containers[c].Name, task.Containers[c].Image))
		}
		fmt.Fprintf(s.stdout, "  %d. %s\n", i+1, strings.Join(names, ", "))
	}
	return nil
}

// pullMode is how a run shows its pulls; a quiet one does only when told to.
func (r request) pullMode() string {
	if r.quiet && r.progress == "auto" {
		return "none"
	}
	return r.progress
}
