package netns

import (
	"net/netip"
	"slices"
	"testing"
	"testing/fstest"
)

func TestAddressesOfANamespace(t *testing.T) {
	t.Parallel()
	const trie = `Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 10.0.2.0/24 2 0 2
        |-- 10.0.2.0
           /24 link UNICAST
Local:
  +-- 0.0.0.0/0 3 0 5
     |-- 10.0.2.100
        /32 host LOCAL
     |-- 10.0.2.255
        /32 link BROADCAST
     |-- 127.0.0.1
        /32 host LOCAL
     |-- 169.254.170.2
        /32 host LOCAL
     |-- 10.0.2.100
        /32 host LOCAL
`
	const six = `00000000000000000000000000000001 01 80 10 80       lo
fd000000000000000000000000000002 02 40 00 80     eth0
fe800000000000000000000000000001 02 40 20 80     eth0
short 02 40 00 80 eth0
`
	root := fstest.MapFS{"proc/7/net/fib_trie": {Data: []byte(trie)}, "proc/7/net/if_inet6": {Data: []byte(six)}, "proc/8/net/fib_trie": {Data: []byte(trie)}}
	want := []netip.Addr{netip.MustParseAddr("10.0.2.100"), netip.MustParseAddr("fd00::2")}
	if got, err := Addresses(root, 7); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := Addresses(root, 8); err != nil || !slices.Equal(got, want[:1]) {
		t.Errorf("without IPv6: %v, %v", got, err)
	}
	if _, err := Addresses(root, 9); err == nil {
		t.Error("a process that is gone has no addresses")
	}
}
