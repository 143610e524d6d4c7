package ecsexec_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
	"github.com/podtask/podtask/internal/aws/datachannel"
	"github.com/podtask/podtask/internal/aws/ecsexec"
)

// shell is a program: it prints what is typed, line by line, until "exit" or its end.
type shell struct {
	mu    sync.Mutex
	typed bytes.Buffer
	sizes []datachannel.Size
	ended int // how often it was told to
	// stubborn does not end when told to.
	stubborn bool

	lines  chan string
	hungUp chan struct{}
	closed chan struct{}
	once   sync.Once
}

func newShell() *shell {
	return &shell{lines: make(chan string), hungUp: make(chan struct{}), closed: make(chan struct{})}
}

func (p *shell) Write(b []byte) (int, error) {
	p.mu.Lock()
	p.typed.Write(b)
	p.mu.Unlock()
	select {
	case p.lines <- string(b):
		return len(b), nil
	case <-p.closed:
		return 0, io.ErrClosedPipe
	case <-p.hungUp:
		return 0, io.ErrClosedPipe
	}
}

func (p *shell) CopyOutput(w io.Writer) error {
	for {
		select {
		case line := <-p.lines:
			if line == "exit" {
				return nil
			}
			if n, flood := strings.CutPrefix(line, "flood "); flood {
				var size int
				_, _ = fmt.Sscan(n, &size)
				line = strings.Repeat("x", size)
			}
			if _, err := io.WriteString(w, line); err != nil {
				return err
			}
		case <-p.hungUp:
			return nil
		case <-p.closed:
			return errors.New("closed")
		}
	}
}

func (p *shell) Resize(_ context.Context, size datachannel.Size) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sizes = append(p.sizes, size)
	return nil
}

func (p *shell) Wait(context.Context) (int, error) { return 3, nil }

func (p *shell) End(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended++
	if !p.stubborn {
		p.once.Do(func() { close(p.hungUp) })
	}
	return nil
}

func (p *shell) look() (typed string, sizes []datachannel.Size, ended int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.typed.String(), append([]datachannel.Size{}, p.sizes...), p.ended
}

// pipes is a listener of connections in memory.
type pipes struct {
	accepted chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

func (l *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.accepted:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipes) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *pipes) Addr() net.Addr { return &net.UnixAddr{} }

// bench is sessions behind an HTTP server, in the bubble of a test.
type bench struct {
	*testing.T
	sessions *ecsexec.Sessions
	listener *pipes
	shell    *shell
	program  ecsexec.Program // what is started, if it is not the shell
	refuse   error           // of the start
	started  chan ecsexec.Target
	size     datachannel.Size // of the start
}

// inBubble runs a test with a clock of its own. All sessions have to end.
func inBubble(t *testing.T, test func(b *bench)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, shell: newShell(), listener: &pipes{accepted: make(chan net.Conn), closed: make(chan struct{})}, started: make(chan ecsexec.Target, 1)}
		b.sessions = ecsexec.New(ecsexec.Config{Log: slog.New(slog.DiscardHandler), Start: func(ctx context.Context, target ecsexec.Target, size datachannel.Size) (ecsexec.Program, error) {
			if b.refuse != nil {
				return nil, b.refuse
			}
			b.size = size
			context.AfterFunc(ctx, func() { close(b.shell.closed) })
			b.started <- target
			if b.program != nil {
				return b.program, nil
			}
			return b.shell, nil
		}})
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			b.sessions.Serve(w, r, strings.TrimPrefix(r.URL.Path, "/"))
		})}
		go func() { _ = server.Serve(b.listener) }()
		test(b)
		b.sessions.Close()
		_ = server.Close()
		_ = b.listener.Close()
	})
}

// later lets the clock of the bubble go on.
func later(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (b *bench) open() ecsexec.Grant {
	b.Helper()
	g, err := b.sessions.Open(ecsexec.Target{Task: "t", Container: 1, Command: []string{"sh"}})
	if err != nil {
		b.Fatal(err)
	}
	return g
}

// dial connects to a session without a word.
func (b *bench) dial(id string, header http.Header) (*websocket.Conn, error) {
	d := websocket.Dialer{NetDialContext: func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		b.listener.accepted <- far
		return near, nil
	}}
	ws, response, err := d.Dial("ws://host/"+id, header)
	if response != nil && response.Body != nil {
		_ = response.Body.Close()
	}
	return ws, err
}

