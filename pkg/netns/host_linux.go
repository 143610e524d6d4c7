package netns

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// FreePort returns an unused port at ip (empty: all addresses). The kernel takes it from
// net.ipv4.ip_local_port_range. It is not reserved.
func FreePort(protocol, ip string) (uint16, error) {
	port, err := bind(protocol, ip, 0)
	if err != nil {
		return 0, fmt.Errorf("find a free %s port: %w", protocol, err)
	}
	return port, nil
}

// InUse reports whether the port is in use at ip (empty: all addresses), by binding it
// briefly. If that fails for another reason, such as missing privileges, it returns
// false: the start of the pod then reports the reason.
func InUse(protocol, ip string, port uint16) bool {
	_, err := bind(protocol, ip, port)
	return errors.Is(err, syscall.EADDRINUSE)
}

// bind binds a port and releases it.
func bind(protocol, ip string, port uint16) (uint16, error) {
	at := net.JoinHostPort(ip, strconv.Itoa(int(port)))
	switch protocol {
	case "tcp":
		l, err := net.Listen("tcp", at)
		if err != nil {
			return 0, err
		}
		return uint16(l.Addr().(*net.TCPAddr).Port), l.Close()
	case "udp":
		c, err := net.ListenPacket("udp", at)
		if err != nil {
			return 0, err
		}
		return uint16(c.LocalAddr().(*net.UDPAddr).Port), c.Close()
	}
	return 0, fmt.Errorf("protocol %q is not tcp or udp", protocol)
}

// HasIPv6 tells whether the host has an IPv6 address that other machines could know.
func HasIPv6() bool {
	all, _ := net.InterfaceAddrs()
	return slices.ContainsFunc(all, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.To4() == nil && n.IP.IsGlobalUnicast()
	})
}

// UnprivilegedStart returns the lowest port a user without privilege may open:
// net.ipv4.ip_unprivileged_port_start, which counts for IPv6 too; 1024 where it
// cannot be read (Linux before 4.11).
func UnprivilegedStart() uint16 {
	const usual = 1024
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_unprivileged_port_start")
	if err != nil {
		return usual
	}
	start, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 16)
	if err != nil {
		return usual
	}
	return uint16(start)
}
