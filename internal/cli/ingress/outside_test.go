package ingress

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/ingress"
)

func TestOutside(t *testing.T) {
	t.Parallel()
	here, there := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("198.51.100.7")
	n := network{
		own: func() ([]netip.Addr, error) { return []netip.Addr{netip.MustParseAddr("127.0.0.1"), here}, nil },
		resolve: func(_ context.Context, name string) ([]netip.Addr, error) {
			switch name {
			case "here.test":
				return []netip.Addr{there, netip.AddrFrom16(here.As16())}, nil
			case "there.test":
				return []netip.Addr{there}, nil
			}
			return nil, errors.New("no such host")
		},
		dial: func(_ context.Context, address string) error {
			if address == "192.0.2.1:80" {
				return nil
			}
			return errors.New("connection refused")
		},
	}
	s := ingress.Status{Plain: []string{"[::]:80", "127.0.0.1:80"}, Secure: []string{"0.0.0.0:443", "192.0.2.1:80"}}
	for _, url := range []string{"https://here.test", "https://here.test/api", "https://there.test", "https://*.test", "https://none.test", "https://app.localhost"} {
		s.Routes = append(s.Routes, ingress.Route{URL: url})
	}
	o, err := n.look(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(o.Unreachable, "\n"); got != "127.0.0.1:80: only this host reaches the loopback\n0.0.0.0:443: connection refused" {
		t.Error(got)
	}
	if len(o.Names) != 3 || !strings.Contains(o.Names[2].Problem, "leads each client to itself") || o.Names[0].Name != "there.test" || !strings.Contains(o.Names[0].Problem, "198.51.100.7") || !strings.Contains(o.Names[1].Problem, "no such host") {
		t.Errorf("%+v", o.Names)
	}
}
