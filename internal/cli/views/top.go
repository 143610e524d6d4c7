package views

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/cli/hostview"
	"github.com/podtask/podtask/internal/cli/reason"
	"github.com/podtask/podtask/internal/cli/top"
	"github.com/podtask/podtask/internal/cli/usage"
	"github.com/podtask/podtask/internal/config"
	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/internal/engine/act/admit"
	"github.com/podtask/podtask/internal/engine/act/observe"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/term"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/urfave/cli/v2"
)

// TopCommand is `podtask top`.
func TopCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "top",
		Usage:     "watch tasks and services in the terminal",
		ArgsUsage: "[TASK]",
		Description: `Shows the tasks that run, and those that failed in the last hour, with their health and what they use of their limits; 100 % of cpu are one
CPU, and ! marks memory that is nearly used up. Enter opens a task: its containers, what it
waits for, its timeline, logs and events. Tab shows the services by their stacks: the healthy
copies of each revision, how connections shift from one to the other, hooks and events; once
more the schedules with their latest runs. The last line of the
screen has the keys, ? all of them; what changes something asks first.

With --host it shows another host, with several --host or --all-hosts all of them in one list. A host that is down
is a line with its reason; podtask connects to it again and again, until you leave.

Examples:
  podtask top
  podtask top --host box1 --host box2
  podtask top --all-hosts
  podtask top web
  NO_COLOR=1 podtask top --interval 5s`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: "show stopped tasks too"},
			&cli.DurationFlag{Name: "interval", Aliases: []string{"i"}, Value: time.Second, Usage: "wait for `TIME` between two looks, at least 100ms"},
			allHostsFlag(),
		},
		Action: newOtherHosts(p).action(command.WithMachine(p, newTop), newScreen(p).overHosts),
	}
}

type topOptions struct {
	screen
	tasks *record.Tasks
	view  *taskView
}

func newTop(m *command.Machine) topOptions {
	return topOptions{screen: newScreen(m.Program), tasks: m.Engine.Tasks, view: newTaskView(m)}
}

// Run implements command.Runner.
func (o topOptions) Run(ctx context.Context, c *cli.Context) error {
	options, err := o.options(c)
	if err != nil {
		return err
	}
	if ref := c.Args().First(); ref != "" {
		st, err := o.tasks.Find(ref)
		if err != nil {
			return err
		}
		options.Open = st.ID
	}
	return o.show(ctx, o.view, o.view, options)
}

// screen is the terminal of `podtask top`.
type screen struct {
	in       io.Reader
	out      io.Writer
	getenv   func(string) string
	environ  func() []string
	redirect func(stderr io.Writer) (restore func())
}

func newScreen(p *command.Program) screen {
	return screen{in: p.Stdin, out: p.Stdout, getenv: p.Getenv, environ: p.Environ, redirect: p.RedirectStderr}
}

