package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"syscall"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/engine/run/owner"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/urfave/cli/v2"
)

// OwnerCommand is the owner of a task in the background.
func OwnerCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:        "owner",
		Usage:       "own a task until it has stopped; `run -d` starts this",
		ArgsUsage:   "ID",
		Description: "SIGTERM and SIGINT end the owner and release the task; the containers keep running.",
		Hidden:      true,
		Flags:       []cli.Flag{&cli.StringFlag{Name: "log-file", Usage: "write to `FILE` instead of stderr"}},
		Action:      command.WithMachine(p, newOwner),
	}
}

type ownerOptions struct {
	redirect  func(stderr io.Writer) (restore func())
	owners    *owner.Owners
	connector *connect.Connector
}

func newOwner(m *command.Machine) ownerOptions {
	return ownerOptions{redirect: m.Program.RedirectStderr, owners: m.Engine.Owners, connector: m.Connector}
}

// Run implements command.Runner.
func (o ownerOptions) Run(ctx context.Context, c *cli.Context) error {
	if c.Args().Len() != 1 {
		return command.Usagef("owner", "owner takes one ID")
	}
	if name := c.String("log-file"); name != "" {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			return fmt.Errorf("open the owner's log: %w", err)
		}
		o.redirect(f) // until the process ends: the error of this command goes there too
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	id := c.Args().First()
	task, err := o.owners.Receive(ctx, id, o.connector.OfferSocket(id))
	if errors.Is(err, owner.ErrNotOffered) { // such as after a crash, when systemd starts it again
		task, err = o.owners.Own(id)
	}
	if errors.Is(err, state.ErrLocked) {
		return nil // an agent that has just started owns it
	}
	if _, ok := errors.AsType[*record.NotFoundError](err); ok { // not created, or removed before this process started; a failure would start it again
		if isEmpty(o.connector.OwnerLog(id)) {
			return o.connector.RemoveOwnerLog(id)
		}
		return nil
	}
	if err != nil {
		return err
	}
	defer task.Close()
	// Whoever offered it may have been killed since.
	if err := os.Remove(o.connector.OfferSocket(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	l, err := api.Listen(o.connector.Socket(id))
	if err != nil {
		return err
	}
	if err := o.connector.Drive(ctx, task, l); err != nil && ctx.Err() == nil {
		return fmt.Errorf("podtask no longer manages task %s, whose containers keep running: %w", lifecycle.ShortID(id), err)
	}
	if task.State().Goal == lifecycle.Gone || isEmpty(o.connector.OwnerLog(id)) {
		return o.connector.RemoveOwnerLog(id)
	}
	return nil
}

func isEmpty(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Size() == 0
}
