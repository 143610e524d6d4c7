package ecsexec

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/podtask/podtask/internal/aws/datachannel"
)

// typedMost is the number of messages of input that wait for a program that does not read, and
// typedSpare how many more than one of them a message of a client may bring.
const (
	typedMost  = 256
	typedSpare = 80
)

// running is a program that was started.
type running struct {
	typed  chan []byte
	sizes  chan datachannel.Size // the newest one
	hangUp chan struct{}         // closed: the program is to end

	told     bool // hangUp is closed
	finished bool // it has ended
}

func newRunning() *running {
	return &running{typed: make(chan []byte, typedMost), sizes: make(chan datachannel.Size, 1), hangUp: make(chan struct{})}
}

// room reports whether there is room for what a message may bring.
func (r *running) room() bool { return cap(r.typed)-len(r.typed) > typedSpare }

// write has the program read what was typed. The caller has seen that there is room.
func (r *running) write(b []byte) {
	select {
	case r.typed <- b:
	default:
	}
}

// resize gives the terminal another size.
func (r *running) resize(size datachannel.Size) {
	select {
	case <-r.sizes: // an older one
	default:
	}
	r.sizes <- size
}

// errEnded: the session has ended before its program.
var errEnded = errors.New("the session has ended")

// run starts the program and returns when it has ended and the session knows.
func (r *running) run(s *session, size datachannel.Size) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	go func() {
		select {
		case <-s.done:
			cancel(errEnded)
		case <-ctx.Done():
		}
	}()
	code, err := r.attend(ctx, s, size)
	s.do(func() { s.ended(code, err) })
}

// attend starts the program, serves it, and returns its exit code.
func (r *running) attend(ctx context.Context, s *session, size datachannel.Size) (code int, err error) {
	serving, served := context.WithCancel(ctx)
	defer served()
	p, err := s.cfg.Start(serving, s.target, size)
	if err != nil {
		return 0, err
	}
	s.cfg.Log.Info("the program of a session runs", "session", s.id, "task", s.target.Task)
	var wg sync.WaitGroup
	wg.Go(func() { r.feed(serving, p) })
	wg.Go(func() { r.size(serving, p) })
	wg.Go(func() { r.end(serving, s, p) })
	if f, ok := p.(Forwarder); ok {
		wg.Go(func() { r.failures(serving, s, f) })
	}
	defer wg.Wait()
	defer served()
	if err = p.CopyOutput(printer{s}); err == nil {
		code, err = p.Wait(ctx)
	}
	if err != nil { // nothing more can be read from it
		_ = p.End(context.WithoutCancel(ctx))
	}
	return code, err
}

// feed gives the program what is typed.
func (r *running) feed(ctx context.Context, p Program) {
	for {
		select {
		case b := <-r.typed:
			if _, err := p.Write(b); err != nil {
				return // it has ended, or no longer reads
			}
		case <-ctx.Done():
			return
		}
	}
}

// size gives the terminal its sizes.
func (r *running) size(ctx context.Context, p Program) {
	for {
		select {
		case size := <-r.sizes:
			_ = p.Resize(ctx, size) // it may have ended
		case <-ctx.Done():
			return
		}
	}
}

// failures hands on which connections of a forwarded port failed.
func (r *running) failures(ctx context.Context, s *session, f Forwarder) {
	for {
		select {
		case err := <-f.Failed():
			s.do(func() { s.notConnected(err) })
		case <-ctx.Done():
			return
		}
	}
}

// end ends the program when it is told to, or when the session has ended without it.
func (r *running) end(ctx context.Context, s *session, p Program) {
	select {
	case <-r.hangUp:
	case <-s.done:
	case <-ctx.Done():
		if !errors.Is(context.Cause(ctx), errEnded) {
			return
		}
	}
	if err := p.End(context.WithoutCancel(ctx)); err != nil {
		s.cfg.Log.Warn("the program of a session is not ended", "session", s.id, "task", s.target.Task, "error", err)
	}
}

// printer hands what a program prints to its session.
type printer struct{ *session }

// Write implements io.Writer. It waits while the client is slow.
func (w printer) Write(b []byte) (int, error) {
	for piece := range slices.Chunk(b, datachannel.MaxOutput) {
		select {
		case w.output <- slices.Clone(piece):
		case <-w.done:
			return 0, errEnded
		}
	}
	return len(b), nil
}
