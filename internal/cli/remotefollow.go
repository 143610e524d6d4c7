package cli

import (
	"context"
	"errors"
	"slices"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/connect/sshhost"
)

// followsLogs reports whether a command continues with what is new.
func followsLogs(r *remoteCall) bool {
	return slices.Contains(r.values("follow"), "true") && !slices.Contains(r.values("routes"), "true")
}

func followsEvents(r *remoteCall) bool { return !slices.Contains(r.values("stream"), "false") }

// follow runs a command that follows something, and continues it after a broken connection where its output ended.
func (r *remoteCall) follow(ctx context.Context) error {
	r.positions = new(command.Positions)
	line := r.line
	for {
		r.line = line
		r.line.local = append(slices.Clone(line.local), lineFlag{command.PositionsFlag, "true"})
		for _, p := range r.positions.List() {
			r.line.local = append(r.line.local, lineFlag{command.ResumeFlag, p})
		}
		code, err := r.onHost(ctx)
		var lost *sshhost.LostError
		if !errors.As(err, &lost) || ctx.Err() != nil {
			return r.finish(code, err)
		}
		if err := r.reconnect(ctx, lost); err != nil {
			return err
		}
	}
}

// reconnect replaces the connection.
func (r *remoteCall) reconnect(ctx context.Context, lost error) error {
	_ = r.link.Close()
	link, err := command.Reconnect(ctx, r.p, r.host, lost)
	if err != nil {
		return err
	}
	r.link = link
	return nil
}
