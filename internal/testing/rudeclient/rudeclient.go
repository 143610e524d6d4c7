package rudeclient

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// Crowd opens n connections of each kind of rude client, which stay open until the end of the
// test. path is one that the server answers. What a server closes is of no interest here.
func Crowd(t testing.TB, n int, path string, dial func() (net.Conn, error)) {
	t.Helper()
	for _, words := range kinds(path) {
		for range n {
			c, err := dial()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
			_, _ = c.Write([]byte(words)) // it may be refused
		}
	}
}

// kinds are what rude clients send before they fall silent.
func kinds(path string) []string {
	garbage := make([]byte, 3000)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range garbage {
		garbage[i] = byte(r.Uint32())
	}
	post := func(headers string) string {
		return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n%s", path, headers)
	}
	return []string{
		"",
		"G",
		"GET " + path + " HTTP/1.1\r\nHost: x\r\nX-Long: ",
		"GET " + path + "?" + strings.Repeat("a", 3000), // a line without an end
		post("Content-Length: 100000\r\n\r\n{"),
		post("Content-Length: -1\r\n\r\n"),
		post("Transfer-Encoding: chunked\r\n\r\nffffff\r\nabc"),
		post("Expect: 100-continue\r\nContent-Length: 10\r\n\r\n"),
		strings.Repeat("GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n", 40), // and reads no answer
		"\x16\x03\x01\x02\x00\x01\x00\x01",                             // the beginning of TLS
		string(garbage),
	}
}

// Serve serves on a new address, with a Crowd for a server of n connections, until the test ends. The client that it
// returns makes a connection for each request.
func Serve(t testing.TB, n int, path string, serve func(ctx context.Context, l net.Listener) error) *http.Client {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := serve(ctx, l); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	dial := func() (net.Conn, error) { return net.Dial("tcp", l.Addr().String()) }
	Crowd(t, n, path, dial)
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) { return dial() },
	}}
}
