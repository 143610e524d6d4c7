package netns

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Dialer opens TCP connections from inside a network namespace that its user cannot enter.
// A socket belongs to the namespace in which it was made, even if another process connects it. So a helper
// (see ListenIn) makes a stock of sockets there, and each connection takes one: one short
// process serves socketBatch connections. Close it when done: its sockets keep the
// namespace. It is safe for concurrent use.
type Dialer struct {
	// PID returns a process of the namespace. It is asked each time the stock is empty.
	PID func(context.Context) (int, error)
	// Helper is as for ListenIn.
	Helper []string

	mu        sync.Mutex
	stock     []*os.File
	addresses []netip.Addr
}

// socketBatch is the number of sockets that a helper makes.
const socketBatch = 16

// socketsArg is the argument of a helper that makes sockets.
const socketsArg = "sockets"

// Help is what a helper does with its argument: an address to listen on, the word
// "sockets", addresses to add, the path of a socket to connect to, or what a SideNetwork needs.
func Help(arg string) error {
	switch arg {
	case socketsArg:
		return passSockets()
	case sideArg:
		return passSide()
	case moreArg:
		return passMore()
	}
	if list, ok := strings.CutPrefix(arg, addArg); ok {
		return addHere(list)
	}
	if path, ok := strings.CutPrefix(arg, unixArg); ok {
		return passConnection(path)
	}
	addr, err := netip.ParseAddrPort(arg)
	if err != nil {
		return err
	}
	return PassListener(addr)
}

// passSockets hands a stock of sockets that are not connected to descriptor 3. They are of
// the family IPv6, which reaches IPv4 addresses too, where the kernel has it.
func passSockets() error {
	text, err := json.Marshal(addresses(netip.Addr{}))
	if err != nil {
		return err
	}
	var fds []int
	for range socketBatch {
		fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if errors.Is(err, unix.EAFNOSUPPORT) {
			fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		}
		if err != nil {
			return fmt.Errorf("make a socket: %w", err)
		}
		fds = append(fds, fd)
	}
	return unix.Sendmsg(passedTo, text, unix.UnixRights(fds...), nil, 0)
}

// Address is the first address of the namespace that others could reach, an IPv4 one if it
// has one; the loopback address if there is none.
func (d *Dialer) Address(ctx context.Context) (netip.Addr, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.fill(ctx); err != nil {
		return netip.Addr{}, err
	}
	for _, a := range d.addresses {
		if a.Is4() {
			return a, nil
		}
	}
	if len(d.addresses) > 0 {
		return d.addresses[0], nil
	}
	return netip.AddrFrom4([4]byte{127, 0, 0, 1}), nil
}

// fill makes sure that there is a socket. The caller holds mu.
func (d *Dialer) fill(ctx context.Context) error {
	if len(d.stock) > 0 {
		return nil
	}
	pid, err := d.PID(ctx)
	if err != nil {
		return err
	}
	files, found, err := inside(ctx, pid, d.Helper, socketsArg)
	if err != nil {
		return fmt.Errorf("make sockets in the namespace of process %d: %w", pid, err)
	}
	d.stock, d.addresses = files, found
	return nil
}

// SocketError is the lack of a socket to connect: nothing is known of the other end.
type SocketError struct{ Err error }

func (e *SocketError) Error() string { return e.Err.Error() }
func (e *SocketError) Unwrap() error { return e.Err }

// DialContext connects to host:port. Names are looked up outside of the namespace. The
// error is a *SocketError if no attempt was made.
func (d *Dialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return nil, err
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		all, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		if err != nil {
			return nil, err
		}
		ip = all[0]
	}
	d.mu.Lock()
	err = d.fill(ctx)
	var f *os.File
	if err == nil {
		f, d.stock = d.stock[0], d.stock[1:]
	}
	d.mu.Unlock()
	if err != nil {
		return nil, &SocketError{err}
	}
	to := netip.AddrPortFrom(ip.Unmap(), uint16(port))
	conn, err := connectOn(ctx, f, to)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Addr: net.TCPAddrFromAddrPort(to), Err: err}
	}
	return conn, nil
}

// Close drops the stock. The dialer can be used again.
func (d *Dialer) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	closeAll(d.stock)
	d.stock = nil
}

// connectOn connects a socket and takes it over.
func connectOn(ctx context.Context, f *os.File, to netip.AddrPort) (net.Conn, error) {
	fd := int(f.Fd()) // which also makes it a blocking one
	file, err := beginConnect(fd, to)
	f.Close() // beginConnect has a copy
	if err != nil {
		return nil, err
	}
	defer file.Close()
	stop := context.AfterFunc(ctx, func() { _ = file.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, err
	}
	var failed error
	err = raw.Write(func(fd uintptr) (done bool) {
		code, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
		switch {
		case err != nil:
			failed = err
		case code != 0:
			failed = os.NewSyscallError("connect", unix.Errno(code))
		default:
			_, err := unix.Getpeername(int(fd))
			return err == nil
		}
		return true
	})
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil || failed != nil:
		return nil, errors.Join(failed, err)
	}
	return net.FileConn(file) // a copy
}

// beginConnect begins to connect a copy of a socket.
func beginConnect(fd int, to netip.AddrPort) (*os.File, error) {
	family, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil {
		return nil, err
	}
	var addr unix.Sockaddr = &unix.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()}
	if family == unix.AF_INET {
		if !to.Addr().Is4() {
			return nil, unix.EAFNOSUPPORT
		}
		addr = &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}
	}
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(own, true); err != nil {
		unix.Close(own)
		return nil, err
	}
	if err := unix.Connect(own, addr); err != nil && !errors.Is(err, unix.EINPROGRESS) {
		unix.Close(own)
		return nil, os.NewSyscallError("connect", err)
	}
	return os.NewFile(uintptr(own), "connection"), nil
}