// client is what the plugin is to a session.
type client struct {
	*bench
	ws       *websocket.Conn
	next     int64
	expected int64
	mute     bool // it acknowledges nothing

	mu     sync.Mutex
	shown  bytes.Buffer
	hello  string // the handshake
	flags  string
	closed string // what the session says at its end
	ended  bool
	done   chan struct{}
}

// connect connects with a token; a client of before goes on.
func (b *bench) connect(g ecsexec.Grant, before *client) *client {
	b.Helper()
	ws, err := b.dial(g.ID, nil)
	if err != nil {
		b.Fatal(err)
	}
	c := &client{bench: b, ws: ws, done: make(chan struct{})}
	if before != nil {
		c.next, c.expected = before.next, before.expected
		c.shown.WriteString(before.screen())
	}
	if err := ws.WriteJSON(map[string]string{"MessageSchemaVersion": "1.0", "RequestId": "r", "TokenValue": g.Token, "ClientId": "c", "ClientVersion": "1"}); err != nil {
		b.Fatal(err)
	}
	go c.read()
	synctest.Wait()
	return c
}

func (c *client) read() {
	defer close(c.done)
	for {
		_, frame, err := c.ws.ReadMessage()
		if err != nil {
			_ = c.ws.Close()
			return
		}
		m, err := datachannel.Parse(frame)
		if err != nil {
			c.Error(err)
			return
		}
		c.take(m)
	}
}

func (c *client) take(m datachannel.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case m.Type == datachannel.TypeClosed:
		c.closed, c.ended = string(m.Payload), true
	case m.Type == datachannel.TypeOutput && m.Sequence == c.expected:
		if c.mute && m.Kind == datachannel.KindData {
			return
		}
		c.expected++
		c.write(datachannel.Message{Type: datachannel.TypeAcknowledge, Payload: fmt.Appendf(nil, `{"AcknowledgedMessageSequenceNumber":%d}`, m.Sequence)})
		switch m.Kind {
		case datachannel.KindFlag:
			c.flags += string(m.Payload)
		case datachannel.KindHandshakeRequest:
			c.hello = string(m.Payload)
			c.put(datachannel.KindHandshakeResponse, `{"ProcessedClientActions":[{"ActionType":"SessionType","ActionStatus":1}]}`)
		case datachannel.KindData:
			c.shown.Write(m.Payload)
		}
	}
}

// write sends a message. c.mu is held.
func (c *client) write(m datachannel.Message) {
	m.Created = 1
	_ = c.ws.WriteMessage(websocket.BinaryMessage, m.Bytes()) // a connection that has ended is noticed by its reader
}

// put sends a message of the stream. c.mu is held.
func (c *client) put(kind datachannel.Kind, payload string) {
	c.write(datachannel.Message{Type: datachannel.TypeInput, Sequence: c.next, Kind: kind, Payload: []byte(payload)})
	c.next++
}

// say types something, or sends a size.
func (c *client) say(kind datachannel.Kind, payload string) {
	c.mu.Lock()
	c.put(kind, payload)
	c.mu.Unlock()
	synctest.Wait()
}

func (c *client) screen() string {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shown.String()
}

func (c *client) asked() string {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hello
}

func (c *client) flagged() string {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.flags
}

// leaves waits until the connection has ended and returns what the session said at its end.
func (c *client) leaves() (text string, said bool) {
	<-c.done
	synctest.Wait() // the session is forgotten just after its last message
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed, c.ended
}

// hangUp breaks the connection off.
func (c *client) hangUp() {
	_ = c.ws.Close()
	<-c.done
	synctest.Wait()
}

