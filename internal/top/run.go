package top

import (
	"context"
	"errors"
	"io"

	tea "charm.land/bubbletea/v2"
)

// Terminal is where the view is shown.
type Terminal struct {
	In  io.Reader
	Out io.Writer
	// Environ says what kind it is.
	Environ []string
}

// Run shows the view on a terminal until the user quits or ctx ends.
func Run(ctx context.Context, source Source, actions Actions, options Options, on Terminal) error {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	p := tea.NewProgram(New(inner, source, actions, options),
		tea.WithContext(ctx), tea.WithInput(on.In), tea.WithOutput(on.Out), tea.WithoutSignalHandler(), tea.WithEnvironment(on.Environ))
	_, err := p.Run()
	if errors.Is(err, tea.ErrProgramKilled) && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
