package proxy

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"strings"

	"github.com/podtask/podtask/internal/ingress/routefile"
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
var plainHost = regexp.MustCompile(`^[a-z0-9_.-]+$`)

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

// confusing reports whether a path leads to another route once other programs have read it: those that
// take a backslash or an escaped slash for a slash, decode twice, or resolve dots.
func confusing(t routefile.Table, secure bool, host, decoded string, found routefile.Route) bool {
	twice, err := url.PathUnescape(decoded)
	if err != nil {
		twice = decoded
	}
	for _, p := range []string{decoded, twice} {
		p = path.Clean("/" + strings.ReplaceAll(p, `\`, "/"))
		if other, is := t.Find(secure, host, p); !is || other.Key() != found.Key() {
			return true
		}
	}
	return false
}

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

// forwarding are headers that servers take for the word of their proxy.
var forwarding = []string{"forwarded", "x-real-ip", "x-request-id", "x-original-url", "x-rewrite-url", "x-client-ip", "true-client-ip", "x-cluster-client-ip", "front-end-https"}

// isForwarding reports whether a header is one that only a proxy may set. Servers of the CGI kind read
// an underscore as a dash.
func isForwarding(name string) bool {
	name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
	if strings.HasPrefix(name, "x-forwarded") {
		return true
	}
	for _, f := range forwarding {
		if name == f {
			return true
		}
	}
	return false
}