func TestATerminalReachesAProgram(t *testing.T) {
	inBubble(t, func(b *bench) {
		c := b.connect(b.open(), nil)
		c.say(datachannel.KindSize, `{"cols":80,"rows":24}`)
		if target := <-b.started; target.Task != "t" || target.Container != 1 || b.size != (datachannel.Size{Rows: 24, Columns: 80}) {
			t.Errorf("%+v starts with %+v", target, b.size)
		}
		c.say(datachannel.KindData, "\x03")
		c.say(datachannel.KindSize, `{"cols":100,"rows":30}`)
		if _, sizes, _ := b.shell.look(); len(sizes) != 1 || sizes[0] != (datachannel.Size{Rows: 30, Columns: 100}) {
			t.Errorf("the terminal has %v", sizes)
		}
		c.say(datachannel.KindData, "flood 10000000")
		for len(c.screen()) <= 10_000_000 {
			later(time.Second)
		}
		if shown := c.screen(); !strings.HasPrefix(shown, "\x03xxx") || len(shown) != 10_000_001 {
			t.Errorf("%d bytes are shown", len(shown))
		}
		c.say(datachannel.KindData, "exit")
		if text, said := c.leaves(); !said || !strings.Contains(text, `"Output":""`) {
			t.Errorf("at the end it says %q", text)
		}
		if _, _, ended := b.shell.look(); ended != 0 {
			t.Error("a program that has ended is ended")
		}
	})
}

func TestAProgramStartsWithoutASize(t *testing.T) {
	inBubble(t, func(b *bench) {
		c := b.connect(b.open(), nil)
		<-b.started
		c.say(datachannel.KindData, "hello")
		if c.screen() != "hello" {
			t.Errorf("%q", c.screen())
		}
	})
}

func TestWhoMayConnect(t *testing.T) {
	inBubble(t, func(b *bench) {
		g, other := b.open(), b.open()
		refused := func(what string, say func(ws *websocket.Conn) error, g ecsexec.Grant) {
			t.Helper()
			ws, err := b.dial(g.ID, nil)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if err := say(ws); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			_ = ws.SetReadDeadline(time.Now().Add(20 * time.Second)) // who is let in hears nothing for long
			if _, frame, err := ws.ReadMessage(); err == nil || !websocket.IsCloseError(err, websocket.ClosePolicyViolation) {
				t.Errorf("%s: %q %v", what, frame, err)
			}
			_ = ws.Close()
		}
		token := func(text string) func(*websocket.Conn) error {
			return func(ws *websocket.Conn) error { return ws.WriteJSON(map[string]string{"TokenValue": text}) }
		}
		refused("no token", token(""), g)
		refused("a wrong token", token("AAAA"), g)
		refused("the token of another session", token(other.Token), g)
		refused("a token for no session", token(g.Token), ecsexec.Grant{ID: "ecs-execute-command-0"})
		refused("no JSON", func(ws *websocket.Conn) error { return ws.WriteMessage(websocket.TextMessage, []byte("hello")) }, g)
		refused("a token in a binary message", func(ws *websocket.Conn) error {
			return ws.WriteMessage(websocket.BinaryMessage, []byte(`{"TokenValue":"`+g.Token+`"}`))
		}, g)
		refused("silence", func(*websocket.Conn) error { return nil }, g)

		c := b.connect(g, nil)
		<-b.started
		refused("a token that was used", token(g.Token), g)
		again, ok := b.sessions.Resume(g.ID)
		if !ok || again.Token == g.Token {
			t.Fatal("no other token")
		}
		later(61 * time.Second)
		refused("a token of a minute ago", token(again.Token), g)
		refused("the token of a session without a client", token(other.Token), other)
		c.hangUp()

		if _, err := b.dial(b.open().ID, http.Header{"Origin": {"http://host"}}); err == nil {
			t.Error("a browser is let in")
		}
	})
}

func TestNotTooManySessions(t *testing.T) {
	inBubble(t, func(b *bench) {
		for range ecsexec.Most {
			b.open()
		}
		if _, err := b.sessions.Open(ecsexec.Target{}); !errors.Is(err, ecsexec.ErrTooMany) {
			t.Errorf("one more: %v", err)
		}
		later(61 * time.Second)
		b.open()
	})
}

