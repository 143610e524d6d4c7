package netns

import (
	"encoding/hex"
	"io/fs"
	"net/netip"
	"strconv"
	"strings"
)

// Addresses returns the addresses by which the network namespace of a process is reached,
// IPv4 first: not those of the loopback interface, and none of link-local scope. root is
// the root file system.
func Addresses(root fs.FS, pid int) ([]netip.Addr, error) {
	dir := "proc/" + strconv.Itoa(pid) + "/net/"
	four, err := fs.ReadFile(root, dir+"fib_trie")
	if err != nil {
		return nil, err
	}
	out := parseTrie(string(four))
	six, err := fs.ReadFile(root, dir+"if_inet6")
	if err != nil {
		return out, nil // without IPv6 there is no such file
	}
	return append(out, parseInet6(string(six))...), nil
}

// parseTrie returns the local addresses of a fib_trie (kernel: net/ipv4/fib_trie.c), in
// which the line of an address comes before the lines of its routes.
func parseTrie(text string) (out []netip.Addr) {
	var last netip.Addr
	seen := make(map[netip.Addr]bool)
	for line := range strings.Lines(text) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case word == "|--":
			last, _ = netip.ParseAddr(strings.TrimSpace(rest))
		case word == "/32" && strings.TrimSpace(rest) == "host LOCAL" && reached(last) && !seen[last]:
			seen[last] = true
			out = append(out, last)
		}
	}
	return out
}

// parseInet6 returns the addresses of global scope (kernel: net/ipv6/addrconf.c,
// if6_seq_show): the address in hexadecimal digits comes first, the scope is the fourth word.
func parseInet6(text string) (out []netip.Addr) {
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 4 || words[3] != "00" {
			continue
		}
		var b [16]byte
		if n, err := hex.Decode(b[:], []byte(words[0])); err != nil || n != len(b) {
			continue
		}
		if a := netip.AddrFrom16(b); reached(a) {
			out = append(out, a)
		}
	}
	return out
}

func reached(a netip.Addr) bool { return a.IsValid() && a.IsGlobalUnicast() }
