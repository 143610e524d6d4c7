package certs_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/letsencrypt/challtestsrv"
	"github.com/letsencrypt/pebble/v2/ca"
	"github.com/letsencrypt/pebble/v2/db"
	"github.com/letsencrypt/pebble/v2/va"
	"github.com/letsencrypt/pebble/v2/wfe"
	"github.com/podtask/podtask/internal/ingress"
	"github.com/podtask/podtask/internal/ingress/certs"
	"github.com/podtask/podtask/internal/ingress/program"
	"github.com/podtask/podtask/internal/ingress/routefile"
	"github.com/podtask/podtask/internal/testing/freeport"
	"github.com/podtask/podtask/pkg/taskdef"
)

// acmeServer is Pebble, the ACME server for tests of Let's Encrypt.
type acmeServer struct {
	directory string
	roots     *x509.CertPool // of the server's own certificate
	names     *challtestsrv.ChallSrv
	orders    atomic.Int64
	refuse    atomic.Bool // answers nothing but errors

	certificate *x509.Certificate // the server's own
	issued      *x509.CertPool    // the authority of the certificates that it issues
}

// newACME starts a server that validates names at these ports, and issues certificates for a time.
//
// What is between the clients and Pebble, if anything, is given the requests and Pebble's handler.
func newACME(t *testing.T, plain, secure int, valid time.Duration, between ...func(http.ResponseWriter, *http.Request, http.Handler)) *acmeServer {
	t.Helper()
	t.Setenv("PEBBLE_VA_NOSLEEP", "1")
	t.Setenv("PEBBLE_WFE_NONCEREJECT", "0")
	quiet := log.New(io.Discard, "", 0)
	dns := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	names, err := challtestsrv.New(challtestsrv.Config{DNSAddrs: []string{dns}, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	names.SetDefaultDNSIPv4("127.0.0.1")
	names.SetDefaultDNSIPv6("")
	go names.Run()
	t.Cleanup(names.Shutdown)
	store := db.NewMemoryStore()
	issuer := ca.New(quiet, store, "", "ecdsa", 0, 1, map[string]ca.Profile{"default": {Description: "default", ValidityPeriod: uint64(valid.Seconds())}})
	front := wfe.New(quiet, store, va.New(quiet, plain, secure, true, dns, store), issuer, nil, true, false, 0, 0)
	a := &acmeServer{roots: x509.NewCertPool(), names: names, issued: x509.NewCertPool()}
	a.issued.AddCert(issuer.GetRootCert(0).Cert)
	handler := front.Handler()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.refuse.Load() {
			http.Error(w, "out of order", http.StatusServiceUnavailable)
			return
		}
		if strings.Contains(r.URL.Path, "order-plz") {
			a.orders.Add(1)
		}
		if len(between) > 0 {
			between[0](w, r, handler)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	a.certificate = s.Certificate()
	a.roots.AddCert(a.certificate)
	a.directory = s.URL + wfe.DirectoryPath
	return a
}

// asDNSProgram has the test binary be a program that makes records: it asks the URL.
const asDNSProgram = "PODTASK_TEST_DNS"

// asIngress has the test binary be podtask-ingress.
const asIngress = "PODTASK_TEST_INGRESS"

func TestMain(m *testing.M) {
	if os.Getenv(asIngress) != "" {
		os.Exit(program.Main(context.Background(), os.Args, "test"))
	}
	if url := os.Getenv(asDNSProgram); url != "" {
		verb, name, value := os.Args[1], os.Args[2], os.Args[3]
		r, err := http.Get(url + "/" + verb + "?name=" + name + "&value=" + value)
		if err != nil || r.StatusCode != http.StatusOK {
			fmt.Fprintln(os.Stderr, "the record cannot be made:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// A program makes the records by which a wildcard is proved, and removes them.
func TestACMEOverDNS(t *testing.T) {
	plain, secure := listen(t)
	a := newACME(t, freePort(t), freePort(t), time.Hour*24*90)
	var made, removed atomic.Int64
	records := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/present" {
			made.Add(1)
			a.names.AddDNSTXTRecord(r.FormValue("name")+".", r.FormValue("value"))
		} else {
			removed.Add(1)
			a.names.DeleteDNSTXTRecord(r.FormValue("name") + ".")
		}
	}))
	t.Cleanup(records.Close)
	t.Setenv(asDNSProgram, records.URL)
	h := newHost(t, t.TempDir(), listeners{plain: plain, secure: secure}, a, os.Args[0])
	h.Follow(routes(t, taskdef.Ingress{URL: "https://*.example.com"}))
	h.until(t, "*.example.com", issued)
	if leaf, err := h.leaf("app.example.com"); err != nil || leaf.VerifyHostname("app.example.com") != nil {
		t.Errorf("%v, %v", leaf, err)
	}
	if made.Load() != 1 || removed.Load() != 1 {
		t.Errorf("%d records were made, and %d removed", made.Load(), removed.Load())
	}
	plain, secure = listen(t)
	without := newHost(t, t.TempDir(), listeners{plain: plain, secure: secure}, a)
	without.Follow(routes(t, taskdef.Ingress{URL: "https://*.example.com"}))
	if all := without.Statuses(); len(all) != 1 || !strings.Contains(all[0].Problem, "acme-dns-program") {
		t.Errorf("without a program: %+v", all)
	}
	if _, err := without.leaf("app.example.com"); err == nil {
		t.Error("without a program there is a certificate")
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	return int(freeport.For(t))
}

// host is a manager with the listeners of a proxy.
type host struct {
	*certs.Manager
	changed       chan struct{}
	plain, secure int
	challenges    atomic.Int64
}

// listeners are those of a host. Its manager ends with a context, if there is one, else with the test.
type listeners struct {
	plain, secure net.Listener
	until         context.Context
}

// listen returns the listeners, which are there before the ACME server knows their ports.
func listen(t *testing.T) (plain, secure net.Listener) {
	t.Helper()
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	secure, err = net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return plain, secure
}

func port(l net.Listener) int { return l.Addr().(*net.TCPAddr).Port }

func newHost(t *testing.T, dir string, on listeners, a *acmeServer, dnsProgram ...string) *host {
	t.Helper()
	ctx := on.until
	if ctx == nil {
		ctx = t.Context()
	}
	plain, secure := on.plain, on.secure
	h := &host{changed: make(chan struct{}, 1), plain: port(plain), secure: port(secure)}
	cfg := certs.Config{Dir: dir, DNSProgram: dnsProgram, PlainPort: h.plain, SecurePort: h.secure, CheckEvery: 50 * time.Millisecond, Changed: func() {
		select {
		case h.changed <- struct{}{}:
		default:
		}
	}}
	if a != nil {
		cfg.Directory, cfg.Roots = a.directory, a.roots
	}
	var err error
	if h.Manager, err = certs.New(ctx, cfg); err != nil {
		t.Fatal(err)
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h.Challenge(w, r) {
			h.challenges.Add(1)
			return
		}
		_, _ = io.WriteString(w, "hello")
	})
	first := &http.Server{Handler: handler}
	second := &http.Server{Handler: handler, TLSConfig: h.TLS(), ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = first.Serve(plain) }()
	go func() { _ = second.ServeTLS(secure, "", "") }()
	t.Cleanup(func() { first.Close(); second.Close() })
	return h
}

// routes are for these names.
func routes(t *testing.T, all ...taskdef.Ingress) routefile.Table {
	t.Helper()
	var table routefile.Table
	for _, i := range all {
		i.Container, i.Port = "web", 80
		table.Routes = append(table.Routes, routefile.Route{Service: "web", Ingress: i})
	}
	path := filepath.Join(t.TempDir(), "routes.json")
	if err := routefile.Write(path, table); err != nil {
		t.Fatal(err)
	}
	table, err := routefile.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// until waits for a status of a name.
func (h *host) until(t *testing.T, name string, good func(ingress.Certificate) bool) ingress.Certificate {
	t.Helper()
	for {
		for _, s := range h.Statuses() {
			if s.Name == name && good(s) {
				return s
			}
		}
		select {
		case <-h.changed:
		case <-time.After(100 * time.Millisecond): // a certificate is in the cache a little after the event
		case <-t.Context().Done():
			t.Fatalf("the status is %+v", h.Statuses())
		}
	}
}

// leaf is the certificate that a client of a name gets.
func (h *host) leaf(name string) (*x509.Certificate, error) {
	c, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", h.secure), &tls.Config{ServerName: name, InsecureSkipVerify: true})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0], nil
}

// requests sends requests, each on a connection of its own, until end. Each is answered, with a certificate for the name that
// the server has issued and that has not ended.
func (h *host) requests(t *testing.T, a *acmeServer) (end func()) {
	t.Helper()
	c := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: a.issued},
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", h.secure))
		},
	}}
	stop, done, n := make(chan struct{}), make(chan struct{}), 0
	go func() {
		defer close(done)
		for {
			r, err := c.Get("https://app.example.com/")
			if err != nil {
				t.Errorf("request %d was lost: %v", n, err)
				return
			}
			r.Body.Close()
			n++
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	return func() { close(stop); <-done; t.Logf("%d requests", n) }
}

func issued(s ingress.Certificate) bool { return s.Problem == "" && !s.NotAfter.IsZero() }

func TestACMEOverHTTP(t *testing.T) {
	plain, secure := listen(t)
	a := newACME(t, port(plain), freePort(t), time.Hour*24*90)
	dir := t.TempDir()
	h := newHost(t, dir, listeners{plain: plain, secure: secure}, a)
	h.Follow(routes(t, taskdef.Ingress{URL: "https://app.example.com"}))
	h.until(t, "app.example.com", issued)
	leaf, err := h.leaf("app.example.com")
	if err != nil || leaf.VerifyHostname("app.example.com") != nil {
		t.Errorf("%v, %v", leaf, err)
	}
	if h.challenges.Load() == 0 {
		t.Error("no challenge came over HTTP")
	}
	if _, err := h.leaf("other.example.com"); err == nil {
		t.Error("a name without a route got a certificate")
	}

	// Another process uses what this one has stored, and asks for nothing.
	before := a.orders.Load()
	plain, secure = listen(t)
	again := newHost(t, dir, listeners{plain: plain, secure: secure}, a)
	again.Follow(routes(t, taskdef.Ingress{URL: "https://app.example.com"}))
	again.until(t, "app.example.com", issued)
	if n := a.orders.Load() - before; n != 0 {
		t.Errorf("%d more orders", n)
	}
	err = filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".key") {
			if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s: %v, %v", path, info.Mode(), err)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestACMEOverTLS(t *testing.T) {
	plain, secure := listen(t)
	a := newACME(t, freePort(t), port(secure), time.Hour*24*90)
	h := newHost(t, t.TempDir(), listeners{plain: plain, secure: secure}, a)
	h.Follow(routes(t, taskdef.Ingress{URL: "https://app.example.com/a"}, taskdef.Ingress{URL: "https://app.example.com/b"}))
	h.until(t, "app.example.com", issued)
	if leaf, err := h.leaf("app.example.com"); err != nil || leaf.VerifyHostname("app.example.com") != nil {
		t.Errorf("%v, %v", leaf, err)
	}
}

// A certificate is renewed when the server says so, and clients get the new one.
func TestACMERenews(t *testing.T) {
	plain, secure := listen(t)
	between := &renewals{}
	a := newACME(t, port(plain), port(secure), time.Hour*24*90, func(w http.ResponseWriter, q *http.Request, server http.Handler) {
		if strings.Contains(q.URL.Path, "order-plz") {
			between.due.Store(false) // certmagic has one renewal of a name in a process: none may outlast the test
		}
		between.serve(w, q, server)
	})
	h := newHost(t, t.TempDir(), listeners{plain: plain, secure: secure}, a)
	h.Follow(routes(t, taskdef.Ingress{URL: "https://app.example.com"}))
	h.until(t, "app.example.com", issued)
	first, err := h.leaf("app.example.com")
	if err != nil {
		t.Fatal(err)
	}
	end := h.requests(t, a)
	between.due.Store(true)
	h.until(t, "app.example.com", func(ingress.Certificate) bool {
		leaf, err := h.leaf("app.example.com")
		return err == nil && !leaf.Equal(first)
	})
	end()
}

// An authority that is out of order keeps one name without a certificate, and no other.
func TestACMEFails(t *testing.T) {
	plain, secure := listen(t)
	a := newACME(t, port(plain), port(secure), time.Hour)
	a.refuse.Store(true)
	h := newHost(t, t.TempDir(), listeners{plain: plain, secure: secure}, a)
	h.Follow(routes(t, taskdef.Ingress{URL: "https://app.example.com"}, taskdef.Ingress{URL: "https://app.localhost"}))
	s := h.until(t, "app.example.com", func(s ingress.Certificate) bool {
		return s.Problem != "" && s.Problem != "it is being issued"
	})
	if !strings.Contains(s.Problem, "503") {
		t.Errorf("the problem is %q", s.Problem)
	}
	if _, err := h.leaf("app.example.com"); err == nil {
		t.Error("there is a certificate")
	}
	if leaf, err := h.leaf("app.localhost"); err != nil || leaf.VerifyHostname("app.localhost") != nil {
		t.Errorf("the other name: %v", err)
	}
	h.Follow(routes(t, taskdef.Ingress{URL: "https://app.localhost"}))
	if all := h.Statuses(); len(all) != 1 || all[0].Problem != "" {
		t.Errorf("without the name: %+v", all)
	}
}

// renewals is between the clients and a server that says when to renew (RFC 9773), and refuses orders for a while.
type renewals struct {
	due    atomic.Bool
	refuse atomic.Pointer[func(http.ResponseWriter)]
}

func (r *renewals) serve(w http.ResponseWriter, q *http.Request, server http.Handler) {
	refuse := r.refuse.Load()
	switch {
	case strings.Contains(q.URL.Path, "renewalInfo"):
		start := time.Now().Add(24 * time.Hour)
		if r.due.Load() {
			start = time.Now().Add(-24 * time.Hour)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Retry-After", "1")
		fmt.Fprintf(w, `{"suggestedWindow": {"start": %q, "end": %q}}`, start.Format(time.RFC3339), start.Add(time.Hour).Format(time.RFC3339))
	case refuse != nil && strings.Contains(q.URL.Path, "order-plz"):
		(*refuse)(w)
	default:
		server.ServeHTTP(w, q)
	}
}

// A server that refuses to renew a certificate leaves the old one in use, and the status says why and until when. The
// next process renews it when the server does.
func TestACMERefusesToRenew(t *testing.T) {
	for name, c := range map[string]struct {
		refuse func(http.ResponseWriter)
		want   []string
	}{
		"an error": {func(w http.ResponseWriter) { http.Error(w, "out of \x1b[31morder", http.StatusServiceUnavailable) }, []string{"503"}},
		"a limit": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.Header().Set("Retry-After", "7200")
			w.WriteHeader(http.StatusTooManyRequests)
			until := time.Now().Add(2 * time.Hour).UTC().Format(time.DateTime)
			fmt.Fprintf(w, `{"type": "urn:ietf:params:acme:error:rateLimited", "status": 429, "detail": "too many certificates, retry after %s UTC: see https://acme.test"}`, until)
		}, []string{"too many certificates", "the server is not asked before"}},
	} {
		t.Run(name, func(t *testing.T) {
			plain, secure := listen(t)
			between := &renewals{}
			a := newACME(t, port(plain), port(secure), time.Hour*24*90, between.serve)
			dir := t.TempDir()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			h := newHost(t, dir, listeners{plain, secure, ctx}, a)
			h.Follow(routes(t, taskdef.Ingress{URL: "https://app.example.com"}))
			first := h.until(t, "app.example.com", issued)
			end := h.requests(t, a)
			between.refuse.Store(&c.refuse)
			between.due.Store(true)
			s := h.until(t, "app.example.com", func(s ingress.Certificate) bool { return s.Problem != "" })
			for _, want := range append(c.want, "it was not renewed, and ends on "+first.NotAfter.Format(time.RFC3339)) {
				if !strings.Contains(s.Problem, want) {
					t.Errorf("the problem is %q, want %q", s.Problem, want)
				}
			}
			if !s.Usable || s.Pending || strings.ContainsRune(s.Problem, 0x1b) || !s.NotAfter.Equal(first.NotAfter) {
				t.Errorf("the status is %+v", s)
			}
			end()
			cancel() // its successor has the storage

			between.refuse.Store(nil)
			plain, secure = listen(t)
			next := newHost(t, dir, listeners{plain: plain, secure: secure}, a)
			next.Follow(routes(t, taskdef.Ingress{URL: "https://app.example.com"}))
			next.until(t, "app.example.com", func(s ingress.Certificate) bool { return issued(s) && s.NotAfter.After(first.NotAfter) })
			next.requests(t, a)()
		})
	}
}
