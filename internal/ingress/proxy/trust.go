package proxy

import (
	"slices"
	"strings"
)

// trusted are headers that programs believe because only a proxy in front of them sets them. What a client sends
// under these names is removed; the proxy sets some itself. Names are in lower case. An asterisk at the end or at the
// beginning stands for any text.
var trusted = []struct {
	names []string
	why   string
}{
	{[]string{"forwarded", "x-forward*", "x-real-*", "*-client-ip", "client-ip", "*-clientip", "x-client-port", "x-cluster-*", "*-connecting-ip*", "cf-ipcountry", "cf-pseudo-ipv4",
		"x-azure-socketip", "x-appengine-*", "x-nf-client-connection-ip", "x-vercel-*", "x-originating-ip", "x-remote-ip", "x-remote-addr", "remote-addr", "x-proxyuser-ip", "x-true-ip",
		"x-custom-ip-authorization", "x-coming-from", "cloudfront-*", "x-envoy-*", "wl-proxy-*"},
		"the client's address, port or country"},
	{[]string{"x-scheme", "x-url-scheme", "x-protocol", "x-arr-ssl", "x-https", "front-end-https", "cf-visitor", "cloudfront-forwarded-proto"},
		"whether the client used TLS"},
	{[]string{"x-host", "x-http-host-override", "x-original-*", "x-rewrite-url", "x-http-destinationurl", "x-script-name", "x-proxy-url", "x-replaced-path"},
		"the host and the path that were asked for: access rules went by others"},
	{[]string{"x-http-method-override", "x-http-method", "x-method-override"},
		"the method: access rules went by another"},
	{[]string{"remote-user", "remote-groups", "remote-name", "remote-email", "x-remote-*", "x-webauth-*", "x-auth-request-*", "x-authenticated-*", "x-authentik-*", "x-vouch-*", "x-pomerium-*", "x-consumer-*", "x-credential-*",
		"x-anonymous-consumer", "x-amzn-oidc-*", "x-goog-authenticated-user-*", "x-goog-iap-*", "x-ms-client-principal*", "x-ms-token-*", "cf-access-*", "tailscale-*", "x-proxy-user", "x-iisnode-*"},
		"the user that the proxy has checked"},
	{[]string{"client-cert", "client-cert-chain", "x-client-cert*", "x-client-certificate*", "x-client-dn", "x-client-verify", "ssl-client-*", "x-ssl-*", "x-tls-*", "x-amzn-mtls-*", "x-arr-clientcert"},
		"the client's certificate"},
	{[]string{"proxy"}, "CGI programs take it for the variable HTTP_PROXY"},
	{[]string{"x-sendfile-type", "x-accel-*"}, "Rack sends files as it says"},
	{[]string{"x-middleware-*"}, "Next.js skips its own checks by it"},
	{[]string{"x-request-id"}, "the id in the access log"},
}

// isForwarding reports whether a header is one that only a proxy may set. Servers of the CGI kind read
// other characters than letters and digits as one.
func isForwarding(name string) bool {
	name = strings.Map(func(r rune) rune {
		switch {
		case 'A' <= r && r <= 'Z':
			return r + 'a' - 'A'
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
			return r
		}
		return '-'
	}, name)
	return trustedNames[name] || slices.ContainsFunc(trustedPatterns, func(pattern string) bool { return matches(pattern, name) })
}

// trustedNames and trustedPatterns are the names of trusted without and with an asterisk.
var trustedNames, trustedPatterns = func() (map[string]bool, []string) {
	names, patterns := make(map[string]bool), []string{}
	for _, t := range trusted {
		for _, name := range t.names {
			if strings.Contains(name, "*") {
				patterns = append(patterns, name)
			} else {
				names[name] = true
			}
		}
	}
	return names, patterns
}()

// matches compares a name with one of trusted.
func matches(pattern, name string) bool {
	middle, head := strings.CutPrefix(pattern, "*")
	middle, tail := strings.CutSuffix(middle, "*")
	switch {
	case head && tail:
		return strings.Contains(name, middle)
	case head:
		return strings.HasSuffix(name, middle)
	case tail:
		return strings.HasPrefix(name, middle)
	}
	return name == middle
}
