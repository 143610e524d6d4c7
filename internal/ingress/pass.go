package ingress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podtask/podtask/pkg/api"
)

// passProtocol is the protocol of a connection that carries one listener, after a request for PassPath.
const passProtocol = "podtask-listener"

// PassPath is the route of the proxy that takes a listener. Its parameter address is the TCP address of the listener.
const PassPath = "POST /v1/listener"

// passTime limits the passing of a listener.
const passTime = 5 * time.Second

// taken is the answer of the proxy when it serves a listener that was passed.
const taken = 'k'

// TakePath is the route of a proxy that ends by which the agent takes a listener. Its parameter address is the TCP address of
// the listener.
const TakePath = "POST /v1/listener/take"

// give asks a proxy that ends to send its listener: after the answer, so that no reader of the answer has it.
const give = 'g'

// ErrNotGiven says that the proxy has no listener at an address, or keeps it.
var ErrNotGiven = errors.New("the ingress proxy gives no listener")

// Pass hands a TCP listener that is bound to an address of a service to the proxy behind a socket, and returns when the proxy accepts its
// connections. The caller closes its own descriptor then: a connection that waits to be accepted is not lost, because the
// socket stays open. A proxy that does not listen for the address, or is too old, is an error.
func Pass(ctx context.Context, socket, address string, l *net.TCPListener) error {
	c, err := upgrade(ctx, socket, PassPath, address)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := sendListener(c, l); err != nil {
		return err
	}
	said := make([]byte, 1)
	if _, err := io.ReadFull(c, said); err != nil || said[0] != taken {
		return errors.Join(errors.New("the ingress proxy has not taken a listener"), err)
	}
	return nil
}

// Take takes a listener that is bound to an address of a service from the proxy behind a socket, which ends. The proxy
// accepts connections until Take returns. ErrNotGiven says that there is none.
func Take(ctx context.Context, socket, address string) (net.Listener, error) {
	c, err := upgrade(ctx, socket, TakePath, address)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if _, err := c.Write([]byte{give}); err != nil {
		return nil, err
	}
	l, err := readListener(c, address)
	if err != nil {
		return nil, err
	}
	if _, err := c.Write([]byte{taken}); err != nil { // the proxy may accept from it, too
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// upgrade opens a connection that carries one listener.
func upgrade(ctx context.Context, socket, route, address string) (*net.UnixConn, error) {
	ctx, cancel := context.WithTimeout(ctx, passTime)
	defer cancel()
	c, err := api.DialSocket(ctx, socket)
	if err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		err = c.SetDeadline(deadline)
	}
	if err == nil {
		err = ask(ctx, c, route, address)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// ask sends a request for a connection that carries one listener, and reads the answer.
func ask(ctx context.Context, c *net.UnixConn, route, address string) error {
	method, path, _ := strings.Cut(route, " ")
	r, err := http.NewRequestWithContext(ctx, method, "http://ingress"+path+"?address="+url.QueryEscape(address), nil)
	if err != nil {
		return err
	}
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", passProtocol)
	if err := r.Write(c); err != nil {
		return err
	}
	answer, err := http.ReadResponse(bufio.NewReader(c), r)
	if err != nil {
		return err
	}
	switch answer.StatusCode {
	case http.StatusSwitchingProtocols:
		return nil
	case http.StatusNotFound:
		return ErrNotGiven
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
	return fmt.Errorf("the ingress proxy passes no listener: %s: %s", answer.Status, text)
}

// sendListener sends the descriptor of a listener.
func sendListener(c *net.UnixConn, l *net.TCPListener) error {
	raw, err := l.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	err = raw.Control(func(fd uintptr) {
		_, _, sent = c.WriteMsgUnix([]byte{'l'}, unix.UnixRights(int(fd)), nil)
	})
	return errors.Join(err, sent)
}

// Receive answers a request for PassPath: it takes the listener that Pass sends, and gives it to take, which serves
// it or returns why not. Only TCP listeners that are bound to the port of the address are taken.
func Receive(w http.ResponseWriter, r *http.Request, take func(net.Listener) error) error {
	c, err := hijack(w, r)
	if err != nil {
		return err
	}
	defer c.Close()
	l, err := readListener(c, r.FormValue("address"))
	if err != nil {
		return err
	}
	if err := take(l); err != nil {
		_ = l.Close()
		return err
	}
	_, err = c.Write([]byte{taken})
	return err
}

// Give answers a request for TakePath with a listener. When it returns nil the agent has the listener, too.
func Give(w http.ResponseWriter, r *http.Request, l *net.TCPListener) error {
	c, err := hijack(w, r)
	if err != nil {
		return err
	}
	defer c.Close()
	said := make([]byte, 1)
	if _, err := io.ReadFull(c, said); err != nil || said[0] != give {
		return errors.Join(errors.New("a listener is asked for after the answer"), err)
	}
	if err := sendListener(c, l); err != nil {
		return err
	}
	if _, err := io.ReadFull(c, said); err != nil || said[0] != taken {
		return errors.Join(errors.New("the agent has not taken a listener"), err)
	}
	return nil
}

// hijack takes the connection of a request, which carries one listener.
func hijack(w http.ResponseWriter, r *http.Request) (*net.UnixConn, error) {
	if r.Header.Get("Upgrade") != passProtocol {
		http.Error(w, "a listener is passed by "+passProtocol, http.StatusUpgradeRequired)
		return nil, errors.New("a request without " + passProtocol)
	}
	hijacked, rest, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, err
	}
	c, ok := hijacked.(*net.UnixConn)
	if !ok || rest.Reader.Buffered() > 0 {
		return nil, errors.Join(errors.New("a listener is passed over a unix socket, after the answer"), hijacked.Close())
	}
	err = c.SetDeadline(time.Now().Add(passTime))
	if err == nil {
		_, err = fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", passProtocol)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// readListener reads a message with one descriptor, and checks that it is a listener for an address.
func readListener(c *net.UnixConn, address string) (net.Listener, error) {
	data, oob := make([]byte, 1), make([]byte, unix.CmsgSpace(4*4))
	_, n, _, _, err := c.ReadMsgUnix(data, oob)
	if err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil {
		return nil, err
	}
	var files []*os.File
	defer func() {
		for _, f := range files {
			_ = f.Close()
		}
	}()
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			continue // another kind of message
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "listener"))
		}
	}
	if len(files) != 1 {
		return nil, fmt.Errorf("there are %d descriptors in place of one", len(files))
	}
	l, err := net.FileListener(files[0])
	if err != nil {
		return nil, err
	}
	if err := isListener(l, address); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// isListener returns why a socket is no TCP listener with the port of an address; nil if it is.
func isListener(l net.Listener, address string) error {
	t, ok := l.(*net.TCPListener)
	if !ok {
		return fmt.Errorf("a listener of %s was passed, and no TCP listener", l.Addr().Network())
	}
	want, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return err
	}
	if have, ok := t.Addr().(*net.TCPAddr); !ok || have.Port != want.Port || len(want.IP) > 0 && !want.IP.IsUnspecified() && !have.IP.Equal(want.IP) {
		return fmt.Errorf("a listener at %s was passed for %s", t.Addr(), address)
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return err
	}
	accepts := 0
	failed := raw.Control(func(fd uintptr) { accepts, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ACCEPTCONN) })
	if err = errors.Join(failed, err); err == nil && accepts == 0 {
		err = errors.New("the socket that was passed does not listen")
	}
	return err
}
