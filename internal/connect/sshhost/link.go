package sshhost

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/podtask/podtask/internal/term"
	"github.com/xtaci/smux"
)

// Link is a connection to podtask on another host. It is safe for concurrent use. Close it.
type Link struct {
	Greeting Greeting

	host    Host
	ssh     *process // nil in tests
	conn    *watchedConn
	session *smux.Session
	runs    atomic.Int64
}

// Options configure a connection.
type Options struct {
	Version string    // of this podtask
	Stderr  io.Writer // for messages of ssh
	// Ask: ssh may ask on the terminal for a passphrase or a new host's key. Without it, no answer
	// within two minutes is an error.
	Ask bool
}

const silentLimit = 2 * time.Minute

// Dial connects to a host.
func Dial(ctx context.Context, h Host, o Options) (*Link, error) {
	if !o.Ask {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, silentLimit, fmt.Errorf("%s does not answer within %s", h, silentLimit))
		defer cancel()
	}
	p, err := startSSH(h, o.Ask, remoteCommand, term.NewScreen(o.Stderr))
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = p.cmd.Process.Kill() })
	l, err := newLink(h, p, o)
	switch {
	case !stop():
		if l != nil {
			_ = l.Close()
		}
		_ = p.Close()
		return nil, context.Cause(ctx)
	case err != nil && (errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE)):
		err = p.failure(h)
		fallthrough
	case err != nil:
		_ = p.Close()
		return nil, err
	}
	l.ssh = p
	return l, nil
}

// newLink reads the greeting of a Server and opens a session with it.
func newLink(h Host, conn io.ReadWriteCloser, o Options) (*Link, error) {
	r := bufio.NewReader(conn)
	g, noise, err := readGreeting(r)
	if errors.Is(err, errNoise) {
		return nil, fmt.Errorf("%s does not answer as podtask does: %w; it begins with %q", h, err, term.Line(noise[:min(len(noise), 80)]))
	}
	if err != nil {
		return nil, err
	}
	if err := checkSkew(h, o.Version, g.Version, g.Protocol); err != nil {
		return nil, err
	}
	watched := &watchedConn{Reader: r, WriteCloser: conn}
	session, err := smux.Client(watched, muxConfig(clientTimeout))
	if err != nil {
		return nil, err
	}
	go func() { // ends with the session
		for {
			stream, err := session.AcceptStream()
			if err != nil {
				_ = session.Close() // the connection is gone
				return
			}
			_ = stream.Close() // a server opens none
		}
	}()
	return &Link{Greeting: g, host: h, conn: watched, session: session}, nil
}

// watchedConn is a connection that knows whether it failed before it was closed here.
type watchedConn struct {
	io.Reader
	io.WriteCloser
	closed, failed atomic.Bool
}

// Read implements io.Reader.
func (c *watchedConn) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.note(err)
	return n, err
}

// Write implements io.Writer.
func (c *watchedConn) Write(b []byte) (int, error) {
	n, err := c.WriteCloser.Write(b)
	c.note(err)
	return n, err
}

func (c *watchedConn) note(err error) {
	if err != nil && !c.closed.Load() {
		c.failed.Store(true)
	}
}

// Close implements io.Closer.
func (c *watchedConn) Close() error {
	c.closed.Store(true)
	return c.WriteCloser.Close()
}

// Close ends the connection. What runs on the other host is told that its terminal is gone.
func (l *Link) Close() error {
	err := l.session.Close()
	if l.ssh != nil {
		err = l.ssh.Close()
	}
	if errors.Is(err, io.ErrClosedPipe) {
		return nil
	}
	return err
}

// LostError reports that the connection broke.
type LostError struct {
	Host Host
	why  string
}

func (e *LostError) Error() string {
	return fmt.Sprintf("the connection to %s broke: %s", e.Host, e.why)
}

// lost returns the error for a session that has ended.
func (l *Link) lost() error {
	why := fmt.Sprintf("it gave no sign of life for %s", clientTimeout)
	if l.conn.failed.Load() { // else this side has closed it, and ended ssh
		why = "ssh ended"
		if l.ssh != nil && l.ssh.await(closeLimit) {
			why = fmt.Sprintf("ssh ended (%s)", l.ssh.cmd.ProcessState)
		}
	}
	return &LostError{Host: l.host, why: why}
}

// Streams are the ends of a command here.
type Streams struct {
	In       io.Reader // nil: the command has no input
	Out, Err io.Writer
	Files    Files
	// Signals are passed on; SIGWINCH sends the Size instead.
	Signals <-chan os.Signal
	Size    func() Size
	// OutClosed is closed when nobody reads Out any more; nil: that is found by the next write.
	OutClosed <-chan struct{}
}

