package ingressbox

import (
	"bufio"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// page asks all the time, by fetch, uploads, a WebSocket and a stream of events, and reports what it got. The browser itself
// opens the stream again; the page opens the WebSocket again.
const page = `<!doctype html><title>page</title><script>
const r = {lost: [], fetch: {}, upload: {}, socket: {}, events: {}, unclean: 0};
const count = (kind, who) => { r[kind][who] = (r[kind][who] || 0) + 1 };
const ask = async (kind, path, options) => {
	try {
		const answer = await fetch(path, {cache: "no-store", ...options});
		if (!answer.ok) throw answer.status;
		count(kind, await answer.text());
	} catch (e) { r.lost.push(kind + " " + e) }
};
setInterval(() => ask("fetch", "/who"), 20);
setInterval(() => ask("upload", "/who", {method: "POST", body: new Uint8Array(200 << 10)}), 200);
setInterval(() => fetch("/report", {method: "POST", body: JSON.stringify(r)}).catch(e => r.lost.push("report " + e)), 100);
const socket = () => {
	const s = new WebSocket("wss://" + location.host + "/socket");
	let timer;
	s.onopen = () => { timer = setInterval(() => s.send("hello"), 50) };
	s.onmessage = m => count("socket", m.data);
	s.onclose = e => { clearInterval(timer); if (!e.wasClean) r.unclean++; socket() };
};
socket();
new EventSource("/events").onmessage = m => count("events", m.data);
</script>`

// gotten is what the page has got so far, by who answered.
type gotten struct {
	Lost                          []string
	Fetch, Upload, Socket, Events map[string]int
	Unclean                       int
}

// webCopy is a copy of the service that ends its WebSockets and streams well when it is to stop.
type webCopy struct {
	name    string
	stop    chan struct{}
	reports *reports
}

// reports are those of the page.
type reports struct {
	mu      sync.Mutex
	last    gotten
	changed chan struct{}
}

func (c webCopy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/":
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, page)
	case "/who":
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, c.name)
	case "/report":
		var now gotten
		if json.NewDecoder(r.Body).Decode(&now) != nil {
			return
		}
		c.reports.mu.Lock()
		c.reports.last = now
		c.reports.mu.Unlock()
		select {
		case c.reports.changed <- struct{}{}:
		default:
		}
	case "/events":
		c.events(w, r)
	case "/socket":
		c.socket(w, r)
	default:
		http.NotFound(w, r)
	}
}

func (c webCopy) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, "retry: 100\n\n")
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-c.stop:
			return
		case <-r.Context().Done():
			return
		}
		fmt.Fprintf(w, "data: %s\n\n", c.name)
		if http.NewResponseController(w).Flush() != nil {
			return
		}
	}
}

// socket answers each short message with the name of the copy (RFC 6455).
func (c webCopy) socket(w http.ResponseWriter, r *http.Request) {
	sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: %s\r\n\r\n", base64.StdEncoding.EncodeToString(sum[:]))
	const text, bye, goingAway = 0x81, 0x88, 1001
	messages := make(chan bool)
	go func() {
		defer close(messages)
		for {
			kind, err := readFrame(rw.Reader)
			if err != nil {
				return
			}
			messages <- kind == bye
		}
	}()
	for stop := c.stop; ; {
		select {
		case ended, open := <-messages:
			if !open || ended {
				go func() {
					for range messages { // until the reader has ended
					}
				}()
				return
			}
			_, _ = conn.Write(append([]byte{text, byte(len(c.name))}, c.name...))
		case <-stop:
			stop = nil
			_, _ = conn.Write(binary.BigEndian.AppendUint16([]byte{bye, 2}, goingAway))
		}
	}
}

// readFrame reads a short frame of a client, and returns its first byte.
func readFrame(r *bufio.Reader) (kind byte, err error) {
	head := make([]byte, 2+4) // and the mask
	if _, err := io.ReadFull(r, head); err != nil {
		return 0, err
	}
	_, err = r.Discard(int(head[1] & 0x7f))
	return head[0], err
}