func TestAClientComesBack(t *testing.T) {
	inBubble(t, func(b *bench) {
		g := b.open()
		c := b.connect(g, nil)
		<-b.started
		c.say(datachannel.KindData, "one,")
		c.screen()
		c.hangUp()
		b.shell.lines <- "two," // while no client is connected
		later(50 * time.Second)
		again, ok := b.sessions.Resume(g.ID)
		if !ok {
			t.Fatal("the session is gone")
		}
		c = b.connect(again, c)
		c.say(datachannel.KindData, "three")
		if shown := c.screen(); shown != "one,two,three" {
			t.Errorf("%q", shown)
		}
		later(10 * time.Minute) // nothing happens, and the client answers pings
		c.say(datachannel.KindData, "exit")
		if text, said := c.leaves(); !said || !strings.Contains(text, `"Output":""`) {
			t.Errorf("at the end it says %q", text)
		}
	})
}

func TestAClientThatStaysAway(t *testing.T) {
	inBubble(t, func(b *bench) {
		g := b.open()
		c := b.connect(g, nil)
		<-b.started
		c.hangUp()
		later(59 * time.Second)
		if _, _, ended := b.shell.look(); ended != 0 {
			t.Error("the program is ended too early")
		}
		later(2 * time.Second)
		if _, _, ended := b.shell.look(); ended != 1 {
			t.Errorf("the program is ended %d times", ended)
		}
		if _, ok := b.sessions.Resume(g.ID); ok {
			t.Error("the session is still there")
		}
	})
}

// A session whose last output the client does not have waits for it.
func TestTheEndWaitsForAClient(t *testing.T) {
	inBubble(t, func(b *bench) {
		g := b.open()
		c := b.connect(g, nil)
		<-b.started
		c.hangUp()
		b.shell.lines <- "last words"
		b.shell.lines <- "exit"
		later(30 * time.Second)
		again, ok := b.sessions.Resume(g.ID)
		if !ok {
			t.Fatal("the session is gone")
		}
		c = b.connect(again, c)
		if text, said := c.leaves(); !said || !strings.Contains(text, `"Output":""`) || c.screen() != "last words" {
			t.Errorf("it shows %q and says %q", c.screen(), text)
		}
	})
}

func TestSessionsEnd(t *testing.T) {
	for name, tt := range map[string]struct {
		stubborn bool
		act      func(b *bench, c *client, g ecsexec.Grant)
		want     string
	}{
		"terminated":                  {false, func(b *bench, _ *client, g ecsexec.Grant) { b.sessions.Terminate(g.ID) }, "the session was terminated"},
		"terminated, and it does not": {true, func(b *bench, _ *client, g ecsexec.Grant) { b.sessions.Terminate(g.ID) }, "the session was terminated"},
		"the agent ends":              {false, func(b *bench, _ *client, _ ecsexec.Grant) { b.sessions.Close() }, "the agent is ending"},
		"the client says so":          {false, func(_ *bench, c *client, _ ecsexec.Grant) { c.say(datachannel.KindFlag, "\x00\x00\x00\x02") }, `"Output":""`},
		"terminated, and the client does not read": {false, func(b *bench, c *client, g ecsexec.Grant) {
			c.mu.Lock()
			c.mute = true
			c.mu.Unlock()
			c.say(datachannel.KindData, "flood 10000000")
			b.sessions.Terminate(g.ID)
		}, "the session was terminated"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				b.shell.stubborn = tt.stubborn
				g := b.open()
				c := b.connect(g, nil)
				<-b.started
				tt.act(b, c, g)
				if text, said := c.leaves(); !said || !strings.Contains(text, tt.want) {
					t.Errorf("at the end it says %q", text)
				}
				if _, _, ended := b.shell.look(); ended == 0 {
					t.Error("the program is not ended")
				}
				if _, ok := b.sessions.Resume(g.ID); ok {
					t.Error("the session is still there")
				}
				b.sessions.Terminate(g.ID) // once more does no harm
			})
		})
	}
}

func TestACommandThatCannotBeRun(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.refuse = errors.New("the container has no command \"sh\"")
		c := b.connect(b.open(), nil)
		if text, said := c.leaves(); !said || !strings.Contains(text, `the container has no command \"sh\"`) {
			t.Errorf("at the end it says %q", text)
		}
	})
}

