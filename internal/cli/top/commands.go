package top

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	tea "charm.land/bubbletea/v2"
)

// commands makes the commands: what runs beside the model and answers with a message.
type commands struct {
	ctx     context.Context
	source  Source
	actions Actions
	options Options
}

// sampleMsg is an answer of Source.Tasks.
type sampleMsg struct {
	at      time.Time
	tasks   []Task
	err     error
	warning string
	// again: the next sample follows after a while.
	again bool
}

// detailMsg is an answer of Source.Explain.
type detailMsg struct {
	id     string
	detail Detail
	err    error
}

// actionMsg is the end of an action.
type actionMsg struct {
	text string
	err  error
}

// logMsg are lines that have come in; more says of which stream.
type logMsg struct {
	more  <-chan Line
	lines []Line
	ended bool
}

type tickMsg struct{}

func (w commands) sample(again bool) tea.Cmd {
	return func() tea.Msg {
		tasks, err := w.source.Tasks(w.ctx)
		s := sampleMsg{at: w.options.Now(), tasks: tasks, err: err, again: again}
		if w.options.Warning != nil {
			s.warning = w.options.Warning()
		}
		return s
	}
}

func (w commands) wait() tea.Cmd {
	return tea.Tick(w.options.Pace, func(time.Time) tea.Msg { return tickMsg{} })
}

func (w commands) explain(id string) tea.Cmd {
	return func() tea.Msg {
		d, err := w.source.Explain(w.ctx, id)
		return detailMsg{id, d, err}
	}
}

func (w commands) act(what, id string, do func(context.Context, string) error) tea.Cmd {
	return func() tea.Msg { return actionMsg{what + ": done", do(w.ctx, id)} }
}

// Exit codes of podtask exec that do not come from the shell.
const (
	failedItself = 125
	noShell      = 127
)

func (w commands) enter(id, container string) tea.Cmd {
	cmd, err := w.actions.Shell(w.ctx, id, container)
	if err != nil {
		return func() tea.Msg { return actionMsg{err: err} }
	}
	return tea.ExecProcess(cmd, func(err error) tea.Msg {
		var ended *exec.ExitError
		switch {
		case errors.As(err, &ended) && ended.ExitCode() == noShell:
			err = fmt.Errorf("the image of container %s has no shell", container)
		case errors.As(err, &ended) && ended.ExitCode() != failedItself:
			err = nil // that of the last command in it
		}
		return actionMsg{"the shell in " + container + " has ended", err}
	})
}

// follow opens the logs of a task; the command fills the stream until it is canceled.
func (w commands) follow(id string) (stream, tea.Cmd) {
	ctx, cancel := context.WithCancel(w.ctx)
	lines := make(chan Line, 256)
	return stream{more: lines, cancel: cancel}, func() tea.Msg {
		defer close(lines)
		err := w.source.Follow(ctx, id, func(l Line) error {
			select {
			case lines <- l:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		if err != nil && ctx.Err() == nil {
			return actionMsg{err: err}
		}
		return nil
	}
}

// next waits for lines and takes all that are there.
func next(more <-chan Line) tea.Cmd {
	return func() tea.Msg {
		msg := logMsg{more: more}
		l, ok := <-more
		for ok {
			msg.lines = append(msg.lines, l)
			if len(msg.lines) == maxLogLines {
				return msg
			}
			select {
			case l, ok = <-more:
			default:
				return msg
			}
		}
		msg.ended = true
		return msg
	}
}
