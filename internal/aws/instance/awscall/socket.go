package awscall

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/gorilla/websocket"

	"github.com/podtask/podtask/internal/aws/instance/wire"
)

// The limits of a web socket.
const (
	handshake = 30 * time.Second
	sending   = 30 * time.Second
	// silent is the time without a byte after which a web socket counts as broken.
	silent = 3 * time.Minute
	// maxRefusal bounds the error text, in bytes, that is read when a handshake is refused.
	maxRefusal = 64 << 10
)

// Conn is a web socket with text frames. One goroutine may read and one may write; Close may be
// called at any time.
type Conn interface {
	// Read returns the next frame.
	Read() ([]byte, error)
	// Write sends a frame.
	Write(frame []byte) error
	// Close closes the connection; with a reason, a close frame of code 1000 goes first.
	Close(reason string)
}

// CloseError is the end of a web socket by a close frame.
type CloseError struct {
	Code   int
	Reason string
}

func (e *CloseError) Error() string { return fmt.Sprintf("closed with %d %s", e.Code, e.Reason) }

// Expected reports whether the other side ended the connection in the ordinary way: it is done, goes
// away or has failed, and another connection may be opened.
func (e *CloseError) Expected() bool {
	return e.Code == websocket.CloseNormalClosure || e.Code == websocket.CloseGoingAway || e.Code == websocket.CloseInternalServerErr
}

// HandshakeError is a refused handshake.
type HandshakeError struct {
	Status int
	// Type is the exception in the answer; empty if it has none.
	Type, Message string
}

func (e *HandshakeError) Error() string {
	if e.Type == "" {
		return fmt.Sprintf("the web socket was refused: %d %s", e.Status, http.StatusText(e.Status))
	}
	return fmt.Sprintf("the web socket was refused: %s: %s", e.Type, e.Message)
}

// Dial opens a web socket whose handshake is signed. If it is refused because of the clock of this host, that is corrected, and it
// is tried again.
func (c *Client) Dial(ctx context.Context, address string) (Conn, error) {
	ws, learned, err := c.dialOnce(ctx, address)
	if learned {
		ws, _, err = c.dialOnce(ctx, address)
	}
	return ws, err
}

func (c *Client) dialOnce(ctx context.Context, address string) (_ Conn, learned bool, err error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, false, fmt.Errorf("the address of the web socket: %w", err)
	}
	if !encrypted(u) {
		return nil, false, errPlain
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, false, fmt.Errorf("the address of the web socket: %w", err)
	}
	if err := c.sign(ctx, r, nil, ECS); err != nil {
		return nil, false, err
	}
	switch u.Scheme {
	case "https":
		u.Scheme = "wss"
	case "http":
		u.Scheme = "ws"
	}
	d := websocket.Dialer{Proxy: http.ProxyFromEnvironment, HandshakeTimeout: handshake}
	if t, ok := c.HTTP.Transport.(*http.Transport); ok && t != nil {
		d.NetDialContext, d.TLSClientConfig, d.Proxy = t.DialContext, t.TLSClientConfig.Clone(), t.Proxy
	}
	header := http.Header{"User-Agent": {"Go-http-client/1.1"}}
	for _, name := range []string{"Authorization", "X-Amz-Date", "X-Amz-Security-Token"} {
		if v := r.Header.Get(name); v != "" {
			header.Set(name, v)
		}
	}
	ws, resp, err := d.DialContext(ctx, u.String(), header)
	if err != nil {
		if resp != nil && errors.Is(err, websocket.ErrBadHandshake) {
			return nil, resp.StatusCode >= 400 && resp.StatusCode < 500 && c.Clock.learn(resp), refusedHandshake(resp)
		}
		return nil, false, err
	}
	ws.SetReadLimit(wire.MaxFrame)
	return &conn{ws: ws}, false, nil
}

// errPlain: ECS names the addresses of its web sockets, and credentials go there.
var errPlain = errors.New("ECS names an address without TLS for the web socket")

// encrypted reports whether what is sent to an address is encrypted or stays on this host.
func encrypted(u *url.URL) bool {
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Scheme == "https" || u.Scheme == "wss" || (u.Scheme == "http" || u.Scheme == "ws") && (u.Hostname() == "localhost" || err == nil && ip.IsLoopback())
}

func refusedHandshake(resp *http.Response) error {
	defer resp.Body.Close()
	e := &HandshakeError{Status: resp.StatusCode}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	if err != nil {
		return e
	}
	if f, err := wire.Decode(body); err == nil {
		e.Type = short(f.Type)
		var m struct {
			Message string `json:"message"`
		}
		_ = json.Unmarshal(f.Message, &m) // the type says what it is
		e.Message = short(m.Message)
	}
	return e
}

// SignFrame puts the signature of a frame of TCS in front of it: header lines and an empty line.
// The address is the URL of the web socket, with its query: the signature covers it.
func (c *Client) SignFrame(ctx context.Context, address string, frame []byte) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	got, err := c.Credentials(ctx)
	if err != nil {
		return nil, err
	}
	if err := v4.NewSigner().SignHTTP(ctx, sdk(got), r, Hash(frame), ECS.Name, c.Region, c.Clock.now()); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	line := func(name, value string) { fmt.Fprintf(&out, "%s: %s\r\n", name, value) }
	line("Authorization", r.Header.Get("Authorization"))
	line("Host", r.URL.Host)
	line("X-Amz-Date", r.Header.Get("X-Amz-Date"))
	if token := r.Header.Get("X-Amz-Security-Token"); token != "" {
		line("X-Amz-Security-Token", token)
	}
	out.WriteString("\r\n")
	out.Write(frame)
	return out.Bytes(), nil
}

type conn struct{ ws *websocket.Conn }

func (c *conn) Read() ([]byte, error) {
	if err := c.ws.SetReadDeadline(time.Now().Add(silent)); err != nil {
		return nil, err
	}
	for {
		kind, text, err := c.ws.ReadMessage()
		var closed *websocket.CloseError
		switch {
		case errors.As(err, &closed) && closed.Code != websocket.CloseAbnormalClosure && closed.Code != websocket.CloseNoStatusReceived:
			return nil, &CloseError{closed.Code, closed.Text}
		case errors.As(err, &closed): // the end of the stream, without a frame that says why
			return nil, io.EOF
		case err != nil:
			return nil, err
		case kind == websocket.TextMessage:
			return text, nil
		}
	}
}

func (c *conn) Write(frame []byte) error {
	if err := c.ws.SetWriteDeadline(time.Now().Add(sending)); err != nil {
		return err
	}
	return c.ws.WriteMessage(websocket.TextMessage, frame)
}

func (c *conn) Close(reason string) {
	if reason != "" {
		_ = c.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, reason), time.Now().Add(time.Second))
	}
	_ = c.ws.Close()
}
