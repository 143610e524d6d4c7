package ingressbox

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// caddyFile has Caddy do what the proxy does: TLS with an authority of its own, and a line in a log for each request.
const caddyFile = `{
	admin off
	skip_install_trust
	auto_https disable_redirects
	grace_period 1s
}
https://app.test:%d {
	bind 127.0.0.1
	tls internal
	log {
		output file %s
	}
	reverse_proxy %s
}
`

// startCaddy starts Caddy in front of an address.
func startCaddy(t testing.TB, copyAt string) proxy {
	t.Helper()
	path, err := exec.LookPath("caddy")
	if err != nil {
		t.Skip("Caddy is not installed")
	}
	dir := t.TempDir()
	port := freePort(t)
	file := filepath.Join(dir, "Caddyfile")
	if err := os.WriteFile(file, fmt.Appendf(nil, caddyFile, port, filepath.Join(dir, "access.log"), copyAt), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_DATA_HOME", dir)
	t.Setenv("XDG_CONFIG_HOME", dir)
	p := proxy{secure: fmt.Sprintf("127.0.0.1:%d", port)}
	p.pid = run(t, "serving initial configuration", path, "run", "--config", file, "--adapter", "caddyfile")
	return p
}

// client sends the requests for app.test to a proxy, over HTTP/1.1 or HTTP/2.
func client(p proxy, http2 bool) *http.Client {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!http2)
	protocols.SetHTTP2(http2)
	return &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		TLSClientConfig: anyCertificate("app.test"), Protocols: protocols, MaxIdleConnsPerHost: 64, DisableCompression: true,
		Dial: func(network, _ string) (net.Conn, error) { return net.Dial(network, p.secure) }, //nolint:staticcheck // no context is needed
	}}
}

// ask makes a request.
func ask(c *http.Client) error {
	r, err := c.Get("https://app.test/")
	if err != nil {
		return err
	}
	defer r.Body.Close()
	n, err := io.Copy(io.Discard, r.Body)
	if err == nil && (r.StatusCode != http.StatusOK || n != 1024) {
		err = fmt.Errorf("%s with %d bytes", r.Status, n)
	}
	return err
}

// flood has workers ask one request after the other, and returns how many were answered in a second, and the processor
// time that the proxy took for each, in microseconds.
func flood(t testing.TB, pid int, c *http.Client, workers int, length time.Duration) (perSecond, each float64) {
	t.Helper()
	var asked atomic.Int64
	var all sync.WaitGroup
	before, begin := processorTime(t, pid), time.Now()
	for range workers {
		all.Go(func() {
			for time.Since(begin) < length {
				if err := ask(c); err != nil {
					t.Error(err)
					return
				}
				asked.Add(1)
			}
		})
	}
	all.Wait()
	n := float64(asked.Load())
	return n / time.Since(begin).Seconds(), (processorTime(t, pid) - before).Seconds() * 1e6 / n
}