func TestClientsThatDoHarm(t *testing.T) {
	for name, harm := range map[string]func(c *client){
		"nonsense": func(c *client) { _ = c.ws.WriteMessage(websocket.BinaryMessage, []byte(strings.Repeat("x", 200))) },
		"a wrong digest": func(c *client) {
			b := (datachannel.Message{Type: datachannel.TypeInput, Payload: []byte("x")}).Bytes()
			b[80]++
			_ = c.ws.WriteMessage(websocket.BinaryMessage, b)
		},
		"a text":         func(c *client) { _ = c.ws.WriteMessage(websocket.TextMessage, []byte("x")) },
		"a huge message": func(c *client) { go func() { _ = c.ws.WriteMessage(websocket.BinaryMessage, make([]byte, 1<<20)) }() },
		"a negative number": func(c *client) {
			_ = c.ws.WriteMessage(websocket.BinaryMessage, datachannel.Message{Type: datachannel.TypeInput, Sequence: -5, Payload: []byte("x")}.Bytes())
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				g := b.open()
				c := b.connect(g, nil)
				<-b.started
				harm(c)
				if text, said := c.leaves(); said {
					t.Errorf("the session ends: %q", text)
				}
				again, ok := b.sessions.Resume(g.ID)
				if !ok {
					t.Fatal("the session is gone")
				}
				c = b.connect(again, c)
				c.say(datachannel.KindData, "hello")
				if c.screen() != "hello" {
					t.Errorf("%q", c.screen())
				}
			})
		})
	}
}

// A client that does not acknowledge stops the program, and a program that does not read
// does not stop the session.
func TestAReaderThatStopsReading(t *testing.T) {
	inBubble(t, func(b *bench) {
		c := b.connect(b.open(), nil)
		<-b.started
		c.mu.Lock()
		c.mute = true
		c.mu.Unlock()
		c.say(datachannel.KindData, "flood 10000000")
		for range 1000 { // the shell is busy with its output
			c.say(datachannel.KindData, "x")
		}
		later(time.Hour)
		if typed, _, _ := b.shell.look(); len(typed) > 100 {
			t.Errorf("the program reads %d bytes", len(typed))
		}
		c.hangUp()
		later(2 * time.Minute)
		if _, _, ended := b.shell.look(); ended == 0 {
			t.Error("the program is not ended")
		}
	})
}

// A client that reads nothing at all is given up.
func TestAClientThatIsStuck(t *testing.T) {
	inBubble(t, func(b *bench) {
		g := b.open()
		ws, err := b.dial(g.ID, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := ws.WriteJSON(map[string]string{"TokenValue": g.Token}); err != nil {
			t.Fatal(err)
		}
		later(5 * time.Minute)
		if _, ok := b.sessions.Resume(g.ID); ok {
			t.Error("the session is still there")
		}
		_ = ws.Close()
	})
}

// forwarder is a program that forwards a port: what is sent to it comes back.
type forwarder struct {
	*shell
	failed chan error
}

func (f forwarder) Failed() <-chan error { return f.failed }

// A session of a port starts with its handshake, tells of connections that failed, and ends when the client ends
// it.
func TestAPortIsForwarded(t *testing.T) {
	inBubble(t, func(b *bench) {
		f := forwarder{b.shell, make(chan error)}
		b.program = f
		g, err := b.sessions.Open(ecsexec.Target{Task: "t", Forward: datachannel.Forwarding{Port: 8080, LocalPort: 9000}})
		if err != nil || !strings.HasPrefix(g.ID, "port-forwarding-") {
			t.Fatalf("%s %v", g.ID, err)
		}
		c := b.connect(g, nil)
		if target := <-b.started; target.Forward.Port != 8080 {
			t.Errorf("%+v starts", target)
		}
		if want := `"SessionType":"Port","Properties":{"localPortNumber":"9000","portNumber":"8080","type":"LocalPortForwarding"}`; !strings.Contains(c.asked(), want) {
			t.Errorf("the handshake is %s, want %s", c.asked(), want)
		}
		c.say(datachannel.KindData, "ping")
		if got := c.screen(); got != "ping" {
			t.Errorf("%q comes back", got)
		}
		f.failed <- errors.New("connection refused")
		if got := c.flagged(); got != "\x00\x00\x00\x03" {
			t.Errorf("the client gets the flag %q", got)
		}
		c.say(datachannel.KindFlag, "\x00\x00\x00\x02")
		c.leaves()
		if _, _, ended := b.shell.look(); ended != 1 {
			t.Errorf("the forwarder was ended %d times", ended)
		}
	})
}
