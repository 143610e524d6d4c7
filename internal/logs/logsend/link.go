package logsend

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/podtask/podtask/internal/logs/logroute"
	"github.com/podtask/podtask/pkg/taskdef/logdriver"
)

// callLimit bounds the delivery of one batch.
const callLimit = 30 * time.Second

// Link is a connection to a server, made when it is needed. One goroutine at a time may use it.
type Link struct {
	// Dial connects.
	Dial func(context.Context) (net.Conn, error)
	// Silent: the server says nothing. Then its end of the connection is noticed.
	Silent bool
	// Limit bounds one use; 0: 30 seconds.
	Limit time.Duration

	conn net.Conn
	gone chan struct{} // closed once a silent server has closed the connection
}

// Use calls fn with the connection, which ends with ctx, and closes it after an error.
func (l *Link) Use(ctx context.Context, fn func(net.Conn) error) error {
	limit := l.Limit
	if limit == 0 {
		limit = callLimit
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if l.closed() {
		_ = l.drop()
	}
	if l.conn == nil {
		conn, err := l.Dial(ctx)
		if err != nil {
			return failure(err)
		}
		l.conn = conn
		l.watch()
	}
	conn := l.conn
	end, _ := ctx.Deadline()
	_ = conn.SetWriteDeadline(end)
	if !l.Silent {
		_ = conn.SetReadDeadline(end)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	err := fn(conn)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = l.drop()
		return failure(err)
	}
	return nil
}

// watch notices when a silent server closes the connection.
func (l *Link) watch() {
	if !l.Silent {
		return
	}
	gone, conn := make(chan struct{}), l.conn
	l.gone = gone
	go func() {
		defer close(gone)
		_, _ = io.Copy(io.Discard, conn)
	}()
}

// AwaitEnd waits until a silent server has closed the connection.
func (l *Link) AwaitEnd() {
	if l.gone != nil {
		<-l.gone
	}
}

func (l *Link) closed() bool {
	select {
	case <-l.gone:
		return l.conn != nil
	default:
		return false
	}
}

// farewell bounds the time in which a silent server reads to the end.
const farewell = 3 * time.Second

// Close closes the connection. A silent server with TLS is told before, and closes it first: what it
// has not read would be lost with the tickets of sessions that it still sends.
func (l *Link) Close() error {
	if secured, ok := l.conn.(*tls.Conn); ok && l.Silent && !l.closed() && secured.CloseWrite() == nil {
		late := time.NewTimer(farewell)
		defer late.Stop()
		select {
		case <-l.gone:
		case <-late.C:
		}
	}
	return l.drop()
}

// drop closes the connection at once.
func (l *Link) drop() error {
	if l.conn == nil {
		return nil
	}
	err := l.conn.Close()
	if l.gone != nil {
		<-l.gone
	}
	l.conn, l.gone = nil, nil
	return err
}

// failure is an error of the network, which goes away by itself.
func failure(err error) error {
	if known, ok := errors.AsType[*logroute.SendError](err); ok {
		return known
	}
	return &logroute.SendError{Text: err.Error()}
}

// Dialer returns a function that connects to an address: tcp, tls, udp, unix or unixgram.
func Dialer(a logdriver.Address, secured logdriver.TLS) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		if a.Network != "tls" {
			return (&net.Dialer{}).DialContext(ctx, a.Network, a.Host)
		}
		config, err := TLSConfig(secured)
		if err != nil {
			return nil, err
		}
		return (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", a.Host)
	}
}

// TLSConfig reads the files of options.
func TLSConfig(o logdriver.TLS) (*tls.Config, error) {
	c := &tls.Config{InsecureSkipVerify: o.Insecure, ServerName: o.Name, MinVersion: tls.VersionTLS12} //nolint:gosec // only if the definition says so
	if o.CA != "" {
		pem, err := os.ReadFile(o.CA)
		if err != nil {
			return nil, err
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s has no certificate", o.CA)
		}
	}
	if o.Cert != "" {
		pair, err := tls.LoadX509KeyPair(o.Cert, o.Key)
		if err != nil {
			return nil, err
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
