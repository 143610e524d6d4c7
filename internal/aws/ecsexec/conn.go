package ecsexec

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"github.com/podtask/podtask/internal/aws/datachannel"
	"github.com/podtask/podtask/pkg/api/connlimit"
)

// The limits of a connection.
const (
	// introduction limits the time that a client may take to send its token.
	introduction = 10 * time.Second
	// alive limits the time that a client may be silent; it answers pings, which come more often.
	alive    = 90 * time.Second
	pingings = 30 * time.Second
	// sending limits the time that a client may take to read a message.
	sending = 10 * time.Second
	// farewell limits the time that a client may take to close a connection after the end.
	farewell = 2 * time.Second
	// queued is the number of messages that may wait to be sent.
	queued = 4096
)

// upgrader refuses browsers, which say where they come from; AWS' clients do not.
var upgrader = websocket.Upgrader{
	HandshakeTimeout: introduction,
	CheckOrigin:      func(r *http.Request) bool { return r.Header.Get("Origin") == "" },
}

// conn is a client's connection.
type conn struct {
	ws   *websocket.Conn
	out  chan []byte // to be sent; nil stands for a ping
	gone chan struct{}
	once sync.Once
	left chan struct{} // closed: to be closed when all is sent
}

// Serve is the data channel of the session of an ID: the request is to become a web socket.
// It returns when the connection has ended.
func (s *Sessions) Serve(w http.ResponseWriter, r *http.Request, id string) {
	ws, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return // the client has been told
	}
	defer ws.Close()
	ws.SetReadLimit(datachannel.MaxFrame)
	_ = ws.SetReadDeadline(time.Now().Add(introduction))
	session := s.introduced(ws, id)
	if session == nil {
		refuse := websocket.FormatCloseMessage(websocket.ClosePolicyViolation, "no token that opens this session")
		_ = ws.WriteControl(websocket.CloseMessage, refuse, time.Now().Add(sending))
		return
	}
	// Until here the connection is closed in favor of others when there are too many.
	defer connlimit.Serving(r.Context())()
	defer s.wg.Done()
	c := &conn{ws: ws, out: make(chan []byte, queued), gone: make(chan struct{}), left: make(chan struct{})}
	var wg sync.WaitGroup
	wg.Go(c.write)
	defer wg.Wait()
	defer c.close()
	if session.do(func() { session.attach(c) }) {
		c.read(session)
		session.do(func() { session.lost(c) })
	}
}

// introduced reads a client's first message; nil: its token does not open the session.
func (s *Sessions) introduced(ws *websocket.Conn, id string) *session {
	kind, first, err := ws.ReadMessage()
	var hello struct{ TokenValue string }
	if err != nil || kind != websocket.TextMessage || json.Unmarshal(first, &hello) != nil {
		return nil
	}
	return s.use(id, hello.TokenValue)
}

// read hands on what the client sends until the connection ends.
func (c *conn) read(s *session) {
	lives := func() { _ = c.ws.SetReadDeadline(time.Now().Add(alive)) }
	c.ws.SetPongHandler(func(string) error {
		if s.do(func() { s.pong(c) }) {
			lives()
		}
		return nil
	})
	for {
		lives()
		kind, frame, err := c.ws.ReadMessage()
		if err != nil || kind != websocket.BinaryMessage {
			return
		}
		if !s.do(func() { s.receive(c, frame) }) {
			break
		}
	}
	// A connection that is closed before everything is read may lose what was sent last.
	_ = c.ws.SetReadDeadline(time.Now().Add(sending))
	for {
		if _, _, err := c.ws.NextReader(); err != nil {
			return
		}
	}
}

// send has a message sent; false: the client does not read.
func (c *conn) send(frame []byte) bool {
	select {
	case c.out <- frame:
		return true
	default:
		return false
	}
}

// ping has the client asked for a pong.
func (c *conn) ping() bool { return c.send(nil) }

// leave closes the connection when all is sent.
func (c *conn) leave() { close(c.left) }

// close closes the connection.
func (c *conn) close() {
	c.once.Do(func() {
		close(c.gone)
		_ = c.ws.Close()
	})
}

// write sends what is to be sent until the connection ends, or nothing more is to come.
func (c *conn) write() {
	tick := time.NewTicker(pingings)
	defer tick.Stop()
	for {
		var frame []byte
		select {
		case frame = <-c.out:
		case <-tick.C:
		case <-c.gone:
			return
		case <-c.left:
			c.rest()
			return
		}
		if !c.put(frame, time.Now().Add(sending)) {
			c.close()
			return
		}
	}
}

// put sends one message.
func (c *conn) put(frame []byte, until time.Time) bool {
	if frame == nil {
		return c.ws.WriteControl(websocket.PingMessage, nil, until) == nil
	}
	_ = c.ws.SetWriteDeadline(until)
	return c.ws.WriteMessage(websocket.BinaryMessage, frame) == nil
}

// rest sends what is left, and the end. The client is to close the connection.
func (c *conn) rest() {
	until := time.Now().Add(sending)
	for {
		select {
		case frame := <-c.out:
			if !c.put(frame, until) {
				c.close()
				return
			}
		default:
			_ = c.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), until)
			_ = c.ws.SetReadDeadline(time.Now().Add(farewell))
			return
		}
	}
}
