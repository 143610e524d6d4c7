package command

import (
	"net"
	"testing"
)

// A program that has the port of ::1 would get the requests of browsers that try it first.
func TestLoopbackIsOneListenerForBothFamilies(t *testing.T) {
	t.Parallel()
	all, err := ListenLoopback(0)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range all {
		t.Cleanup(func() { l.Close() })
	}
	port := PortOf(all[0])
	for _, l := range all {
		if PortOf(l) != port || !l.Addr().(*net.TCPAddr).IP.IsLoopback() {
			t.Errorf("it listens on %s, and the port is %d", l.Addr(), port)
		}
	}
	if _, err := ListenLoopback(port); err == nil {
		t.Error("the port is taken twice")
	}
	other, err := net.ListenTCP("tcp6", &net.TCPAddr{IP: net.IPv6loopback})
	if err != nil {
		t.Skip("there is no IPv6 here")
	}
	t.Cleanup(func() { other.Close() })
	if taken, err := ListenLoopback(PortOf(other)); err == nil {
		t.Errorf("it listens on %s, and another program has that port of ::1", taken[0].Addr())
	}
}
