//go:build e2e && (bed_plain || bed_systemd)

//e2e:bed systemd

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// steadyHTTP asks an address at a rate, whether or not the answers before have come, as long as those of fewer than
// two seconds are missing, or a slow machine would never come to its end: by HTTP/2 and HTTP/1.1, one of twenty
// requests on a connection of its own.
type steadyHTTP struct {
	t       *testing.T
	stop    chan struct{}
	all     sync.WaitGroup
	mu      sync.Mutex
	answers map[string]int
	lost    []error
	slowest time.Duration
}

func startHTTP(t *testing.T, u ingressProxy, b *box, url string, perSecond int) *steadyHTTP {
	s := &steadyHTTP{t: t, stop: make(chan struct{}), answers: map[string]int{}}
	two, one, fresh := u.client(b), u.client(b), u.client(b)
	for _, c := range []*http.Client{one, fresh} {
		c.Transport.(*http.Transport).ForceAttemptHTTP2 = false
		c.Transport.(*http.Transport).TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	}
	one.Transport.(*http.Transport).MaxIdleConnsPerHost = 256
	fresh.Transport.(*http.Transport).DisableKeepAlives = true
	begin, every := time.Now(), time.Second/time.Duration(perSecond)
	missing := make(chan struct{}, 2*perSecond)
	s.all.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for n := 0; ; {
			select {
			case <-s.stop:
				return
			case <-tick.C:
			}
			for ; n < int(time.Since(begin)/every); n++ {
				c := two
				if n%20 == 0 {
					c = fresh
				} else if n%2 == 0 {
					c = one
				}
				select {
				case missing <- struct{}{}:
					s.all.Go(func() { s.ask(c, url); <-missing })
				default:
				}
			}
		}
	})
	return s
}

func (s *steadyHTTP) ask(c *http.Client, url string) {
	asked := time.Now()
	text, err := askURL(c, url)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slowest = max(s.slowest, time.Since(asked))
	if err != nil {
		s.lost = append(s.lost, err)
		return
	}
	s.answers[text]++
}

// none ends the load, checks that no request was lost, and returns the answers.
func (s *steadyHTTP) none(what string) map[string]int {
	s.t.Helper()
	close(s.stop)
	s.all.Wait()
	s.t.Logf("%s: answers %v, the slowest after %v", what, s.answers, s.slowest.Round(time.Millisecond))
	if n := len(s.lost); n > 0 {
		s.t.Errorf("%s: %d requests were lost, the first: %v", what, n, s.lost[0])
	}
	return s.answers
}

// sessions are clients of one protocol, each of which comes back as soon as it has ended.
type sessions struct {
	t    *testing.T
	stop chan struct{}
	all  sync.WaitGroup
	mu   sync.Mutex
	// ended are those that ended well, and lost those that did not, by protocol.
	ended map[string]int
	lost  map[string][]error
}

func startSessions(t *testing.T, kinds map[string]func() error) *sessions {
	s := &sessions{t: t, stop: make(chan struct{}), ended: map[string]int{}, lost: map[string][]error{}}
	for name, session := range kinds {
		for range 4 {
			s.all.Go(func() {
				for {
					select {
					case <-s.stop:
						return
					default:
					}
					err := session()
					s.mu.Lock()
					if err != nil {
						s.lost[name] = append(s.lost[name], err)
					} else {
						s.ended[name]++
					}
					s.mu.Unlock()
				}
			})
		}
	}
	return s
}

// none ends the sessions, and checks that each kind had some and lost none.
func (s *sessions) none(kinds ...string) {
	s.t.Helper()
	close(s.stop)
	s.all.Wait()
	s.t.Logf("sessions: %v", s.ended)
	for _, name := range kinds {
		if s.ended[name] == 0 {
			s.t.Errorf("no session of %s ended well", name)
		}
		if lost := s.lost[name]; len(lost) > 0 {
			s.t.Errorf("%d sessions of %s were lost, the first: %v", len(lost), name, lost[0])
		}
	}
}

// dialSocket opens a WebSocket through the proxy.
func (u ingressProxy) dialSocket(b *box, host string) (*websocket.Conn, error) {
	transport := u.client(b).Transport.(*http.Transport)
	d := websocket.Dialer{NetDialContext: transport.DialContext, TLSClientConfig: transport.TLSClientConfig.Clone(), HandshakeTimeout: patience}
	c, r, err := d.Dial("wss://"+host+"/socket", nil)
	if r != nil && err != nil {
		return nil, fmt.Errorf("status %s: %w", r.Status, err)
	}
	return c, err
}

// askSocket sends a message, and returns who answered it.
func askSocket(c *websocket.Conn, text string) (string, error) {
	if err := errors.Join(c.SetWriteDeadline(time.Now().Add(patience)), c.SetReadDeadline(time.Now().Add(patience))); err != nil {
		return "", err
	}
	if err := c.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
		return "", err
	}
	_, answer, err := c.ReadMessage()
	who, what, _ := strings.Cut(string(answer), " ")
	if err == nil && what != text {
		err = fmt.Errorf("the answer to %q is %q", text, answer)
	}
	return who, err
}

