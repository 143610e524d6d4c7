package instance

import (
	"context"
	"errors"
	"io"
	"net/url"
	"time"

	"github.com/podtask/podtask/internal/aws/instance/awscall"
	"github.com/podtask/podtask/internal/aws/instance/wire"
	"github.com/podtask/podtask/internal/ecsstatus"
	"github.com/podtask/podtask/internal/sleep"
)

// link is one of the two web sockets of an instance. It is opened again for as long as the instance
// runs.
type link struct {
	node *node
	name string
	// address returns that of the next connection.
	address func(context.Context) (string, error)
	// opened makes the handler of a connection.
	opened  func(address string) handler
	backoff Backoff
	// farewell: a close frame goes before the end of a link that was silent.
	farewell bool
	report   func(*ecsstatus.Status) *ecsstatus.Link
}

// handler handles a connection. Its methods are called one at a time; an error ends the connection.
type handler interface {
	// begin is called when the connection is open, frame with each message.
	begin(ctx context.Context, c awscall.Conn) error
	frame(ctx context.Context, c awscall.Conn, f wire.Frame) error
	// due returns a channel on which something is to be sent; nil for none.
	due() <-chan time.Time
	send(ctx context.Context, c awscall.Conn) error
	end()
}

// Ends of connections that are the instance's own.
var (
	errExpired  = errors.New("ConnectionExpired: Reconnect to continue")
	errSilent   = errors.New("no message for too long")
	errInactive = errors.New("the instance is not active: it was deregistered")
)

// steady is the time that a connection must have lasted for its failures to be forgotten, and hasty what
// it must have lasted to be opened again without a pause.
const (
	steady = time.Minute
	hasty  = time.Second
)

// run keeps the link open until ctx ends.
func (l *link) run(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; {
		begun := time.Now()
		err := l.once(ctx)
		if ctx.Err() != nil {
			return
		}
		lasted := time.Since(begun)
		inactive := errors.Is(err, errInactive)
		l.node.status.set(func(s *ecsstatus.Status) {
			at := l.report(s)
			at.Connected, at.Since, at.Problem = false, time.Now(), err.Error()
			if l.name == "ACS" {
				s.Inactive = inactive
			}
		})
		if lasted >= steady {
			failures = 0
		}
		pause := time.Duration(0)
		switch {
		case inactive && l.name == "ACS":
			l.node.Log.Error("ECS says that this instance was deregistered: run `podtask ecs leave`, then join again; tasks continue", "instance", l.node.arn())
			pause, failures = l.node.Pace.Inactive, 0
		case atOnce(err) && lasted >= hasty:
			failures = 0
		default:
			failures++
			pause = l.backoff.pause(failures)
		}
		l.node.Log.Info("a link to ECS has ended", "link", l.name, "reason", err.Error(), "again", pause.Round(time.Millisecond).String())
		if !sleep.For(ctx, pause) {
			return
		}
	}
}

// atOnce reports whether a link that ended in this way is opened again without a pause.
func atOnce(err error) bool {
	if closed, ok := errors.AsType[*awscall.CloseError](err); ok {
		return closed.Expected()
	}
	return errors.Is(err, io.EOF) || errors.Is(err, errExpired)
}

// once opens the link and uses it until it ends. The error is never nil.
func (l *link) once(ctx context.Context) error {
	address, err := l.address(ctx)
	if err != nil {
		return err
	}
	c, err := l.node.Calls.Dial(ctx, address)
	if refused, ok := errors.AsType[*awscall.HandshakeError](err); ok && refused.Type == wire.TypeInactiveInstance {
		return errInactive
	}
	if err != nil {
		return err
	}
	l.node.status.set(func(s *ecsstatus.Status) {
		at := l.report(s)
		at.Connected, at.Since, at.Problem = true, time.Now(), ""
		at.Connections++
		if l.name == "ACS" {
			s.Inactive = false
		}
	})
	l.node.Log.Info("a link to ECS is open", "link", l.name)
	return l.serve(ctx, c, address)
}

// incoming are the frames of a connection, until one cannot be read.
type incoming struct {
	frames chan []byte // closed at the end: what came before it is followed
	failed chan error
	done   chan struct{}
}

// receive reads frames until the connection ends or ctx does.
func receive(ctx context.Context, c awscall.Conn) *incoming {
	// Acks are read while a message is written, so that neither side waits for the other.
	in := &incoming{make(chan []byte, 64), make(chan error, 1), make(chan struct{})}
	go func() {
		defer close(in.done)
		defer close(in.frames)
		for {
			text, err := c.Read()
			if err != nil {
				in.failed <- err
				return
			}
			select {
			case in.frames <- text:
			case <-ctx.Done():
				in.failed <- ctx.Err()
				return
			}
		}
	}()
	return in
}

func (l *link) serve(ctx context.Context, c awscall.Conn, address string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h := l.opened(address)
	defer h.end()
	in := receive(ctx, c)
	reason := ""
	defer func() {
		cancel()
		c.Close(reason)
		<-in.done
	}()
	if err := h.begin(ctx, c); err != nil {
		return err
	}
	p := l.node.Pace
	life := time.NewTimer(p.Life + upTo(p.LifeJitter))
	defer life.Stop()
	limit := p.Idle + upTo(p.IdleJitter)
	idle := time.NewTimer(limit)
	defer idle.Stop()
	for {
		select {
		case text, open := <-in.frames:
			if !open {
				return <-in.failed
			}
			idle.Reset(limit)
			f, err := wire.Decode(text)
			if err != nil {
				l.node.Log.Warn("ECS sent what cannot be read", "link", l.name, "error", err)
				continue
			}
			if err := h.frame(ctx, c, f); err != nil {
				return err
			}
		case <-h.due():
			if err := h.send(ctx, c); err != nil {
				return err
			}
		case <-life.C:
			reason = errExpired.Error()
			return errExpired
		case <-idle.C:
			if l.farewell {
				reason = errSilent.Error()
			}
			return errSilent
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// join adds a path and a query to an endpoint.
func join(endpoint string, query url.Values) (string, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return "", err
	}
	u = u.JoinPath("ws")
	u.RawQuery = query.Encode()
	return u.String(), nil
}
