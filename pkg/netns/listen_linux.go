package netns

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// ListenIn returns a TCP listener on addr in the network namespace of process
// pid, and the addresses the namespace has besides, link-local ones left out. The
// caller need not be able to enter it: nsenter (util-linux) joins its
// user namespace as well, which a Go program cannot do because it has threads.
// There helper runs, a program and its arguments to which the address is added; it
// must do nothing but call Help with that argument. The namespace keeps working as long as
// the listener is open, even when all its processes are gone. See PassListener for where
// the socket lies.
//
// The owner of the user namespace may call it, so a rootless user for the
// containers of the own Podman. The error says what nsenter or helper said.
func ListenIn(ctx context.Context, pid int, helper []string, addr netip.AddrPort) (net.Listener, []netip.Addr, error) {
	files, addresses, err := inside(ctx, pid, helper, addr.String())
	if err == nil {
		defer closeAll(files) // FileListener has its own copy
		var l net.Listener
		if l, err = net.FileListener(files[0]); err == nil {
			return l, addresses, nil
		}
	}
	return nil, nil, fmt.Errorf("listen on %s in the namespace of process %d: %w", addr, pid, err)
}

// inside runs the helper with an argument, and descriptors from 4 on, in the network namespace of a process and
// returns the sockets that it passes, at least one, and the namespace's addresses.
func inside(ctx context.Context, pid int, helper []string, arg string, files ...*os.File) ([]*os.File, []netip.Addr, error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, nil, err
	}
	defer ours.Close()
	err = enter(ctx, pid, helper, arg, append([]*os.File{theirs}, files...)...) // theirs is its descriptor 3
	theirs.Close()
	if err != nil {
		return nil, nil, err
	}
	return receive(ours)
}

// enter runs the helper with an argument and descriptors from 3 on in the network namespace
// of a process.
func enter(ctx context.Context, pid int, helper []string, arg string, files ...*os.File) error {
	args := []string{"--target", strconv.Itoa(pid), "--user", "--preserve-credentials"}
	if !strings.HasPrefix(arg, unixArg) { // a socket with a path is in no network
		args = append(args, "--net")
	}
	args = append(append(args, "--"), helper...)
	cmd := exec.CommandContext(ctx, "nsenter", append(args, arg)...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = &said, &said, files
	err := cmd.Run()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return errNoNsenter
	case err != nil:
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(said.String()))
	}
	return nil
}

var errNoNsenter = errors.New("nsenter is missing: install util-linux")

