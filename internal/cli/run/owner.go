package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/engine/owner"
	"github.com/podtask/podtask/internal/engine/record"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/urfave/cli/v2"
)

func OwnerCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:        "owner",
		Usage:       "own a task until it has stopped; `run -d` starts this",
		ArgsUsage:   "ID",
		Description: "SIGTERM and SIGINT end the owner and release the task; the containers keep running.",
		Hidden:      true,
		Flags:       []cli.Flag{&cli.StringFlag{Name: "log-file", Usage: "write to `FILE` instead of stderr"}},
		Action:      p.WithMachine(own),
	}
}

func own(ctx context.Context, s *command.Machine, c *cli.Context) error {
	if c.Args().Len() != 1 {
		return command.Usagef("owner", "owner takes one ID")
	}
	if name := c.String("log-file"); name != "" {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			return fmt.Errorf("open the owner's log: %w", err)
		}
		s.Program.Stderr = f // to the end of the program: report still writes to it
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	id := c.Args().First()
	o, err := s.Engine.Owners.Receive(ctx, id, s.Connector.OfferSocket(id))
	if errors.Is(err, owner.ErrNotOffered) { // such as after a crash, when systemd starts it again
		o, err = s.Engine.Owners.Own(id)
	}
	if errors.Is(err, state.ErrLocked) {
		return nil // an agent that has just started was faster
	}
	var gone *record.NotFoundError
	if errors.As(err, &gone) {
		return nil // removed before this process started; a failure would start it again
	}
	if err != nil {
		return err
	}
	defer o.Close()
	l, err := api.Listen(s.Connector.Socket(id))
	if err != nil {
		return err
	}
	if err := s.Connector.Drive(ctx, o, l); err != nil && ctx.Err() == nil {
		return fmt.Errorf("task %s is left as it is: %w", lifecycle.ShortID(id), err)
	}
	if o.State().Goal == lifecycle.Gone || isEmpty(s.Connector.OwnerLog(id)) {
		return s.Connector.RemoveOwnerLog(id)
	}
	return nil
}

func isEmpty(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Size() == 0
}
