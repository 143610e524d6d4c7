package netns

import (
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
)

// addressLink gives the first link of the namespace an address and sets it up.
func addressLink(address string) error {
	link, err := netlink.LinkByName("eth0")
	if err != nil {
		return err
	}
	addr, err := netlink.ParseAddr(address)
	if err != nil {
		return err
	}
	if err := netlink.AddrAdd(link, addr); err != nil {
		return err
	}
	return netlink.LinkSetUp(link)
}

func TestAddAddresses(t *testing.T) {
	t.Parallel()
	pid := namespace(t)
	if out, err := runIn(pid, "link"); err != nil {
		t.Skipf("this host makes no links between namespaces: %s", out)
	}
	if out, err := runIn(pid, "address", "10.89.7.9/24"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for range 2 { // what is there stays
		if err := AddAddresses(t.Context(), pid, helper(), []netip.Prefix{netip.MustParsePrefix("10.89.7.2/24")}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Addresses(os.DirFS("/"), pid)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"10.89.7.9", "10.89.7.2"} {
		if !slices.Contains(got, netip.MustParseAddr(want)) {
			t.Errorf("%s is not among %v", want, got)
		}
	}
	err = AddAddresses(t.Context(), pid, helper(), []netip.Prefix{netip.MustParsePrefix("10.90.0.2/24")})
	if err == nil || !strings.Contains(err.Error(), "no interface is in that network") {
		t.Errorf("an address of another network: %v", err)
	}
	if err := AddAddresses(t.Context(), pid, helper(), []netip.Prefix{{}}); err == nil {
		t.Error("no address at all was added")
	}
}
