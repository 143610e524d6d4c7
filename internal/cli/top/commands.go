package top

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/pkg/api"
)

// commands has the commands of the model: calls that run concurrently and result in a message.
type commands struct {
	ctx     context.Context
	source  Source
	actions Actions
	options Options
}

// sampleMsg is the result of Source.Tasks and Source.Services.
type sampleMsg struct {
	at       time.Time
	tasks    []Task
	services []api.Service
	err      error
	beside   console.Beside
	// unseen is the reason for which services are not known, besideUnseen that for schedules and stacks.
	unseen, besideUnseen error

	warning string
	hosts   []HostState
	// again: the next sample is taken after Options.Pace.
	again bool
}

// detailMsg is the result of Source.Explain.
type detailMsg struct {
	id     string
	detail Detail
	err    error
}

// actionMsg is the result of an action.
type actionMsg struct {
	text string
	err  error
}

// logMsg has new log lines; more identifies their stream.
type logMsg struct {
	more  <-chan Line
	lines []Line
	ended bool
}

// tickMsg is sent when the next sample is due.
type tickMsg struct{}

// servicesTimeout limits the time that a sample waits for the agent, which may hang, while the tasks are there.
const servicesTimeout = 2 * time.Second

func (w commands) sample(again bool) tea.Cmd {
	return func() tea.Msg {
		tasks, err := w.source.Tasks(w.ctx)
		ctx, cancel := context.WithTimeout(w.ctx, servicesTimeout)
		services, unseen := w.source.Services(ctx)
		beside, besideUnseen := w.source.Beside(ctx)
		cancel()
		s := sampleMsg{at: w.options.Now(), tasks: tasks, services: services, err: err, unseen: unseen, beside: beside, besideUnseen: besideUnseen, again: again}
		if h, ok := w.source.(Hosts); ok {
			s.hosts = h.Hosts()
		}
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
	execFailed = 125
	noShell    = 127
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
		case errors.As(err, &ended) && ended.ExitCode() != execFailed:
			err = nil // the exit code of the last command in the shell
		}
		return actionMsg{"the shell in " + container + " has ended", err}
	})
}

// follow opens the logs of a task. The command sends lines to the stream until that is canceled.
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

// next waits for log lines and returns all that are available.
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
