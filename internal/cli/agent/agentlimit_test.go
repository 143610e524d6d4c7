package agent

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/aws/awsapi"
	"github.com/podtask/podtask/internal/aws/sigv4"
	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/testing/rudeclient"
	"github.com/podtask/podtask/pkg/api/connlimit"
)

func TestIdleConnectionsDoNotUseUpADoor(t *testing.T) {
	t.Parallel()
	const most = 32
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := command.TCPServer{What: "nothing", Listener: l, Connections: most, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer connlimit.Serving(r.Context())()
		http.NotFound(w, r)
	})}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := d.Serve(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	var flood []net.Conn
	for range 5 * most {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		flood = append(flood, c)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	resp, err := client.Get("http://" + l.Addr().String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	for i, c := range flood[:4*most] {
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
			t.Fatalf("connection %d is still open: %v", i, err)
		}
	}
}

// rudely serves a server to a crowd of rude clients.
func rudely(t *testing.T, d command.TCPServer, path string) *http.Client {
	t.Helper()
	var err error
	if d.Listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	address := d.Listener.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := d.Serve(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	dial := func() (net.Conn, error) { return net.Dial("tcp", address) }
	rudeclient.Crowd(t, d.Connections, path, dial)
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) { return dial() },
	}}
}

func TestRudeClientsOfTheMetrics(t *testing.T) {
	t.Parallel()
	client := rudely(t, metricsServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, 100_000))
	})), "/metrics")
	for range 5 {
		resp, err := client.Get("http://x/metrics")
		if err != nil {
			t.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, resp.Body); err != nil || n != 100_000 || resp.StatusCode != http.StatusOK {
			t.Errorf("status %s, %d bytes, %v", resp.Status, n, err)
		}
		_ = resp.Body.Close()
	}
}

func TestRudeClientsOfTheECSAPI(t *testing.T) {
	t.Parallel()
	server := awsapi.New(awsapi.Config{Log: slog.New(slog.DiscardHandler), Now: time.Now, Key: func() (sigv4.Key, error) { return sigv4.Key{ID: "AKIA", Secret: "x"}, nil }})
	client := rudely(t, signedServer(server.Signed()), "/")
	for range 5 {
		resp, err := client.Post("http://x/", "application/x-amz-json-1.1", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(body), "MissingAuthenticationToken") {
			t.Errorf("status %s, %s, %v", resp.Status, body, err)
		}
		_ = resp.Body.Close()
	}
}
