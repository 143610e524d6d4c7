package netns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// SideNetwork is a network beside that of a task: programs of the task reach all its addresses, and
// its user listens there at any address and port. What listens there takes no port from the programs of the task.
//
// It is a network namespace that a link leads to, or the loopback interface of the task's namespace
// where no link can be made. It needs no process: a few sockets hold it, and it ends with the last of them. From then on
// its addresses are unreachable from the task. It is safe for concurrent use.
type SideNetwork struct {
	pid    int
	helper []string

	mu    sync.Mutex
	stock []*os.File // sockets that are not bound; at least one until Close
}

// SideRange contains the addresses of a SideNetwork. It is of link-local scope: nothing beyond a link has them.
var SideRange = netip.PrefixFrom(netip.AddrFrom4([4]byte{169, 254, 176, 0}), 22)

// The task's end of the link to a SideNetwork has an address outside of SideRange.
const sideNear, sideFar = "podtask-names", "names"

var sideNearAddr = netip.AddrFrom4([4]byte{169, 254, 180, 1})

// sideArg and moreArg are arguments of the helper: the first makes a SideNetwork, the second makes
// more sockets in the one that descriptor 4 is the namespace of.
const sideArg, moreArg = "side", "side-more"

// OpenSide makes the SideNetwork of the network namespace of a process. One that an earlier process of the caller
// had there is replaced.
func (h Helper) OpenSide(ctx context.Context, pid int) (*SideNetwork, error) {
	files, _, err := inside(ctx, pid, h, sideArg)
	if err != nil {
		return nil, fmt.Errorf("make a network beside that of process %d: %w", pid, err)
	}
	return &SideNetwork{pid: pid, helper: h, stock: files}, nil
}

// Listen listens at an address of SideRange. The listener holds the network.
func (n *SideNetwork) Listen(ctx context.Context, addr netip.AddrPort) (net.Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.stock) == 0 {
		return nil, net.ErrClosed
	}
	if len(n.stock) == 1 { // the last one names the network
		if err := n.fill(ctx); err != nil {
			return nil, fmt.Errorf("listen on %s beside process %d: %w", addr, n.pid, err)
		}
	}
	last := len(n.stock) - 1
	f := n.stock[last]
	n.stock = n.stock[:last]
	defer f.Close() // FileListener has its own copy
	l, err := listenOn(f, addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %s beside process %d: %w", addr, n.pid, err)
	}
	return l, nil
}

// fill makes more sockets. The caller holds mu.
func (n *SideNetwork) fill(ctx context.Context) error {
	fd, err := unix.IoctlRetInt(int(n.stock[0].Fd()), unix.SIOCGSKNS)
	if err != nil {
		return os.NewSyscallError("find the namespace of a socket", err)
	}
	namespace := os.NewFile(uintptr(fd), "namespace")
	defer namespace.Close()
	files, _, err := inside(ctx, n.pid, n.helper, moreArg, namespace)
	n.stock = append(n.stock, files...)
	return err
}

// Close closes all but the listeners.
func (n *SideNetwork) Close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	closeAll(n.stock)
	n.stock = nil
}

// listenOn binds a socket and listens on it.
func listenOn(f *os.File, addr netip.AddrPort) (net.Listener, error) {
	fd := int(f.Fd())
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return nil, os.NewSyscallError("setsockopt", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Port: int(addr.Port()), Addr: addr.Addr().As4()}); err != nil {
		return nil, os.NewSyscallError("bind", err)
	}
	if err := unix.Listen(fd, unix.SOMAXCONN); err != nil {
		return nil, os.NewSyscallError("listen", err)
	}
	return net.FileListener(f)
}

// passSide makes a SideNetwork in this namespace and hands a stock of its sockets to descriptor 3.
func passSide() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	near, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	defer near.Close()
	if err := keepFromElsewhere(); err != nil {
		return err
	}
	if old, err := netlink.LinkByName(sideNear); err == nil {
		_ = netlink.LinkDel(old) // of a process that died
	}
	fds, beside := sideSockets(near)
	if beside != nil {
		if fds, err = loopbackSockets(); err != nil {
			return errors.Join(beside, err)
		}
	}
	return unix.Sendmsg(passedTo, []byte("[]"), unix.UnixRights(fds...), nil, 0)
}

// keepFromElsewhere makes the addresses unreachable while there is no link to them: their packets must
// not leave by the default route.
func keepFromElsewhere() error {
	const last = 1 << 31 // any other route comes first
	err := netlink.RouteReplace(&netlink.Route{Dst: ipNet(SideRange), Type: unix.RTN_UNREACHABLE, Priority: last, Table: unix.RT_TABLE_MAIN})
	if err != nil {
		return fmt.Errorf("route %s nowhere: %w", SideRange, err)
	}
	return nil
}

// sideSockets makes a namespace with a link to near, and a stock of sockets there.
func sideSockets(near *os.File) (fds []int, err error) {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return nil, err
	}
	err = sideHere(near)
	if err == nil {
		fds, err = ipv4Sockets()
	}
	if back := unix.Setns(int(near.Fd()), unix.CLONE_NEWNET); back != nil {
		panic("netns: the thread is lost in another namespace: " + back.Error())
	}
	if err != nil {
		return nil, err
	}
	link, err := netlink.LinkByName(sideNear)
	if err != nil {
		return nil, err
	}
	if err := netlink.AddrAdd(link, &netlink.Addr{IPNet: alone(sideNearAddr), Scope: unix.RT_SCOPE_LINK}); err != nil {
		return nil, err
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return nil, err
	}
	return fds, netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: ipNet(SideRange), Src: sideNearAddr.AsSlice(), Scope: netlink.SCOPE_LINK})
}

// sideHere makes this namespace the far end of a link to near, with all addresses of SideRange.
func sideHere(near *os.File) error {
	far := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: sideNear, PeerNamespace: netlink.NsFd(int(near.Fd()))}
	far.Name = sideFar
	if err := netlink.LinkAdd(far); err != nil {
		return err
	}
	link, err := netlink.LinkByName(sideFar)
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return err
	}
	if err := netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: ipNet(netip.PrefixFrom(sideNearAddr, 32)), Scope: netlink.SCOPE_LINK}); err != nil {
		return err
	}
	return ownAll()
}

// ownAll makes every address of SideRange one of this namespace.
func ownAll() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return err
	}
	return netlink.RouteReplace(&netlink.Route{LinkIndex: lo.Attrs().Index, Dst: ipNet(SideRange), Type: unix.RTN_LOCAL, Table: unix.RT_TABLE_LOCAL, Scope: netlink.SCOPE_HOST})
}

// loopbackSockets makes the addresses ones of this namespace, and a stock of sockets in it.
func loopbackSockets() ([]int, error) {
	if err := ownAll(); err != nil {
		return nil, err
	}
	return ipv4Sockets()
}

// passMore hands a stock of sockets of the namespace that descriptor 4 names to descriptor 3.
func passMore() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Setns(passedTo+1, unix.CLONE_NEWNET); err != nil {
		return os.NewSyscallError("setns", err)
	}
	fds, err := ipv4Sockets()
	if err != nil {
		return err
	}
	return unix.Sendmsg(passedTo, []byte("[]"), unix.UnixRights(fds...), nil, 0)
}

// ipv4Sockets makes a stock of sockets in this namespace.
func ipv4Sockets() (fds []int, err error) {
	for range socketBatch {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return nil, fmt.Errorf("make a socket: %w", err)
		}
		fds = append(fds, fd)
	}
	return fds, nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
