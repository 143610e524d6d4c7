package proxy

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"strings"

	"github.com/podtask/podtask/internal/lazy"
)

// newID returns the id of a request: 32 hex digits.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// clientIP is the IP address of who sent a request.
func clientIP(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return a.Unmap().WithZone("").String()
	}
	return host
}

// plainHost is a name that may be compared with those of routes.
var plainHost = lazy.MustCompile(`^[a-z0-9_.-]+$`)

// requestHost returns the host of a request, in lower case, without port and final dot.
func requestHost(r *http.Request) (string, error) {
	host, port := r.Host, ""
	if h, p, err := net.SplitHostPort(r.Host); err == nil {
		host, port = h, p
	} else if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = host[1 : len(host)-1]
	}
	host = normalHost(host)
	if strings.Trim(port, "0123456789") != "" || len(host) > 253 {
		return "", errors.New("the host is not NAME or NAME:PORT")
	}
	if a, err := netip.ParseAddr(host); err == nil && a.Zone() == "" {
		return a.String(), nil
	}
	if !plainHost.MatchString(host) {
		return "", errors.New("the host is not NAME or NAME:PORT")
	}
	return host, nil
}

func normalHost(host string) string { return strings.TrimSuffix(strings.ToLower(host), ".") }

// rewrite makes the request for a copy. Hop-by-hop headers, Forwarded and X-Forwarded-For, -Host and
// -Proto are removed already.
func rewrite(pr *httputil.ProxyRequest) {
	x := exchangeOf(pr.In.Context())
	out := pr.Out
	out.URL.Scheme, out.URL.Host = "http", "copy"
	out.URL.RawQuery = pr.In.URL.RawQuery // it is the service's to read
	out.Host = pr.In.Host
	for name := range out.Header {
		if isForwarding(name) {
			delete(out.Header, name)
		}
	}
	out.Trailer = nil // their values come after the request was checked
	if u := pr.Out.Header.Get("Upgrade"); u != "" && !strings.EqualFold(u, "websocket") {
		// Another protocol, such as h2c, would pass paths and users that are not checked.
		out.Header.Del("Upgrade")
		out.Header.Del("Connection")
	}
	proto := "http"
	if x.secure {
		proto = "https"
	}
	out.Header.Set("X-Forwarded-For", x.client)
	out.Header.Set("X-Forwarded-Host", pr.In.Host)
	out.Header.Set("X-Forwarded-Proto", proto)
	out.Header.Set("X-Real-Ip", x.client)
	out.Header.Set("X-Request-Id", x.id)
	node := x.client
	if strings.Contains(node, ":") {
		node = `"[` + node + `]"`
	}
	out.Header.Set("Forwarded", "for="+node+`;host="`+strings.NewReplacer(`\`, "", `"`, "").Replace(pr.In.Host)+`";proto=`+proto)
}