// Run runs a command on the other host and returns its exit code. A *LostError means that the
// connection broke: nothing is known about how the command ended.
func (l *Link) Run(ctx context.Context, req Request, s Streams) (code int, err error) {
	streams, err := l.openRun()
	if err != nil {
		return 0, l.lost()
	}
	defer func() {
		for _, stream := range streams {
			_ = stream.Close()
		}
	}()
	if err := writeJSON(streams[partRequest], req); err != nil {
		return 0, l.lost()
	}
	done := make(chan struct{}) // ends what waits for nothing else
	defer close(done)
	failed := make(chan error, 6)
	l.feed(streams, s, failed)
	closed := make(chan part, 2)
	s.Signals = l.countSignals(s.Signals, failed, done)
	go passControls(streams[partRequest], s, closed, done)
	answers := l.collect(streams, s, closed, failed)
	select {
	case e := <-answers:
		if e.Error != "" {
			return 0, errors.New(term.Line(e.Error))
		}
		return e.Exit & 0xff, nil
	case err := <-failed:
		return 0, err
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// feed sends the files and the input of a command.
func (l *Link) feed(streams map[part]*smux.Stream, s Streams, failed chan<- error) {
	go func() {
		if err := s.Files.Pack(streams[partFiles]); err != nil && !l.session.IsClosed() {
			failed <- fmt.Errorf("send files to %s: %w", l.host, err)
			return
		}
		_ = streams[partFiles].CloseWrite()
	}()
	go func() { // ends with the input, or with the process
		if s.In != nil {
			_, _ = io.Copy(streams[partInput], s.In)
		}
		_ = streams[partInput].CloseWrite()
	}()
}

// collect copies the outputs of a command and returns how it ended, when all output is written. An output
// that is closed here is closed there.
func (l *Link) collect(streams map[part]*smux.Stream, s Streams, closed chan<- part, failed chan<- error) <-chan ending {
	var outputs sync.WaitGroup
	for p, w := range map[part]io.Writer{partOutput: s.Out, partErrors: s.Err} {
		outputs.Go(func() {
			err := copyOutput(w, streams[p])
			switch {
			case errors.Is(err, syscall.EPIPE):
				closed <- p
				_, _ = io.Copy(io.Discard, streams[p])
			case err != nil:
				failed <- err
			}
		})
	}
	answers := make(chan ending, 1)
	go func() {
		var e ending
		if err := readJSON(bufio.NewReader(streams[partRequest]), &e); err != nil {
			_ = l.session.Close()
			outputs.Wait() // what came before
			failed <- l.lost()
			return
		}
		outputs.Wait()
		answers <- e
	}()
	return answers
}

// openRun opens the streams of a command.
func (l *Link) openRun() (map[part]*smux.Stream, error) {
	run := int(l.runs.Add(1))
	streams := make(map[part]*smux.Stream)
	for _, p := range runParts {
		stream, err := l.session.OpenStream()
		if err != nil {
			return nil, err
		}
		streams[p] = stream
		if err := writeJSON(stream, opening{Run: run, Part: p}); err != nil {
			return nil, err
		}
	}
	return streams, nil
}

// copyOutput returns an error of w only.
func copyOutput(w io.Writer, r io.Reader) error {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return fmt.Errorf("write the output: %w", err)
			}
		}
		if err != nil {
			return nil //nolint:nilerr // the end of the session is found elsewhere
		}
	}
}

// lastSignal is the number of signals that ask a command to end after which it ends here: the second one kills the containers of a run,
// and a host that hangs, or is hostile, does nothing at all.
const lastSignal = 3

// countSignals returns the signals to pass on until done is closed, and fails after the last one. Nothing of the host holds it up.
func (l *Link) countSignals(signals <-chan os.Signal, failed chan<- error, done <-chan struct{}) <-chan os.Signal {
	passed := make(chan os.Signal, 16)
	go func() {
		for n := 0; n < lastSignal; {
			select {
			case sig := <-signals:
				if slices.Contains([]os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}, sig) {
					n++
				}
				select {
				case passed <- sig:
				default: // the host reads none
				}
			case <-done:
				return
			}
		}
		failed <- &LostError{Host: l.host, why: fmt.Sprintf("the command there did not end at %d signals", lastSignal)}
	}()
	return passed
}

// passControls passes signals on until done is closed.
func passControls(w io.Writer, s Streams, closed <-chan part, done <-chan struct{}) {
	for {
		select {
		case sig := <-s.Signals:
			number, _ := sig.(syscall.Signal)
			c := control{Signal: int(number)}
			if number == syscall.SIGWINCH {
				size := s.Size()
				c = control{Size: &size}
			}
			if err := writeJSON(w, c); err != nil {
				return
			}
		case <-s.OutClosed:
			s.OutClosed = nil
			if err := writeJSON(w, control{Closed: partOutput}); err != nil {
				return
			}
		case p := <-closed:
			if err := writeJSON(w, control{Closed: p}); err != nil {
				return
			}
		case <-done:
			return
		}
	}
}

// DialLoopback connects to an address, IP:PORT, of the other host's loopback.
func (l *Link) DialLoopback(address string) (*Conn, error) {
	stream, err := l.session.OpenStream()
	if err != nil {
		return nil, l.lost()
	}
	var e ending
	r := bufio.NewReader(stream)
	err = cmp.Or(writeJSON(stream, opening{Dial: address}), readJSON(r, &e))
	if err == nil && e.Error != "" {
		err = errors.New(term.Line(e.Error))
	}
	if err != nil {
		_ = stream.Close()
		return nil, err
	}
	return &Conn{Reader: r, stream: stream}, nil
}

// Lost is closed when the connection has ended.
func (l *Link) Lost() <-chan struct{} { return l.session.CloseChan() }

// LostError returns why the connection has ended.
func (l *Link) LostError() error { return l.lost() }

// Conn is a connection to a port of the other host.
type Conn struct {
	io.Reader
	stream *smux.Stream
}

// Write implements io.Writer.
func (c *Conn) Write(p []byte) (int, error) { return c.stream.Write(p) }

// CloseWrite ends the direction to the other host.
func (c *Conn) CloseWrite() error { return c.stream.CloseWrite() }

// Close ends the connection.
func (c *Conn) Close() error { return c.stream.Close() }
