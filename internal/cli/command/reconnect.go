package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/connect/sshhost"
	"github.com/podtask/podtask/internal/sleep"
	"github.com/podtask/podtask/internal/term"
)

// Times of new connections after one that broke. A command that has no connection for ReconnectLimit ends.
const (
	ReconnectLimit   = 5 * time.Minute
	reconnectFirst   = time.Second
	reconnectMost    = 15 * time.Second
	reconnectAttempt = time.Minute
)

// Reconnect connects again after an error, which it prints. It tries until ctx ends, the host answers something
// that does not pass by waiting, or ReconnectLimit is over.
func Reconnect(ctx context.Context, p *Program, h sshhost.Host, lost error) (*sshhost.Link, error) {
	p.Warn("%v; connecting again for at most %s", lost, ReconnectLimit)
	ctx, cancel := context.WithTimeoutCause(ctx, ReconnectLimit, errNoConnection)
	defer cancel()
	var said bytes.Buffer
	for wait := reconnectFirst; ; wait = min(2*wait, reconnectMost) {
		if !sleep.For(ctx, wait) {
			if !errors.Is(context.Cause(ctx), errNoConnection) {
				return nil, ExitStatus(ExitInterrupted)
			}
			return nil, fmt.Errorf("%w; %w for %s%s", lost, errNoConnection, ReconnectLimit, lastLine(said.String()))
		}
		said.Reset()
		o := p.HostOptions()
		o.Stderr = &said
		attempt, stop := context.WithTimeoutCause(ctx, reconnectAttempt, fmt.Errorf("no answer within %s", reconnectAttempt))
		link, err := sshhost.Dial(attempt, h, o)
		late := attempt.Err() != nil
		stop()
		switch {
		case err == nil:
			fmt.Fprintln(p.Stderr, OnTerminal(p.Stderr, "", fmt.Sprintf("connected to %s again", h)))
			return link, nil
		case !sshhost.Passing(err) && ctx.Err() == nil && !late:
			return nil, fmt.Errorf("%w; connecting again: %w", lost, err)
		}
	}
}

var errNoConnection = errors.New("there was no new connection")

// lastLine returns the last line of what ssh said, behind a colon.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if last := term.Line(lines[len(lines)-1]); last != "" {
		return ": " + last
	}
	return ""
}
