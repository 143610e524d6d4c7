package agent

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

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

func TestRudeClientsOfTheMetrics(t *testing.T) {
	t.Parallel()
	client := rudeclient.Serve(t, 32, "/metrics", func(ctx context.Context, l net.Listener) error {
		s := metricsServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(make([]byte, 100_000))
		}))
		s.Listener = l
		return s.Serve(ctx)
	})
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

// TestAPageOfAnotherSiteReadsNoMetrics: a site whose name resolves to the loopback address gets nothing; scrapers do.
func TestAPageOfAnotherSiteReadsNoMetrics(t *testing.T) {
	t.Parallel()
	s := metricsServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "podtask_up 1") }))
	for host, want := range map[string]int{
		"evil.example": 421, "evil.example:9464": 421, "127.0.0.1.evil.example": 421, "localhost.evil.example:9464": 421, "EVIL.example.": 421, "xn--localhost.example": 421,
		"internal.evil.example": 421, "127.0.0.1.nip.io:9464": 421,
		"127.0.0.1:9464": 200, "[::1]:9464": 200, "[::1]": 200, "localhost:9464": 200, "LOCALHOST": 200, "x.localhost:1": 200, "box:9464": 200, "host.containers.internal:9464": 200, "": 200,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody)
		r.Host = host
		w := httptest.NewRecorder()
		s.Handler.ServeHTTP(w, r)
		if w.Code != want || strings.Contains(w.Body.String(), "podtask_up") != (want == 200) {
			t.Errorf("%q: %d %s", host, w.Code, w.Body)
		}
		if len(w.Header().Values("Access-Control-Allow-Origin")) > 0 {
			t.Errorf("%q: other sites may read it", host)
		}
	}
}
