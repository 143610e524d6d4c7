package taskdef

import (
	"cmp"
	"fmt"
	"net/netip"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// Ingress is a public address of a service: HTTP requests for a URL go to a port of a container.
// A task that is not a copy of a service ignores it.
type Ingress struct {
	// URL is https://HOST[/PATH] or http://HOST[/PATH]. HOST is a name, an IP address, or "*." with a name,
	// for all names that have one label more. PATH is a prefix of whole segments.
	URL string `json:"url"`
	// Container and Port are where in a copy requests go. The copies publish the port.
	Container string `json:"containerName"`
	Port      uint16 `json:"containerPort"`
	// Certificate is CertificateACME, CertificateInternal, or a PEM file with a chain, whose key is in CertificateKey:
	// both are absolute paths of files, or both sources of secrets, as podman:NAME. Empty: CertificateInternal for names
	// that no public authority certifies, else CertificateACME.
	Certificate    string `json:"certificate,omitempty"`
	CertificateKey string `json:"certificateKey,omitempty"`
	// Protocol is the protocol of the copies: ProtocolHTTP1, also for the empty value, or ProtocolH2C.
	Protocol string `json:"protocol,omitempty"`
	// MaxBody is the greatest number of bytes of a request's body; 0 for any.
	MaxBody int64 `json:"maxBody,omitempty"`
	// ReadTimeout limits the time in which a client sends nothing of a body that it has begun, or takes nothing of
	// an answer, IdleTimeout the one in which neither side sends anything. 0 stands for DefaultReadTimeout and DefaultIdleTimeout.
	ReadTimeout time.Duration `json:"readTimeout,omitempty"`
	IdleTimeout time.Duration `json:"idleTimeout,omitempty"`
	// Auth is the source of a secret with a line USER:PASSWORD for each who may send requests; empty: everybody.
	Auth string `json:"auth,omitempty"`
}

// Who issues a certificate, and what copies speak.
const (
	CertificateACME     = "acme"
	CertificateInternal = "internal"

	ProtocolHTTP1 = "http1"
	ProtocolH2C   = "h2c" // HTTP/2 without TLS, as gRPC servers speak it
)

// The time limits of an ingress that does not say.
const (
	DefaultReadTimeout = time.Minute
	DefaultIdleTimeout = time.Hour
)

// hostName reports whether host is a name of DNS in lower case, as a certificate may have it.
func hostName(host string) bool {
	long := func(label string) bool { return len(label) > 63 }
	return len(host) <= 253 && hostPlain.MatchString(host) && !slices.ContainsFunc(strings.Split(host, "."), long)
}

// maxIngress bounds the addresses of a service.
const maxIngress = 64

var (
	hostPlain = lazy.MustCompile(`^(\*\.)?([a-z0-9_]([a-z0-9_-]*[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
	plainPath = lazy.MustCompile(`^[A-Za-z0-9/_.~+@-]*$`)
	// privateNames are the ends of names that no public authority certifies.
	privateNames = []string{"localhost", "test", "example", "invalid", "internal", "local", "home.arpa", "lan"}
)

// Address holds the parts of the URL of an ingress.
type Address struct {
	Secure bool
	// Host is in lower case and without a dot at its end; Path begins with "/" and does not end with one,
	// except for "/" itself.
	Host, Path string
}

// String is the URL in its one spelling.
func (a Address) String() string {
	scheme, host := "http", a.Host
	if a.Secure {
		scheme = "https"
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return scheme + "://" + host + strings.TrimSuffix(a.Path, "/")
}

// ParseAddress reads the URL of an ingress.
func ParseAddress(text string) (Address, error) {
	u, err := url.Parse(text)
	wrong := func(format string, args ...any) (Address, error) {
		return Address{}, fmt.Errorf("%q is no URL of an ingress, as https://app.example.org is: %s", text, fmt.Sprintf(format, args...))
	}
	switch {
	case err != nil:
		return wrong("%v", err)
	case u.Scheme != "https" && u.Scheme != "http":
		return wrong("it begins with https:// or http://")
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return wrong("it has a host and a path only")
	case u.Port() != "" || strings.HasSuffix(u.Host, ":"):
		return wrong("it has no port: `podtask ingress` has the ports of all addresses")
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if ip, err := netip.ParseAddr(host); err == nil {
		if ip.Zone() != "" {
			return wrong("an IP address has no zone here")
		}
		host = ip.String()
	} else if !hostName(host) {
		return wrong("the host %q is no name of DNS; names with other letters are written as xn--", u.Hostname())
	}
	p := cmp.Or(u.Path, "/")
	if clean := path.Clean(p); p != clean && p != clean+"/" || !plainPath.MatchString(p) || u.RawPath != "" {
		return wrong("the path is segments of letters, digits and -_.~+@, without . and .. and escapes")
	}
	return Address{Secure: u.Scheme == "https", Host: host, Path: path.Clean(p)}, nil
}

// Issuer returns the issuer of the certificate of an ingress with this address: CertificateACME, CertificateInternal, or
// a file or secret.
func (i Ingress) Issuer(a Address) string {
	if i.Certificate != "" {
		return i.Certificate
	}
	name := strings.TrimPrefix(a.Host, "*.")
	_, err := netip.ParseAddr(name)
	private := err == nil || !strings.Contains(name, ".") || slices.ContainsFunc(privateNames, func(end string) bool {
		return name == end || strings.HasSuffix(name, "."+end)
	})
	if private {
		return CertificateInternal
	}
	return CertificateACME
}

// Check returns what is wrong with an ingress: the member and why, in the order of the members.
func (i Ingress) Check() (problems []IngressProblem) {
	refuse := func(member, format string, args ...any) {
		problems = append(problems, IngressProblem{member, fmt.Sprintf(format, args...)})
	}
	a, err := ParseAddress(i.URL)
	if err != nil {
		refuse("url", "%v", err)
	}
	if i.Container == "" {
		refuse("containerName", "containerName is missing")
	}
	if i.Port == 0 {
		refuse("containerPort", "containerPort is 1 to 65535")
	}
	file := i.Certificate != "" && i.Certificate != CertificateACME && i.Certificate != CertificateInternal
	secret := i.CertificateFromSecret()
	switch {
	case i.Certificate != "" && err == nil && !a.Secure:
		refuse("certificate", "an address with http:// has no certificate")
	case file && !secret && !filepath.IsAbs(i.Certificate):
		refuse("certificate", "certificate is acme, internal, the absolute path of a PEM file or a secret of this host, as podman:NAME, not %q", i.Certificate)
	case file != (i.CertificateKey != ""):
		refuse("certificateKey", "certificateKey is the key of a certificate from a file or a secret: give both or none")
	case secret && !isCertificateSource(i.CertificateKey):
		refuse("certificateKey", "certificateKey is a secret of this host, as the certificate is, not %q", i.CertificateKey)
	case i.CertificateKey != "" && !secret && !filepath.IsAbs(i.CertificateKey):
		refuse("certificateKey", "certificateKey is an absolute path, not %q", i.CertificateKey)
	}
	if p := i.Protocol; p != "" && p != ProtocolHTTP1 && p != ProtocolH2C {
		refuse("protocol", "protocol is %s or %s, not %q", ProtocolHTTP1, ProtocolH2C, p)
	}
	if i.MaxBody < 0 {
		refuse("maxBody", "maxBody is a number of bytes, or 0 for any")
	}
	for _, t := range []struct {
		member string
		value  time.Duration
	}{{"readTimeout", i.ReadTimeout}, {"idleTimeout", i.IdleTimeout}} {
		if t.value < 0 || t.value > 24*time.Hour || t.value%time.Second != 0 {
			refuse(t.member, "%s is 1 s to 24 h in whole seconds", t.member)
		}
	}
	if i.Auth != "" && (!IsSecretSource(i.Auth) || strings.HasPrefix(i.Auth, "env:")) {
		refuse("auth", "auth is a secret of this host, as podman:NAME or file:PATH, not %q", i.Auth)
	}
	return problems
}

// IngressProblem is a problem of a member of an ingress.
type IngressProblem struct{ Member, Text string }

// ParseIngress reads URL=CONTAINER:PORT[,OPTION=VALUE...], the notation of the command line. The result
// still has to be checked.
func ParseIngress(text string) (i Ingress, err error) {
	words := strings.Split(text, ",")
	// A URL has no query, so the first equals sign ends it.
	address, target, _ := strings.Cut(words[0], "=")
	container, number, _ := strings.Cut(target, ":")
	port, err := strconv.ParseUint(number, 10, 16)
	if err != nil || address == "" || container == "" || port == 0 {
		return i, fmt.Errorf("%q is not URL=CONTAINER:PORT, as in https://app.example.org=web:80", words[0])
	}
	i = Ingress{URL: address, Container: container, Port: uint16(port)}
	for _, w := range words[1:] {
		name, value, _ := strings.Cut(w, "=")
		if err := i.set(name, value); err != nil {
			return i, err
		}
	}
	return i, nil
}

// ingressOptions are the options of the notation of the command line.
var ingressOptions = []string{"auth", "certificate", "certificate-key", "idle-timeout", "max-body", "protocol", "read-timeout"}

func (i *Ingress) set(name, value string) (err error) {
	if value == "" {
		return fmt.Errorf("the option %q has no value: write OPTION=VALUE, with one of %s", name, strings.Join(ingressOptions, ", "))
	}
	switch name {
	case "auth":
		i.Auth = value
	case "certificate":
		i.Certificate = value
	case "certificate-key":
		i.CertificateKey = value
	case "protocol":
		i.Protocol = value
	case "max-body":
		i.MaxBody, err = ParseBytes(value)
	case "read-timeout":
		i.ReadTimeout, err = time.ParseDuration(value)
	case "idle-timeout":
		i.IdleTimeout, err = time.ParseDuration(value)
	default:
		return fmt.Errorf("there is no option %q, only %s", name, strings.Join(ingressOptions, ", "))
	}
	if err != nil {
		return fmt.Errorf("the option %s: %w", name, err)
	}
	return nil
}

// ParseBytes reads a number of bytes with an optional unit k, m or g of 1024.
func ParseBytes(text string) (int64, error) {
	number, shift := strings.ToLower(text), 0
	for unit, n := range map[string]int{"k": 10, "m": 20, "g": 30} {
		if cut, is := strings.CutSuffix(number, unit); is {
			number, shift = cut, n
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > 1<<(62-shift) {
		return 0, fmt.Errorf("%q is not a number of bytes, as in 512k, 10m or 2g", text)
	}
	return n << shift, nil
}

func decodeIngress(c cursor) (all []Ingress) {
	for _, item := range c.list("write a list of addresses") {
		if !item.want(doctree.Object, `write {"url": "https://app.example.org", "containerName": "web", "containerPort": 80}`) {
			continue
		}
		i := Ingress{
			URL: item.at("url").str(), Container: item.at("containerName").str(), Port: uint16(min(item.at("containerPort").integer(0, 0), 65536)),
			Certificate: item.at("certificate").str(), CertificateKey: item.at("certificateKey").str(), Protocol: item.at("protocol").str(),
			ReadTimeout: decodeSeconds(item.at("readTimeout"), 0), IdleTimeout: decodeSeconds(item.at("idleTimeout"), 0), Auth: item.at("auth").str(),
		}
		if size := item.at("maxBody").str(); size != "" {
			var err error
			if i.MaxBody, err = ParseBytes(size); err != nil {
				item.at("maxBody").wrong(err.Error(), "")
			}
		}
		all = append(all, i)
	}
	return all
}

func checkIngress(r rules, t Task) {
	in := r.in("ingress")
	in.require(len(t.Extensions.Ingress) <= maxIngress, "", "there are %d addresses, more than %d", len(t.Extensions.Ingress), maxIngress)
	for n, i := range t.Extensions.Ingress {
		item := in.item(n)
		for _, p := range i.Check() {
			item.in(p.Member).require(false, "", "%s", p.Text)
		}
		if problem := i.CheckTarget(t); problem != "" {
			item.require(false, "", "%s", problem)
		}
	}
}

// CheckTarget returns a complaint about the target of an ingress in a task; "" if it is valid.
func (i Ingress) CheckTarget(t Task) string {
	n := slices.IndexFunc(t.Containers, func(c Container) bool { return c.Name == i.Container })
	switch {
	case i.Container == "" || i.Port == 0: // Check says so
		return ""
	case n < 0:
		return fmt.Sprintf("the ingress %s leads to the container %q, which %s does not have", i.URL, i.Container, t.Family)
	case t.Network != NetworkHost && !t.Containers[n].Publishes(i.Port):
		return fmt.Sprintf("the ingress %s leads to TCP port %d of the container %s, which does not publish it: add {\"containerPort\": %d} to its portMappings", i.URL, i.Port, i.Container, i.Port)
	}
	return ""
}

// Publishes reports whether a mapping of the container contains a TCP port.
func (c Container) Publishes(port uint16) bool {
	return slices.ContainsFunc(c.Ports, func(p Port) bool {
		return p.Protocol == "tcp" && port >= p.ContainerPort && int(port) < int(p.ContainerPort)+p.Count()
	})
}
