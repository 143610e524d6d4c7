package task

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/cli/top"
	"github.com/podtask/podtask/internal/engine/observe"
	"github.com/podtask/podtask/internal/term"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/urfave/cli/v2"
)

func TopCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "top",
		Usage:     "watch tasks on the whole screen",
		ArgsUsage: "[TASK]",
		Description: `Shows the tasks with their health and what they use of their limits; 100 % of cpu are one
CPU, and ! marks memory that is nearly used up. Enter opens a task: its containers, what it
waits for, its timeline, logs and events. The last line of the screen has the keys; stop and
restart ask first.

Examples:
  podtask top
  podtask top web
  NO_COLOR=1 podtask top --interval 5s`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: "show stopped tasks too"},
			&cli.DurationFlag{Name: "interval", Aliases: []string{"i"}, Value: time.Second, Usage: "wait for `TIME` between two looks, at least 100ms"},
		},
		Action: p.WithMachine(showTop),
	}
}

func showTop(ctx context.Context, s *command.Machine, c *cli.Context) error {
	options := top.Options{All: c.Bool("all"), Colors: console.ColorsFor(s.Program.Stdout, s.Program.Getenv), Pace: c.Duration("interval"), Now: time.Now}
	switch {
	case c.Args().Len() > 1:
		return command.Usagef("top", "top takes one TASK, not %d arguments", c.Args().Len())
	case options.Pace < 100*time.Millisecond:
		return command.Usagef("top", "--interval is 100ms or more, not %s", options.Pace)
	case !command.IsTerminal(s.Program.Stdin) || !console.Moves(s.Program.Stdout, s.Program.Getenv):
		return command.Usagef("top", "top needs a terminal for input and output; `podtask ps --watch` and `podtask stats` do not")
	}
	if ref := c.Args().First(); ref != "" {
		st, err := s.Engine.Tasks.Find(ref)
		if err != nil {
			return err
		}
		options.Open = st.ID
	}
	// What would be printed to the screen is shown on its last line.
	said := &lastLine{}
	before := s.Program.Stderr
	s.Program.Stderr = said
	defer func() { s.Program.Stderr = before }()
	options.Warning = said.take
	host := &topHost{Machine: s}
	return top.Run(ctx, host, host, options, top.Terminal{In: s.Program.Stdin, Out: s.Program.Stdout, Environ: s.Program.Environ()})
}

// topHost answers and obeys the view.
type topHost struct {
	*command.Machine
	mu     sync.Mutex // guards before
	before []sampled
}

// Tasks implements top.Source.
func (h *topHost) Tasks(ctx context.Context) ([]top.Task, error) {
	states, errs := h.Engine.Tasks.States()
	for _, err := range errs {
		h.Program.Warn("%v", err)
	}
	slices.Reverse(states)
	h.mu.Lock()
	defer h.mu.Unlock()
	after, err := sampleTasks(ctx, h.Machine, states, false)
	if err != nil { // a host without cgroups v2, for example: the rest can be shown
		h.Program.Warn("what tasks use is not known: %v", err)
	}
	used := map[string]taskStats{}
	for _, l := range compare(h.before, after) {
		used[l.ID] = l
	}
	h.before = after
	var tasks []top.Task
	for _, t := range h.ObservedTasks(ctx, states, time.Now()) {
		item := top.Task{Task: t}
		if l, ok := used[t.ID]; ok {
			item.Use, item.ContainerUse = new(top.Use), map[string]top.Use{}
			*item.Use = topUse(l.use)
			for _, c := range l.Containers {
				item.ContainerUse[c.Name] = topUse(c.use)
			}
		}
		tasks = append(tasks, item)
	}
	return tasks, nil
}

func topUse(u use) top.Use {
	t := top.Use{CPUPercent: u.CPUPercent}
	if u.Memory != nil {
		t.Memory, t.MemoryLimit = u.Memory.Used, u.Memory.Limit
	}
	return t
}

// Explain implements top.Source.
func (h *topHost) Explain(ctx context.Context, id string) (top.Detail, error) {
	t, err := h.InspectTask(ctx, id)
	if err != nil {
		return top.Detail{}, err
	}
	now := time.Now()
	return top.Detail{Task: t, Why: explain(t, now).Sentence, Chart: chartOf(t, now)}, nil
}

// topTail is how many lines of each container the logs begin with.
const topTail = 200

// Follow implements top.Source.
func (h *topHost) Follow(ctx context.Context, id string, fn func(top.Line) error) error {
	st, err := h.Engine.Tasks.Find(id)
	if err != nil {
		return err
	}
	err = h.Engine.Logs.Read(ctx, st, "", observe.LogOptions{Follow: true, Tail: topTail}, func(l observe.LogLine) error {
		return fn(top.Line{Container: l.Container, Text: l.Text})
	})
	return observe.Complete(err)
}

// Stop implements top.Actions.
func (h *topHost) Stop(ctx context.Context, id string) error {
	return h.withTask(id, func(st lifecycle.State, show *console.Progress) error {
		return command.Grace{}.Stop(ctx, h.Connector, st, "podtask top", show)
	})
}

// Restart implements top.Actions.
func (h *topHost) Restart(ctx context.Context, id string) error {
	return h.withTask(id, func(st lifecycle.State, show *console.Progress) error {
		_, err := command.RunAgain(ctx, h.Machine, st, command.Grace{}, show)
		return err
	})
}

func (h *topHost) withTask(id string, do func(lifecycle.State, *console.Progress) error) error {
	st, err := h.Engine.Tasks.Find(id)
	if err != nil {
		return err
	}
	return do(st, console.NewProgress(io.Discard, false, time.Now(), command.LastSeq(st)))
}

// Shell implements top.Actions. It is a process of its own, so that no reader of the keyboard
// remains after it.
func (h *topHost) Shell(ctx context.Context, id, container string) (*exec.Cmd, error) {
	self, err := h.Program.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the program of podtask: %w", err)
	}
	args := append(h.Config.FlagArgs(), "exec", "-it", id, container, "--", "sh", "-c", "command -v bash >/dev/null && exec bash || exec sh")
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env = h.Program.Environ()
	return cmd, nil
}

// lastLine keeps the last line that was written.
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

// take returns the line once.
func (l *lastLine) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := l.text
	l.text = ""
	return text
}

var (
	_ top.Source  = (*topHost)(nil)
	_ top.Actions = (*topHost)(nil)
)
