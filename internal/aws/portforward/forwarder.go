package portforward

import (
	"context"
	"io"
	"net"
	"sync"

	"github.com/xtaci/smux"
)

// MaxConnections is the number of connections of one client that there may be at the same time.
const MaxConnections = 64

// Forwarder connects each stream of a client with a port. It is safe for concurrent use.
type Forwarder struct {
	dial   func(context.Context) (net.Conn, error)
	client net.Conn // what the client sends and receives
	mux    *smux.Session
	failed chan error
	ctx    context.Context //nolint:containedctx // the lifetime of its connections
	stop   context.CancelFunc
	wg     sync.WaitGroup
}

// New returns a forwarder that connects with dial until ctx or the forwarder ends.
func New(ctx context.Context, dial func(context.Context) (net.Conn, error)) (*Forwarder, error) {
	config := smux.DefaultConfig()
	config.KeepAliveDisabled = true // as the plugin's: the connection below has pings of its own
	client, server := net.Pipe()
	mux, err := smux.Server(server, config)
	if err != nil {
		return nil, err
	}
	f := &Forwarder{dial: dial, client: client, mux: mux, failed: make(chan error, MaxConnections)}
	f.ctx, f.stop = context.WithCancel(ctx)
	f.wg.Go(f.accept)
	context.AfterFunc(f.ctx, f.close)
	return f, nil
}

// Write takes what the client has sent.
func (f *Forwarder) Write(b []byte) (int, error) { return f.client.Write(b) }

// CopyOutput copies what is for the client until the forwarder has ended.
func (f *Forwarder) CopyOutput(w io.Writer) error {
	defer f.wg.Wait()
	defer f.stop()
	_, err := io.Copy(w, f.client)
	if f.ctx.Err() != nil {
		return nil // the pipe was closed at the end
	}
	return err
}

// Failed has the errors of connections that could not be made. Errors that are not read are dropped
// beyond MaxConnections.
func (f *Forwarder) Failed() <-chan error { return f.failed }

// End ends the forwarder and its connections.
func (f *Forwarder) End(context.Context) error {
	f.stop()
	return nil
}

func (f *Forwarder) close() {
	_ = f.mux.Close()
	_ = f.client.Close()
}

// accept serves the streams that the client opens.
func (f *Forwarder) accept() {
	defer f.stop()
	places := make(chan struct{}, MaxConnections)
	for {
		stream, err := f.mux.AcceptStream()
		if err != nil {
			return // the client has sent what is no smux, or the forwarder has ended
		}
		select {
		case places <- struct{}{}:
			f.wg.Go(func() {
				defer func() { <-places }()
				f.serve(stream)
			})
		default:
			_ = stream.Close()
		}
	}
}

// serve connects a stream with the port until one of them ends. The plugin closes a stream in both
// directions.
func (f *Forwarder) serve(stream *smux.Stream) {
	defer stream.Close()
	conn, err := f.dial(f.ctx)
	if err != nil {
		select {
		case f.failed <- err:
		default:
		}
		return
	}
	defer conn.Close()
	defer context.AfterFunc(f.ctx, func() { _ = conn.Close() })()
	f.wg.Go(func() {
		_, _ = io.Copy(conn, stream)
		_ = conn.Close()
	})
	_, _ = io.Copy(stream, conn)
}