// socketSession is a WebSocket that sends a message each tenth of a second for a second or so, and closes.
func (u ingressProxy) socketSession(b *box, host string) error {
	c, err := u.dialSocket(b, host)
	if err != nil {
		return err
	}
	defer c.Close()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for n := range 10 {
		if _, err := askSocket(c, fmt.Sprint(n)); err != nil {
			return fmt.Errorf("message %d: %w", n, err)
		}
		<-tick.C
	}
	return c.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Now().Add(patience))
}

// events is a stream of server-sent events.
type events struct {
	body io.ReadCloser
	line *bufio.Scanner
	last int
}

func openEvents(c *http.Client, url string) (*events, error) {
	r, err := c.Get(url + "/events")
	if err != nil {
		return nil, err
	}
	if r.StatusCode != http.StatusOK {
		r.Body.Close()
		return nil, fmt.Errorf("status %s", r.Status)
	}
	return &events{body: r.Body, line: bufio.NewScanner(r.Body)}, nil
}

// next returns who has sent the next event. None may be missing.
func (e *events) next() (who string, err error) {
	for e.line.Scan() {
		text, is := strings.CutPrefix(e.line.Text(), "data: ")
		if !is {
			continue
		}
		n := 0
		if _, err := fmt.Sscan(text, &who, &n); err != nil || n != e.last+1 {
			return "", fmt.Errorf("after event %d comes %q", e.last, text)
		}
		e.last = n
		return who, nil
	}
	if err := e.line.Err(); err != nil {
		return "", err
	}
	return "", io.EOF
}

// eventSession reads some events, and leaves.
func eventSession(c *http.Client, url string) error {
	e, err := openEvents(c, url)
	if err != nil {
		return err
	}
	defer e.body.Close()
	for range 10 {
		if _, err := e.next(); err != nil {
			return fmt.Errorf("after event %d: %w", e.last, err)
		}
	}
	return nil
}

// pieces is a body that comes slowly.
type pieces struct {
	left  int
	piece []byte
}

func (p *pieces) Read(to []byte) (int, error) {
	if p.left == 0 {
		return 0, io.EOF
	}
	p.left--
	<-time.After(50 * time.Millisecond) // the client is slow
	return copy(to, p.piece), nil
}

// upload sends a body that takes a second, and wants all of it to arrive.
func upload(c *http.Client, url string) error {
	body := &pieces{left: 20, piece: bytes.Repeat([]byte("x"), 4<<10)}
	r, err := c.Post(url+"/env/GREETING", "application/octet-stream", body)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK || !strings.HasSuffix(strings.TrimSpace(string(text)), fmt.Sprint(" ", 20*4<<10)) {
		return fmt.Errorf("status %s, %v: %s", r.Status, err, text)
	}
	return nil
}

// callGRPC asks the health service of gRPC for a file that each healthy copy has.
func callGRPC(c *http.Client, url string) error {
	const file = "/tmp/well"
	message := append([]byte{0, 0, 0, 0, byte(len(file) + 2), 1<<3 | 2, byte(len(file))}, file...)
	r, err := http.NewRequest(http.MethodPost, url+"/grpc.health.v1.Health/Check", bytes.NewReader(message))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/grpc")
	r.Header.Set("TE", "trailers")
	answer, err := c.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	const serving = 1
	if err != nil || answer.ProtoMajor != 2 || answer.Trailer.Get("Grpc-Status") != "0" || len(body) == 0 || body[len(body)-1] != serving {
		return fmt.Errorf("%s, status %s, %v: %q, trailer %v", answer.Proto, answer.Status, err, body, answer.Trailer)
	}
	return nil
}

// callsGRPC makes calls for a second.
func callsGRPC(c *http.Client, url string) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for range 20 {
		if err := callGRPC(c, url); err != nil {
			return err
		}
		<-tick.C
	}
	return nil
}

