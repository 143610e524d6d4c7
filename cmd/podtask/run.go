package main

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"regexp"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/agent"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/urfave/cli/v2"
)

func (p *program) runCommand() *cli.Command {
	return &cli.Command{
		Name:      "run",
		Usage:     "run a task",
		ArgsUsage: "FILE|-",
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
  podtask run --dry-run --strict web.json`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "detach", Aliases: []string{"d"}, Usage: "leave the task running and print its id"},
			&cli.StringFlag{Name: "name", Usage: "call the task `NAME`"},
			&cli.StringSliceFlag{Name: "env", Aliases: []string{"e"}, Usage: "set `NAME=VALUE` in every container; NAME alone takes the value from here"},
			&cli.StringSliceFlag{Name: "env-file", Usage: "read variables from `FILE`, a line each"},
			&cli.StringFlag{Name: "pull", Value: "default", Usage: "when to pull images: default (always; a local copy will do if that fails), always, once, prefer-cached or never"},
			&cli.StringFlag{Name: "limits", Value: agent.LimitsEnforce, Usage: "enforce refuses a task whose cpu and memory limits this host cannot apply; best-effort applies those it can; off none"},
			&cli.BoolFlag{Name: "rm", Usage: "remove the task when it has stopped"},
			&optionalFlag{StringFlag: &cli.StringFlag{Name: "wait", Usage: "with --detach: wait until the task is `running`, healthy or stopped"}, bare: string(untilRunning)},
			&cli.DurationFlag{Name: "timeout", Usage: "with --wait: wait no longer than this (30s, 5m)", DefaultText: "for ever"},
			&cli.BoolFlag{Name: "dry-run", Usage: "check the task and this host, and make nothing"},
			&cli.BoolFlag{Name: "strict", Usage: "take warnings for errors"},
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "show no progress"},
		},
		Action: p.withHost(run),
	}
}

// request is a run as the command line asks for it.
type request struct {
	file    string
	name    string
	env     []taskdef.EnvVar
	options lifecycle.Options
	detach  bool
	remove  bool
	wait    condition // empty: do not
	timeout time.Duration
	dryRun  bool
	strict  bool
	quiet   bool
}

// taskName is what a task may be called.
var taskName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,254}$`)

func (p *program) parseRequest(c *cli.Context) (request, error) {
	r := request{
		file: c.Args().First(), name: c.String("name"),
		detach: c.Bool("detach"), remove: c.Bool("rm"), timeout: c.Duration("timeout"),
		dryRun: c.Bool("dry-run"), strict: c.Bool("strict"), quiet: c.Bool("quiet"),
		options: lifecycle.Options{Limits: c.String("limits")},
	}
	if n := c.Args().Len(); n != 1 {
		return r, usagef("run", "run takes one FILE, not %d arguments", n)
	}
	if r.name != "" && !taskName.MatchString(r.name) {
		return r, usagef("run", "--name %q: a name has letters, digits, dots, dashes and underscores, and begins with a letter or a digit", r.name)
	}
	if err := r.options.Pull.UnmarshalText([]byte(c.String("pull"))); err != nil {
		return r, usagef("run", "--pull is default, always, once, prefer-cached or never, not %q", c.String("pull"))
	}
	switch r.options.Limits {
	case agent.LimitsEnforce, agent.LimitsBestEffort, agent.LimitsOff:
	default:
		return r, usagef("run", "--limits is enforce, best-effort or off, not %q", r.options.Limits)
	}
	var err error
	if c.IsSet("wait") {
		if r.wait, err = parseCondition("run", c.String("wait")); err != nil {
			return r, err
		}
		if !r.detach {
			return r, usagef("run", "--wait is for --detach: in the foreground run waits until the task has stopped")
		}
	}
	if r.timeout != 0 && (r.wait == "" || r.timeout < 0) {
		return r, usagef("run", "--timeout is a positive time and bounds --wait: give --detach --wait with it")
	}
	r.env, err = p.readEnv("run", c.StringSlice("env-file"), c.StringSlice("env"))
	return r, err
}

func run(ctx context.Context, s *session, c *cli.Context) error {
	r, err := s.parseRequest(c)
	if err != nil {
		return err
	}
	// Until there is something to stop, a signal just ends us.
	early, stop := signal.NotifyContext(ctx, heeded()...)
	defer stop()
	task, err := s.prepare(early, r)
	if err == nil && !r.dryRun {
		if r.detach {
			if err = s.detached(early, r, task); err != nil && early.Err() != nil {
				fmt.Fprintln(s.stderr, "interrupted: the task goes on if it was created, see `podtask ps`")
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
	return s.printDryRun(task)
}

// prepare reads the task and makes sure that this host can run it.
func (s *session) prepare(ctx context.Context, r request) (taskdef.Task, error) {
	task, f, err := s.parseFile(r.file, r.strict)
	if err != nil {
		return task, err
	}
	s.printProblems(f)
	if !f.Valid {
		fmt.Fprintf(s.stderr, "%s is not valid: nothing was made\n", f.File)
		return task, exitStatus(exitOwnFailure)
	}
	task = task.WithEnv(r.env)
	return task, s.host.Preflight(ctx, task, r.options)
}

// create makes the record.
func (s *session) create(ctx context.Context, r request, task taskdef.Task) (lifecycle.State, error) {
	st, err := s.host.Create(ctx, task, r.name, r.options)
	if errors.Is(err, agent.ErrNameTaken) {
		return st, fmt.Errorf("run %s: %w", r.file, err)
	}
	if len(st.Options.Unapplied) > 0 {
		s.warn("this host cannot apply limits of: %s; the task runs without", strings.Join(st.Options.Unapplied, ", "))
	}
	return st, err
}

func (s *session) printDryRun(task taskdef.Task) error {
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