// overHosts shows the tasks of other hosts.
func (o screen) overHosts(c *cli.Context, view *hostview.View) error {
	options, err := o.options(c)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(c.Context, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := view.Connected(ctx); err != nil {
		return interrupted(ctx, err)
	}
	if ref := c.Args().First(); ref != "" {
		if options.Open, err = view.Find(ctx, ref); err != nil {
			return interrupted(ctx, err)
		}
		if _, err := view.Tasks(ctx); err != nil { // says which host has it
			return interrupted(ctx, err)
		}
	}
	if err := o.show(ctx, view, view, options); err != nil {
		return interrupted(ctx, err)
	}
	return nil
}

// options reads the flags.
func (o screen) options(c *cli.Context) (top.Options, error) {
	options := top.Options{All: c.Bool("all"), Colors: console.ColorsFor(o.out, o.getenv), Pace: c.Duration("interval"), Now: time.Now}
	switch {
	case c.Args().Len() > 1:
		return options, command.Usagef("top", "top takes one TASK, not %d arguments", c.Args().Len())
	case options.Pace < 100*time.Millisecond:
		return options, command.Usagef("top", "--interval is 100ms or more, not %s", options.Pace)
	case !command.IsTerminal(o.in) || !console.CanMoveCursor(o.out, o.getenv):
		return options, command.Usagef("top", "top needs a terminal for input and output; `podtask ps --watch` and `podtask stats` do not")
	}
	return options, nil
}

// show shows the view until the user leaves it.
func (o screen) show(ctx context.Context, source top.Source, actions top.Actions, options top.Options) error {
	// Warnings are shown on the last line of the screen.
	warnings := &lastLine{}
	defer o.redirect(warnings)()
	options.Warning = warnings.take
	return top.Run(ctx, source, actions, options, top.Terminal{In: o.in, Out: o.out, Environ: o.environ()})
}

// mostAsked is the number of owners that are asked at a time what their tasks wait for.
const mostAsked = 50

// taskView implements top.Source and top.Actions for the tasks of this host.
type taskView struct {
	warn       func(format string, args ...any)
	environ    func() []string
	executable func() (string, error)
	settings   *config.Settings
	tasks      *record.Tasks
	logs       *observe.Logs
	owners     *connect.Connector
	reader     command.TaskReader
	restarter  command.Restarter
	sampler    usage.Sampler
	queue      *admit.Queue
	beside     beside

	mu     sync.Mutex     // guards the fields below
	before []usage.Sample // the samples of the last call of Tasks
	unread error          // of records that the last call of Tasks could not read
}

func newTaskView(m *command.Machine) *taskView {
	p := m.Program
	v := &taskView{
		warn: p.Warn, environ: p.Environ, executable: p.Executable, settings: m.Config,
		tasks: m.Engine.Tasks, logs: m.Engine.Logs, owners: m.Connector,
		reader: m.TaskReader(), restarter: m.Restarter(), sampler: usage.NewSampler(m), queue: m.Engine.Queue,
	}
	for _, open := range p.Beside {
		v.beside.lists = append(v.beside.lists, open(m))
	}
	return v
}

// besideAge is the age from which on the parts are asked again.
const besideAge = 5 * time.Second

// beside keeps the schedules and stacks that the parts list.
type beside struct {
	lists []func(context.Context) (console.Beside, error)

	mu   sync.Mutex // held while they are asked
	at   time.Time  // of last; zero for never
	last console.Beside
	err  error
}

// Beside implements top.Source. Its error also names unreadable records of tasks, because nobody sees the standard error of another host.
func (v *taskView) Beside(ctx context.Context) (console.Beside, error) {
	known, err := v.beside.look(ctx)
	v.mu.Lock()
	defer v.mu.Unlock()
	return known, errors.Join(v.unread, err)
}

func (b *beside) look(ctx context.Context) (console.Beside, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.at.IsZero() && time.Since(b.at) < besideAge {
		return b.last, b.err
	}
	b.last, b.err = console.Beside{}, nil
	for _, list := range b.lists {
		one, err := list(ctx)
		b.last.Schedules, b.last.Stacks = append(b.last.Schedules, one.Schedules...), append(b.last.Stacks, one.Stacks...)
		b.err = errors.Join(b.err, err)
	}
	b.at = time.Now()
	return b.last, b.err
}

// Tasks implements top.Source.
func (v *taskView) Tasks(ctx context.Context) ([]top.Task, error) {
	aside := v.tasks.Aside()
	states, errs := v.tasks.States()
	slices.Reverse(states)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.unread = errors.Join(append(aside, errs...)...)
	after, err := v.sampler.Sample(ctx, states, false)
	if err != nil { // as on a host without cgroups v2; the rest is shown
		v.warn("the CPU and memory use of tasks is not known: %v", err)
	}
	used := map[string]usage.Task{}
	for _, l := range usage.Compare(v.before, after) {
		used[l.ID] = l
	}
	v.before = after
	var tasks []top.Task
	waiting, queued := v.queue.Waiting(), 0
	observed := v.reader.Observe(ctx, states, time.Now())
	v.reader.RenewReasons(ctx, observed, mostAsked)
	for _, t := range observed {
		item := top.Task{Task: t}
		if t.Queue != "" {
			queued++
			item.QueuedFor = waiting[t.ID].Word()
		}
		if l, ok := used[t.ID]; ok {
			item.Use, item.ContainerUse = new(top.Use), map[string]top.Use{}
			*item.Use = topUse(l.Use)
			for _, c := range l.Containers {
				item.ContainerUse[c.Name] = topUse(c.Use)
			}
		}
		tasks = append(tasks, item)
	}
	place := queued
	for i := range tasks { // the newest, which is the last in the queue, comes first
		if tasks[i].Queue != "" {
			tasks[i].Place = place
			place--
		}
	}
	return tasks, nil
}

// Services implements top.Source.
func (v *taskView) Services(ctx context.Context) ([]api.Service, error) {
	client := v.owners.DialAgent(ctx)
	if client == nil {
		return nil, nil
	}
	defer client.Close()
	return client.Services(ctx)
}

func topUse(u usage.Use) top.Use {
	t := top.Use{CPUPercent: u.CPUPercent}
	if u.Memory != nil {
		t.Memory, t.MemoryLimit = u.Memory.Used, u.Memory.Limit
	}
	return t
}

// Explain implements top.Source.
func (v *taskView) Explain(ctx context.Context, id string) (top.Detail, error) {
	t, err := v.reader.Inspect(ctx, id)
	if err != nil {
		return top.Detail{}, err
	}
	now := time.Now()
	return top.Detail{Task: t, Why: reason.Task(t, now).Sentence, Chart: chartOf(t, now)}, nil
}

// topTail is the number of existing log lines of each container that are shown.
const topTail = 200

// Follow implements top.Source.
func (v *taskView) Follow(ctx context.Context, id string, fn func(top.Line) error) error {
	st, err := v.tasks.Find(id)
	if err != nil {
		return err
	}
	err = v.logs.Read(ctx, st, "", observe.LogOptions{Follow: true, Tail: topTail}, func(l observe.LogLine) error {
		return fn(top.Line{Container: l.Container, Text: l.Text})
	})
	return observe.Complete(err)
}

// Stop implements top.Actions.
func (v *taskView) Stop(ctx context.Context, id string) error {
	return v.withTask(id, func(st lifecycle.State, show *console.Progress) error {
		return command.Grace{}.Stop(ctx, v.owners, st, "podtask top", show)
	})
}

// Restart implements top.Actions.
func (v *taskView) Restart(ctx context.Context, id string) error {
	return v.withTask(id, func(st lifecycle.State, show *console.Progress) error {
		_, err := v.restarter.Restart(ctx, st, command.Grace{}, show)
		return err
	})
}

func (v *taskView) withTask(id string, do func(lifecycle.State, *console.Progress) error) error {
	st, err := v.tasks.Find(id)
	if err != nil {
		return err
	}
	return do(st, console.NewProgress(io.Discard, false, time.Now(), command.LastSeq(st)))
}

// Continue implements top.Actions.
func (v *taskView) Continue(ctx context.Context, service string) error {
	return v.withAgent(ctx, func(c *api.Client) error {
		_, err := c.ContinueService(ctx, service, api.ContinueRequest{})
		return err
	})
}

// Rollback implements top.Actions.
func (v *taskView) Rollback(ctx context.Context, service string) error {
	return v.withAgent(ctx, func(c *api.Client) error {
		_, err := c.RollbackService(ctx, service, false)
		return err
	})
}

func (v *taskView) withAgent(ctx context.Context, do func(*api.Client) error) error {
	client, err := v.owners.RequireAgent(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	return do(client)
}

// Shell implements top.Actions. The command is another process, because a goroutine could not stop reading the
// keyboard.
func (v *taskView) Shell(ctx context.Context, id, container string) (*exec.Cmd, error) {
	self, err := v.executable()
	if err != nil {
		return nil, fmt.Errorf("find the program of podtask: %w", err)
	}
	args := append(append(v.settings.FlagArgs(), "exec", "-it", id, container, "--"), command.Shell...)
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env = v.environ()
	return cmd, nil
}

// lastLine is a writer that stores the last line.
type lastLine struct {
	mu   sync.Mutex // guards text
	text string
}

func (l *lastLine) Write(b []byte) (int, error) {
	lines := bytes.Split(bytes.TrimSpace(b), []byte("\n"))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = term.Line(string(lines[len(lines)-1]))
	return len(b), nil
}

// take returns the line and clears it.
func (l *lastLine) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := l.text
	l.text = ""
	return text
}

var (
	_ top.Source  = (*taskView)(nil)
	_ top.Actions = (*taskView)(nil)
)
