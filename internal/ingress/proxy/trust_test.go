package proxy_test

import (
	"net/http"
	"strings"
	"testing"
)

// Headers by which servers behind other proxies, content networks and clouds learn who the client is, in the spellings
// that CGI programs read as one.
func TestHeadersThatOnlyAProxyMaySetAreRemoved(t *testing.T) {
	t.Parallel()
	var got http.Header
	f := newFront(t)
	f.Load(table(t, to("http://a.test", server(t, func(_ http.ResponseWriter, r *http.Request) { got = r.Header }))))
	for _, name := range []string{
		"Proxy", "X-Scheme", "X-Url-Scheme", "X-Forwarded-Ssl", "X-Forwarded-Prefix", "X-Forwarded", "X-Forward-For", "Client-IP", "X-Client-IP", "CF-Connecting-IP", "CF-Connecting-IPv6", "Fastly-Client-IP", "True-Client-IP",
		"Fly-Client-IP", "Proxy-Client-IP", "WL-Proxy-Client-IP", "WL-Proxy-SSL", "X-Cluster-Client-IP", "X-Azure-ClientIP", "X-Azure-SocketIP", "X-AppEngine-User-IP", "X-Envoy-External-Address", "X-Envoy-Original-Path",
		"X-Original-URL", "X-Original-Host", "X-Original-Forwarded-For", "X-Original-Method", "X-Rewrite-URL", "X-Host", "X-HTTP-Host-Override", "X-HTTP-Method-Override", "X-Method-Override", "X-Originating-IP", "X-ProxyUser-Ip",
		"X-Remote-IP", "X-Remote-Addr", "X-Custom-IP-Authorization", "Remote-User", "Remote-Groups", "X-Remote-User", "X-Remote-Group", "X-WebAuth-User", "X-Auth-Request-Email", "X-Amzn-Oidc-Data", "X-Goog-Authenticated-User-Email",
		"X-Goog-IAP-JWT-Assertion", "X-MS-Client-Principal", "Cf-Access-Authenticated-User-Email", "Tailscale-User-Login", "X-Consumer-Username", "X-SSL-Client-Verify", "X-SSL-Client-Cert", "Ssl-Client-Cert", "SSL-Client-Verify", "X-Client-Cert",
		"X-Client-Certificate-Subject", "X-TLS-Client-Verify", "Client-Cert", "Client-Cert-Chain", "X-ARR-ClientCert", "X-ARR-SSL", "X-Amzn-Mtls-Clientcert", "Front-End-Https", "X-Sendfile-Type", "X-Accel-Mapping", "X-Script-Name", "X-Middleware-Subrequest",
	} {
		for _, spelling := range []string{name, strings.ToLower(name), strings.ReplaceAll(name, "-", "_"), strings.ReplaceAll(name, "-", ".")} {
			f.get(t, "a.test", "/", func(r *http.Request) { r.Header[spelling] = []string{"evil"} })
			for got, values := range got {
				if values[0] == "evil" {
					t.Errorf("%s arrived as %s", spelling, got)
				}
			}
		}
	}
	mine := []string{"Authorization", "Cookie", "Origin", "Referer", "X-Auth-Token", "X-Api-Key", "X-Requested-With", "X-Csrf-Token", "X-Client-Id", "X-Client-Version", "X-User-Id", "X-Amz-Date", "X-Goog-Api-Key", "X-Host-Name", "Traceparent", "Via", "X-Remote"}
	f.get(t, "a.test", "/", func(r *http.Request) {
		for _, name := range mine {
			r.Header.Set(name, "mine")
		}
	})
	for _, name := range mine {
		if got.Get(name) != "mine" {
			t.Errorf("%s did not arrive", name)
		}
	}
}

// A body whose end two readers see in different places ends the connection; what follows it is no request.
func TestAChunkedRequestEndsItsConnection(t *testing.T) {
	t.Parallel()
	f := newFront(t, to("http://a.test", says(t, "here")))
	for _, head := range []string{"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", "Transfer-Encoding: chunked\r\nContent-Length: 40\r\n", "Transfer-Encoding: chunked\r\n"} {
		for _, path := range []string{"/", "/x/../../%00"} {
			answer := f.raw(t, "POST "+path+" HTTP/1.1\r\nHost: a.test\r\n"+head+"\r\n1\r\nx\r\n0\r\n\r\n")
			if strings.Count(answer, "HTTP/1.1 ") != 1 || !strings.Contains(answer, "\r\nConnection: close\r\n") {
				t.Errorf("%q is answered with %q", head, answer)
			}
		}
	}
	if answer := f.raw(t, "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1\r\n\r\nx"); strings.Count(answer, "HTTP/1.1 200") != 2 {
		t.Errorf("%q", answer)
	}
}

func TestTrailersOfARequestAreRemoved(t *testing.T) {
	t.Parallel()
	var trailer, body string
	f := newFront(t)
	f.Load(table(t, to("http://a.test", server(t, func(_ http.ResponseWriter, r *http.Request) {
		var text [8]byte
		n, _ := r.Body.Read(text[:])
		for name := range r.Trailer {
			trailer += name
		}
		body = string(text[:n])
	}))))
	answer := f.raw(t, "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\nTrailer: X-Forwarded-For, X-Sum\r\n\r\n1\r\nx\r\n0\r\nX-Forwarded-For: evil\r\nX-Sum: 1\r\n\r\n")
	if !strings.HasPrefix(answer, "HTTP/1.1 200") || body != "x" || trailer != "" {
		t.Errorf("%q, body %q, trailers %q", answer, body, trailer)
	}
}
