package top

import (
	"context"
	"io"

	tea "charm.land/bubbletea/v2"
	"github.com/podtask/podtask/internal/term"
)

// Terminal is the terminal of the view.
type Terminal struct {
	In  io.Reader
	Out io.Writer
	// Environ has TERM and other variables that describe the terminal.
	Environ []string
}

// Run shows the view on a terminal until the user quits or ctx ends.
func Run(ctx context.Context, source Source, actions Actions, options Options, on Terminal) error {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	p := tea.NewProgram(New(inner, source, actions, options),
		tea.WithInput(on.In), tea.WithOutput(term.Unwrap(on.Out)), tea.WithoutSignalHandler(), tea.WithEnvironment(on.Environ))
	// Not tea.WithContext, which closes the input while it is still read.
	defer context.AfterFunc(ctx, p.Quit)()
	if _, err := p.Run(); err != nil {
		return err
	}
	return context.Cause(ctx)
}
