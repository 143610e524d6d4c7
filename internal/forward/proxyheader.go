package forward

import (
	"fmt"
	"net"
	"net/netip"
)

// proxyHeader is the header of the PROXY protocol, version 1, for the connection of a client
// (https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt, section 2.1).
func proxyHeader(client net.Conn) string {
	from, err := netip.ParseAddrPort(client.RemoteAddr().String())
	to, failed := netip.ParseAddrPort(client.LocalAddr().String())
	if err != nil || failed != nil {
		return "PROXY UNKNOWN\r\n"
	}
	family, source, target := "TCP4", from.Addr().Unmap(), to.Addr().Unmap()
	if source.Is6() || target.Is6() {
		family, source, target = "TCP6", from.Addr().WithZone(""), to.Addr().WithZone("")
	}
	return fmt.Sprintf("PROXY %s %s %s %d %d\r\n", family, source, target, from.Port(), to.Port())
}