// CanEnter returns why ListenIn would fail for any process; nil if it would not.
func CanEnter() error {
	if _, err := exec.LookPath("nsenter"); err != nil {
		return errNoNsenter
	}
	return nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// passedTo is the descriptor on which PassListener hands its socket over: the
// first after standard error.
const passedTo = 3

// PassListener is the part of the helper of ListenIn: it listens on addr so that it is
// reached in the network namespace, and hands the socket to descriptor 3.
//
// The socket lies beside the namespace, in one of its own at the other end of a link:
// inside, it would block its port for programs that listen on all addresses.
// Where there is only a loopback interface, it stays that way and gets the address; so
// it does where no link can be made.
func PassListener(addr netip.AddrPort) error {
	text, err := json.Marshal(addresses(addr.Addr()))
	if err != nil {
		return err
	}
	l, err := listenHere(addr)
	if err != nil {
		return err
	}
	defer l.Close()
	f, err := l.File()
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Sendmsg(passedTo, text, unix.UnixRights(int(f.Fd())), nil, 0)
}

func listenHere(addr netip.AddrPort) (*net.TCPListener, error) {
	links, err := net.Interfaces()
	if err == nil && len(links) > 1 && !addr.Addr().IsLoopback() {
		if l, err := listenBeside(addr); err == nil {
			return l, nil
		}
	}
	if err := addToLoopback(addr.Addr()); err != nil {
		return nil, fmt.Errorf("put %s on the loopback interface: %w", addr.Addr(), err)
	}
	return net.ListenTCP("tcp", net.TCPAddrFromAddrPort(addr))
}

// The near end of the link to the endpoint is called as in ECS, with one of the
// addresses that the ECS agent gives it in network mode awsvpc.
const nearName, farName = "ecs-eth0", "endpoint"

var nearAddr = netip.AddrFrom4([4]byte{169, 254, 172, 2})

// listenBeside listens in a new network namespace that a link leads to. Both go with
// the socket.
func listenBeside(addr netip.AddrPort) (*net.TCPListener, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	near, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, err
	}
	defer near.Close()
	if old, err := netlink.LinkByName(nearName); err == nil {
		_ = netlink.LinkDel(old) // of an owner that died
	}
	l, err := listenFar(near, addr)
	if err != nil {
		return nil, err
	}
	if err := connect(nearName, nearAddr, addr.Addr()); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// listenFar makes the far namespace, with a link to the near one, and listens there.
func listenFar(near *os.File, addr netip.AddrPort) (l *net.TCPListener, err error) {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return nil, err
	}
	defer func() {
		if back := unix.Setns(int(near.Fd()), unix.CLONE_NEWNET); back != nil {
			panic("netns: the thread is lost in another namespace: " + back.Error())
		}
	}()
	far := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: nearName, PeerNamespace: netlink.NsFd(int(near.Fd()))}
	far.Name = farName
	if err := netlink.LinkAdd(far); err != nil {
		return nil, err
	}
	if err := connect(farName, addr.Addr(), nearAddr); err != nil {
		return nil, err
	}
	return net.ListenTCP("tcp", net.TCPAddrFromAddrPort(addr))
}

// connect gives an interface an address and the way to that of the other end.
func connect(name string, own, other netip.Addr) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	if err := netlink.AddrAdd(link, &netlink.Addr{IPNet: alone(own), Scope: unix.RT_SCOPE_LINK}); err != nil {
		return err
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return err
	}
	return netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: alone(other), Src: own.AsSlice(), Scope: netlink.SCOPE_LINK})
}

// alone is the network of one address.
func alone(a netip.Addr) *net.IPNet {
	return &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}
}

// addresses are the global ones of all interfaces, and not besides. It is only
// for information: an error counts as none.
func addresses(besides netip.Addr) []netip.Addr {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	var out []netip.Addr
	for _, a := range all {
		p, err := netip.ParsePrefix(a.String())
		if err == nil && p.Addr() != besides && p.Addr().IsGlobalUnicast() {
			out = append(out, p.Addr())
		}
	}
	return out
}

func addToLoopback(ip netip.Addr) error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return err
	}
	if ip.IsLoopback() {
		return nil
	}
	err = netlink.AddrAdd(lo, &netlink.Addr{IPNet: alone(ip), Scope: unix.RT_SCOPE_HOST})
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	return err
}

func socketPair() (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a socket pair: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs"), nil
}

// maxPassed bounds in bytes what comes with the socket.
const maxPassed = 16 << 10

// receive takes sockets and the addresses from a socket whose other end is closed or has
// sent.
func receive(from *os.File) ([]*os.File, []netip.Addr, error) {
	data, control := make([]byte, maxPassed), make([]byte, unix.CmsgSpace(4*socketBatch))
	n, nc, _, _, err := unix.Recvmsg(int(from.Fd()), data, control, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return nil, nil, err
	}
	messages, err := unix.ParseSocketControlMessage(control[:nc])
	if err != nil || len(messages) == 0 {
		return nil, nil, errors.Join(errNoSocket, err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) == 0 {
		return nil, nil, errors.Join(errNoSocket, err)
	}
	files := make([]*os.File, len(fds))
	for i, fd := range fds {
		files[i] = os.NewFile(uintptr(fd), "socket")
	}
	var found []netip.Addr
	if err := json.Unmarshal(data[:n], &found); err != nil {
		closeAll(files)
		return nil, nil, fmt.Errorf("the helper's answer makes no sense: %w", err)
	}
	return files, found, nil
}

var errNoSocket = errors.New("the helper passed no socket")
