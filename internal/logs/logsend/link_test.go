package logsend

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// watched is a connection that notes its end.
type watched struct {
	net.Conn
	closed atomic.Bool
}

func (w *watched) Close() error {
	w.closed.Store(true)
	return w.Conn.Close()
}

// A silent server with TLS reads to the end before the connection is closed. One that does not close
// it delays the sender only for a short time.
func TestAServerWithTLSMayReadToTheEnd(t *testing.T) {
	t.Parallel()
	web := httptest.NewUnstartedServer(nil)
	web.StartTLS()
	pair := web.TLS.Certificates[0]
	web.Close()
	for name, ends := range map[string]bool{"it closes": true, "it does not": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				there, here := net.Pipe()
				outer := &watched{Conn: here}
				l := Link{Silent: true, Dial: func(ctx context.Context) (net.Conn, error) {
					conn := tls.Client(outer, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // a test
					return conn, conn.HandshakeContext(ctx)
				}}
				done := make(chan struct{})
				go func() {
					defer close(done)
					server := tls.Server(there, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13})
					text, err := io.ReadAll(server)
					if err != nil || string(text) != "line\n" {
						t.Errorf("the server has %q, %v", text, err)
					}
					synctest.Wait()
					if outer.closed.Load() {
						t.Error("the connection was closed before the server has done so")
					}
					if ends {
						there.Close()
					}
				}()
				if err := l.Use(t.Context(), func(conn net.Conn) error { _, err := io.WriteString(conn, "line\n"); return err }); err != nil {
					t.Fatal(err)
				}
				begin := time.Now()
				_ = l.Close() // the other end may be closed
				if took := time.Since(begin); !ends && took != farewell || ends && took != 0 {
					t.Errorf("it took %s", took)
				}
				<-done
				there.Close()
				if !outer.closed.Load() {
					t.Error("the connection was not closed")
				}
			})
		})
	}
}
