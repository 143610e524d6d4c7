package netns

import (
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestAddAddresses(t *testing.T) {
	t.Parallel()
	pid := namespace(t)
	ip := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("nsenter", append([]string{"--target", strconv.Itoa(pid), "--user", "--preserve-credentials", "--net", "ip"}, args...)...)
		out, err := cmd.CombinedOutput()
		if errors.Is(err, exec.ErrNotFound) {
			t.Skip("nsenter is missing")
		}
		if err != nil {
			t.Skipf("ip %v: %v: %s", args, err, out)
		}
		return string(out)
	}
	ip("link", "add", "eth0", "type", "dummy")
	ip("addr", "add", "10.89.7.9/24", "dev", "eth0")
	ip("link", "set", "eth0", "up")
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
