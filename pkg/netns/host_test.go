package netns_test

import (
	"net"
	"os"
	"testing"

	"github.com/podtask/podtask/pkg/netns"
)

// occupy opens a port on loopback and returns its number.
func occupy(t *testing.T, protocol string) uint16 {
	t.Helper()
	if protocol == "tcp" {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return uint16(l.Addr().(*net.TCPAddr).Port)
	}
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return uint16(c.LocalAddr().(*net.UDPAddr).Port)
}

func TestPortsInUse(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"tcp", "udp"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			port := occupy(t, protocol)
			for _, ip := range []string{"127.0.0.1", "0.0.0.0", ""} {
				if !netns.InUse(protocol, ip, port) {
					t.Errorf("port %d at %q is said to be free", port, ip)
				}
			}
			if netns.InUse(protocol, "127.0.0.2", port) {
				t.Errorf("port %d at another address is said to be in use", port)
			}
			h, found := netns.FindHolder(protocol, port)
			if !found || h.PID != os.Getpid() || h.UID != os.Getuid() || h.Command == "" {
				t.Errorf("holder %+v, %v; want this process", h, found)
			}
		})
	}
}

func TestFreePort(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"tcp", "udp"} {
		port, err := netns.FreePort(protocol, "127.0.0.1")
		if err != nil || port < netns.UnprivilegedStart() {
			t.Errorf("FreePort(%s) = %d, %v", protocol, port, err)
		}
	}
	if _, err := netns.FreePort("sctp", ""); err == nil {
		t.Error("sctp is not supported")
	}
	if _, err := netns.FreePort("tcp", "192.0.2.1"); err == nil {
		t.Error("an address this host lacks has no free ports")
	}
	if netns.InUse("tcp", "192.0.2.1", 8080) {
		t.Error("an address this host lacks is said to be in use")
	}
}
