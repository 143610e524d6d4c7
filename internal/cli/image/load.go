package image

import (
	"errors"
	"fmt"
	"os/exec"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/urfave/cli/v2"
)

// imageLoadCommand is what `podtask push` runs on the other host.
func imageLoadCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:        "load",
		Usage:       "store the images of an archive on stdin, as podman load does",
		Description: "Examples:\n  podman save localhost/web:1 | podtask image load",
		Hidden:      true,
		Action: func(c *cli.Context) error {
			if err := command.NoArguments(c); err != nil {
				return err
			}
			var args []string
			if url := p.Getenv("CONTAINER_HOST"); url != "" {
				args = append(args, "--url", url)
			}
			cmd := exec.CommandContext(c.Context, "podman", append(args, "load", "--quiet")...)
			cmd.Stdin, cmd.Stdout, cmd.Stderr = p.Stdin, p.Stdout, p.Stderr
			err := cmd.Run()
			var ended *exec.ExitError
			switch {
			case errors.As(err, &ended):
				return command.ExitStatus(command.ExitOwnFailure) // Podman has printed the error
			case err != nil:
				return fmt.Errorf("run podman: %w", err)
			}
			return nil
		},
	}
}
