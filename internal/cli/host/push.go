package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/connect/sshhost"
	"github.com/urfave/cli/v2"
)

// PushCommand is `podtask push`.
func PushCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "push",
		Usage:     "send images of this machine to another host, without a registry",
		ArgsUsage: "IMAGE ...",
		Description: `podman save writes the images here, and podman load stores them there under the same names, so
that a definition with localhost/web:1 runs there too. All layers are sent each time; a registry sends
only what is missing.

Examples:
  podtask --host ssh://box push localhost/web:1`,
		Action: pusher{out: p.Stdout, errOut: p.Stderr, getenv: p.Getenv, find: p.FindOneHost, options: p.HostOptions}.run,
	}
}

// pusher is what `podtask push` uses.
type pusher struct {
	out, errOut io.Writer
	getenv      func(string) string
	find        func(*cli.Context) (command.ChosenHost, error)
	options     func() sshhost.Options
}

func (p pusher) run(c *cli.Context) error {
	images := c.Args().Slice()
	if len(images) == 0 {
		return command.Usagef("push", "no IMAGE to send")
	}
	for _, image := range images {
		if strings.HasPrefix(image, "-") || strings.TrimSpace(image) == "" {
			return command.Usagef("push", "%q is no name of an image", image)
		}
	}
	h, err := p.find(c)
	if err != nil {
		return err
	}
	if !h.Remote() {
		return command.Usagef("push", "push sends images to another host: name it with --host; `podman push` sends them to a registry")
	}
	ctx, stop := signal.NotifyContext(c.Context, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	for _, image := range images { // before anything is sent
		if out, err := p.podman(ctx, "image", "exists", "--", image).CombinedOutput(); err != nil {
			return fmt.Errorf("there is no image %s on this machine: %w %s", image, err, strings.TrimSpace(string(out)))
		}
	}
	link, err := sshhost.Dial(ctx, h.Host, p.options())
	if err != nil {
		if ctx.Err() != nil {
			return command.ExitStatus(command.ExitInterrupted)
		}
		return err
	}
	defer link.Close()
	save := p.podman(ctx, append([]string{"save", "--quiet", "--multi-image-archive", "--"}, images...)...)
	save.Stderr = p.errOut
	archive, err := save.StdoutPipe()
	if err != nil {
		return err
	}
	if err := save.Start(); err != nil {
		return fmt.Errorf("run podman: %w", err)
	}
	code, runErr := link.Run(ctx, sshhost.Request{Args: []string{"image", "load"}},
		sshhost.Streams{In: archive, Out: sshhost.NewScreenWriter(p.out), Err: sshhost.NewScreenWriter(p.errOut)})
	_ = archive.Close() // podman ends if it still writes
	saveErr := save.Wait()
	var ended *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return command.ExitStatus(command.ExitInterrupted)
	case runErr != nil:
		return fmt.Errorf("%w; the images are not there completely: run podtask push again", runErr)
	case code != 0:
		return command.ExitStatus(code) // it has printed the error
	case errors.As(saveErr, &ended):
		return command.ExitStatus(command.ExitOwnFailure) // likewise
	}
	return saveErr
}

// podman returns a command for the Podman of podtask on this machine.
func (p pusher) podman(ctx context.Context, args ...string) *exec.Cmd {
	if url := p.getenv("CONTAINER_HOST"); url != "" {
		args = append([]string{"--url", url}, args...)
	}
	return exec.CommandContext(ctx, "podman", args...)
}