// processorTime is what a process has used, in steps of 10 ms.
func processorTime(t testing.TB, pid int) time.Duration {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	fields := strings.Fields(rest) // from the third one of proc_pid_stat(5) on
	var ticks int
	for _, text := range fields[11:13] { // utime, stime
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// pace asks at a rate, however long the answers take, and returns the median and the 99th percentile of the times from
// when a request was due to the end of its answer.
func pace(t testing.TB, c *http.Client, perSecond int, length time.Duration) (median, slow time.Duration) {
	t.Helper()
	var mu sync.Mutex
	var took []time.Duration
	var all sync.WaitGroup
	begin := time.Now()
	for n := range int(length.Seconds() * float64(perSecond)) {
		due := begin.Add(time.Second * time.Duration(n) / time.Duration(perSecond))
		<-time.After(time.Until(due)) // the rate is what is measured
		all.Go(func() {
			if err := ask(c); err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, time.Since(due))
		})
	}
	all.Wait()
	slices.Sort(took)
	if len(took) == 0 {
		t.Fatal("no request was answered")
	}
	return took[len(took)/2], took[len(took)*99/100]
}

// memory is the resident memory of a process, in kB.
func memory(t testing.TB, pid int) int {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.Atoi(strings.Fields(value)[0])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("the memory is not known")
	return 0
}

// webSockets opens idle WebSockets.
func webSockets(t testing.TB, p proxy, n int) {
	t.Helper()
	for range n {
		c, err := tls.Dial("tcp", p.secure, anyCertificate("app.test"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		fmt.Fprint(c, "GET /socket HTTP/1.1\r\nHost: app.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
		r, err := http.ReadResponse(bufio.NewReaderSize(c, 512), nil)
		if err != nil || r.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("%v, %v", r, err)
		}
	}
}

// helloOrSocket answers with a kilobyte, and opens WebSockets that say nothing.
func helloOrSocket(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/socket" {
		hello(w, r)
		return
	}
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	// The answer to the key of RFC 6455, 1.3.
	_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n")
	_, _ = io.Copy(io.Discard, c)
	_ = c.Close()
}

// TestBesideCaddy prints what the proxy and Caddy do in one run, in turns. It measures only with BENCH=1, on a
// machine that does nothing else; without, it shows that the measurements work.
func TestBesideCaddy(t *testing.T) {
	rounds, length, sockets := 1, 200*time.Millisecond, 20
	if os.Getenv("BENCH") == "1" {
		rounds, length, sockets = 5, 4*time.Second, 1000
	}
	copyAt := serve(t, http.HandlerFunc(helloOrSocket))
	both := []proxy{start(t, to("https://app.test", copyAt, "")), startCaddy(t, copyAt)}
	row := func(what, unit string, ours, theirs []float64) {
		var ratios []float64
		for i := range ours {
			ratios = append(ratios, ours[i]/theirs[i])
		}
		t.Logf("Row: | %s | %.4g / %.4g %s | %.2f (%.2f to %.2f) | %d |", what, middle(ours), middle(theirs), unit, middle(ratios), slices.Min(ratios), slices.Max(ratios), len(ratios))
	}
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		var perSecond, processor, median, slow [2][]float64
		clients := []*http.Client{client(both[0], http2), client(both[1], http2)}
		for i, c := range clients { // certificates are made, and caches filled
			flood(t, both[i].pid, c, 4, length/4)
		}
		for range rounds {
			for i, c := range clients {
				n, each := flood(t, both[i].pid, c, 32, length)
				perSecond[i], processor[i] = append(perSecond[i], n), append(processor[i], each)
			}
			for i, c := range clients {
				half, most := pace(t, c, 500, length)
				median[i], slow[i] = append(median[i], half.Seconds()*1000), append(slow[i], most.Seconds()*1000)
			}
		}
		row(name+", requests in a second, 32 at a time", "", perSecond[0], perSecond[1])
		row(name+", processor time of a request", "µs", processor[0], processor[1])
		row(name+", 500 requests in a second, median time", "ms", median[0], median[1])
		row(name+", 500 requests in a second, 99th percentile", "ms", slow[0], slow[1])
	}

	// Fresh processes, because memory that was used is given back late.
	both = []proxy{start(t, to("https://app.test", copyAt, "")), startCaddy(t, copyAt)}
	var all [2][]float64
	for i, p := range both {
		webSockets(t, p, 5)
		before := memory(t, p.pid)
		webSockets(t, p, sockets)
		after := memory(t, p.pid)
		all[i] = []float64{float64(after) / 1024}
		t.Logf("%s: %d kB before, %d kB with %d idle WebSockets: %.1f kB each", []string{"podtask-ingress", "Caddy"}[i], before, after, sockets, float64(after-before)/float64(sockets))
	}
	row(fmt.Sprintf("memory with %d idle WebSockets", sockets), "MB", all[0], all[1])
}

// middle is the median.
func middle(all []float64) float64 {
	all = slices.Sorted(slices.Values(all))
	return all[len(all)/2]
}
