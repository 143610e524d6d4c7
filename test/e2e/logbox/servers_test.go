package logbox

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/Graylog2/go-gelf/gelf"

	"github.com/podtask/podtask/internal/testing/freeport"
)

// records are what a server got, in order, without times.
type records struct {
	mu      sync.Mutex
	all     []string
	changed chan struct{}
}

func newRecords() *records { return &records{changed: make(chan struct{})} }

func (r *records) add(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, text)
	close(r.changed)
	r.changed = make(chan struct{})
}

// take waits until the last records of n streams are there, and takes all out.
func (r *records) take(t *testing.T, n int) []string {
	t.Helper()
	for {
		r.mu.Lock()
		ended, changed := 0, r.changed
		for _, text := range r.all {
			if strings.Contains(text, last) {
				ended++
			}
		}
		if ended >= n {
			defer r.mu.Unlock()
			all := r.all
			r.all = nil
			return all
		}
		r.mu.Unlock()
		select {
		case <-changed:
		case <-t.Context().Done():
			t.Fatal("never")
		}
	}
}

// object is a JSON object with its members in order.
func object(members map[string]any) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(members)) {
		fmt.Fprintf(&b, "%s=%q ", name, fmt.Sprint(members[name]))
	}
	return b.String()
}

// forwardServer is OpenTelemetry's receiver of the forward protocol, in a process of its own.
func forwardServer(t *testing.T, program string) (address string, got *records) {
	t.Helper()
	address = fmt.Sprintf("127.0.0.1:%d", freeport.For(t))
	cmd := exec.Command(program, address)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); line != "ready\n" {
		t.Fatalf("the receiver says %q, %v", line, err)
	}
	got = newRecords()
	go func() {
		for d := json.NewDecoder(lines); ; {
			var members map[string][]byte
			if d.Decode(&members) != nil {
				return
			}
			all := make(map[string]any)
			for name, value := range members {
				all[name] = string(value)
			}
			got.add(object(all))
		}
	}()
	return address, got
}

// graylog is Graylog's reader of GELF over UDP.
func graylog(t *testing.T) (address string, got *records) {
	t.Helper()
	r, err := gelf.NewReader("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	got = newRecords()
	go func() {
		for {
			m, err := r.ReadMessage()
			if err != nil {
				return
			}
			got.add(fmt.Sprintf("level=%d host=%q short=%q full=%q version=%s facility=%q %s", m.Level, m.Host, m.Short, m.Full, m.Version, m.Facility, object(m.Extra)))
		}
	}()
	return "udp://" + r.Addr(), got
}

// stream is a server of messages over TCP that end with a byte.
func stream(t *testing.T, end byte, text func([]byte) string) (address string, got *records) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	got = newRecords()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				var left []byte
				part := make([]byte, 64<<10)
				for {
					n, err := conn.Read(part)
					left = append(left, part[:n]...)
					for {
						message, rest, whole := bytes.Cut(left, []byte{end})
						if !whole {
							break
						}
						got.add(text(message))
						left = rest
					}
					if err != nil {
						return
					}
				}
			}()
		}
	}()
	return "tcp://" + l.Addr().String(), got
}

// collector is a Splunk HTTP Event Collector.
func collector(t *testing.T) (url string, got *records) {
	t.Helper()
	got = newRecords()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body io.Reader = r.Body
		if r.Header.Get("Content-Encoding") == "gzip" {
			unpacked, err := gzip.NewReader(body)
			if err != nil {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			body = unpacked
		}
		for d := json.NewDecoder(body); ; {
			var event map[string]any
			if err := d.Decode(&event); err != nil {
				return
			}
			delete(event, "time")
			inner, _ := json.Marshal(event["event"])
			event["event"] = string(inner)
			got.add(r.Header.Get("Authorization") + " " + r.URL.Path + " " + object(event))
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, got
}