// clientsThroughChanges has clients of all protocols talk to a service while it is updated, shifted as a canary, rolled back and
// scaled. No request may be lost; what lasts longer than that lives until the time to drain is over.
func clientsThroughChanges(t *testing.T, perSecond int) {
	b := newBox(t)
	b.agent()
	const url, calls = "https://app.localhost", "https://grpc.localhost"
	b.want(0, "service", "create", b.family, b.define(served("one")), "--count=3", "--ingress="+url+"=app:8080", "--ingress="+calls+"=app:8080,protocol=h2c", "--drain=20s", "--wait", "--timeout=4m")
	proxy := b.ingressProxy()
	c := proxy.client(b)
	eventually(t, "an answer", func() bool { text, err := askURL(c, url); return err == nil && text == "one" })

	load := startHTTP(t, proxy, b, url, perSecond)
	many := proxy.client(b)
	kinds := map[string]func() error{
		"WebSocket": func() error { return proxy.socketSession(b, "app.localhost") },
		"events":    func() error { return eventSession(many, url) },
		"uploads":   func() error { return upload(many, url) },
		"gRPC":      func() error { return callsGRPC(many, calls) },
	}
	all := startSessions(t, kinds)
	b.want(0, "service", "update", b.family, b.define(served("two")), "--wait", "--timeout=4m")
	b.want(0, "service", "update", b.family, b.define(served("three")), "--strategy=canary", "--canary-percent=25", "--canary-bake=3s", "--wait", "--timeout=4m")
	b.want(0, "service", "rollback", b.family, "--wait", "--timeout=4m")
	b.want(0, "service", "scale", b.family, "1", "--wait", "--timeout=4m")
	b.want(0, "service", "scale", b.family, "3", "--wait", "--timeout=4m")
	answers := load.none("update, canary, rollback and scale")
	for _, who := range []string{"one", "two", "three"} {
		if answers[who] == 0 {
			t.Errorf("no copy of revision %s answered: %v", who, answers)
		}
	}
	all.none(slices.Collect(maps.Keys(kinds))...)
	b.removeService()
}

// Clients of all protocols lose nothing while a service changes.
func TestIngressClientsThroughChanges(t *testing.T) { clientsThroughChanges(t, 100) }

// A WebSocket and a stream of events that are open when their copy is to stop go on for the time to drain. Those that end before
// end well. Those that do not are ended with the copy, and clients that come back reach another one.
func TestIngressStreamsOfACopyThatStops(t *testing.T) {
	b := newBox(t)
	b.agent()
	const url = "https://app.localhost"
	b.want(0, "service", "create", b.family, b.define(served("one")), "--count=1", "--ingress="+url+"=app:8080", "--drain=10m", "--wait", "--timeout=4m")
	proxy := b.ingressProxy()
	c := proxy.client(b)
	c.Timeout = 0 // streams last
	eventually(t, "an answer", func() bool { text, err := askURL(c, url); return err == nil && text == "one" })
	old := proxy.client(b) // HTTP/1.1
	old.Timeout = 0
	old.Transport.(*http.Transport).ForceAttemptHTTP2 = false
	old.Transport.(*http.Transport).TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	open := func(who string) (*websocket.Conn, []*events) {
		t.Helper()
		socket, err := proxy.dialSocket(b, "app.localhost")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { socket.Close() })
		streams := []*events{}
		for _, c := range []*http.Client{c, old} {
			e, err := openEvents(c, url)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { e.body.Close() })
			streams = append(streams, e)
		}
		alive(t, who, socket, streams)
		return socket, streams
	}

	socket, streams := open("one")
	update := b.start("service", "update", b.family, b.define(served("two")), "--wait", "--timeout=4m")
	eventually(t, "an answer of the next revision", func() bool { text, err := askURL(c, url); return err == nil && text == "two" })
	alive(t, "one", socket, streams) // its copy is to stop, and waits
	if err := socket.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Now().Add(patience)); err != nil {
		t.Error(err)
	}
	if _, _, err := socket.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseNormalClosure) {
		t.Errorf("the copy answers a close with %v", err)
	}
	for _, e := range streams {
		e.body.Close()
	}
	update.want(0) // long before 10 minutes

	b.want(0, "service", "update", b.family, "--drain=1s", "--wait", "--timeout=4m")
	socket, streams = open("two")
	b.want(0, "service", "update", b.family, b.define(served("three")), "--wait", "--timeout=4m")
	// What nobody ended has ended with the copy: the connection, or the stream of HTTP/2.
	if err := socket.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	_, _, err := socket.ReadMessage()
	if broken, is := errors.AsType[net.Error](err); err == nil || is && broken.Timeout() {
		t.Errorf("the WebSocket of a copy that has stopped: %v", err)
	}
	for _, e := range streams {
		for err = nil; err == nil; {
			var who string
			if who, err = e.next(); err == nil && who != "two" {
				t.Errorf("another copy, %s, goes on with a stream", who)
			}
		}
		if errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		t.Logf("a stream ends after %d events: %v", e.last, err)
	}
	open("three")
	b.removeService()
}

// alive wants answers and events of a copy on connections that are open.
func alive(t *testing.T, who string, socket *websocket.Conn, streams []*events) {
	t.Helper()
	if got, err := askSocket(socket, "hello"); got != who || err != nil {
		t.Fatalf("%q answers on the WebSocket, %v, want %s", got, err, who)
	}
	for _, e := range streams {
		for range 5 {
			if got, err := e.next(); got != who || err != nil {
				t.Fatalf("%q sends events, %v, want %s", got, err, who)
			}
		}
	}
}