// await waits until a report is as wanted.
func (r *reports) await(t *testing.T, what string, good func(gotten) bool) gotten {
	t.Helper()
	limit := time.After(2 * time.Minute)
	for {
		r.mu.Lock()
		now := r.last
		r.mu.Unlock()
		if good(now) {
			return now
		}
		select {
		case <-r.changed:
		case <-limit:
			t.Fatalf("never: %s; the page has %+v", what, now)
		}
	}
}

// openBrowser has Chromium show a page until the test ends. Without one on this machine the test is skipped.
func openBrowser(t *testing.T, url string) {
	t.Helper()
	var path string
	for _, name := range []string{os.Getenv("PODTASK_BROWSER"), "chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); name != "" && err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Skip("there is no Chromium here (hack/install.sh browser)")
	}
	args := []string{"--headless", "--disable-gpu", "--no-first-run", "--ignore-certificate-errors", "--remote-debugging-port=0", "--user-data-dir=" + t.TempDir()}
	if os.Geteuid() == 0 {
		args = append(args, "--no-sandbox")
	}
	c := exec.Command(path, append(args, url)...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
		_ = c.Wait()
	})
}

// A browser loses nothing while a canary gets a part of the requests, while all of them move to the next copy, and while another
// process of the proxy takes over. Its WebSocket and its stream stay with their copy until that ends them, and come back.
func TestBrowser(t *testing.T) {
	all := &reports{changed: make(chan struct{}, 1)}
	var copies []webCopy
	var targets []group
	for i, name := range []string{"one", "two"} {
		c := webCopy{name: name, stop: make(chan struct{}), reports: all}
		copies = append(copies, c)
		targets = append(targets, group{fmt.Sprintf("web/%d", i+1), 0, []target{{name, serve(t, c)}}})
	}
	shares := func(one, two int) route {
		r := to("https://app.localhost", "", "")
		r.Groups = nil
		for i, weight := range []int{one, two} {
			if weight > 0 {
				g := targets[i]
				g.Weight = weight
				r.Groups = append(r.Groups, g)
			}
		}
		return r
	}
	p := start(t, shares(1000, 0))
	openBrowser(t, "https://app.localhost"+p.secure[strings.LastIndex(p.secure, ":"):])
	all.await(t, "answers of all kinds", func(r gotten) bool {
		return r.Fetch["one"] > 20 && r.Upload["one"] > 2 && r.Socket["one"] > 5 && r.Events["one"] > 5
	})
	p.route(t, shares(750, 250))
	canary := all.await(t, "answers of the canary", func(r gotten) bool { return r.Fetch["two"] > 20 })
	if canary.Fetch["one"] <= canary.Fetch["two"] {
		t.Errorf("the canary has a quarter of the requests: %+v", canary)
	}
	p.route(t, shares(0, 1000))
	moved := all.await(t, "answers of the next copy only", func(r gotten) bool {
		return r.Fetch["two"] > canary.Fetch["two"]+50 && r.Upload["two"] > canary.Upload["two"]+2
	})
	all.await(t, "streams that stay", func(r gotten) bool {
		return r.Socket["one"] > moved.Socket["one"]+5 && r.Events["one"] > moved.Events["one"]+5
	})
	if moved.Socket["two"]+moved.Events["two"] > 0 {
		t.Errorf("streams have moved, though their copy goes on: %+v", moved)
	}
	close(copies[0].stop)
	back := all.await(t, "streams of the next copy", func(r gotten) bool { return r.Socket["two"] > 5 && r.Events["two"] > 5 })
	if err := syscall.Kill(p.pid, syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if pid := p.current(t); pid != p.pid {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	after := all.await(t, "answers by another process", func(r gotten) bool {
		return r.Fetch["two"] > back.Fetch["two"]+200 && r.Upload["two"] > back.Upload["two"]+5
	})
	if p.current(t) == p.pid {
		t.Error("no other process has taken over")
	}
	if len(after.Lost) > 0 || after.Unclean > 0 {
		t.Errorf("%d WebSockets were cut, and lost were %v", after.Unclean, after.Lost)
	}
	t.Logf("the page has %+v", after)
}
