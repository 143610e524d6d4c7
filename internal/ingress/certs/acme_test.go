package certs_test

import (
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
	"github.com/podtask/podtask/internal/ingress/routefile"
	"github.com/podtask/podtask/pkg/taskdef"
)

// acmeServer is Pebble, the ACME server for tests of Let's Encrypt.
type acmeServer struct {
	directory string
	roots     *x509.CertPool // of the server's own certificate
	orders    atomic.Int64
	refuse    atomic.Bool // answers nothing but errors
}

// newACME starts a server that validates names at these ports, and issues certificates for a time.
func newACME(t *testing.T, plain, secure int, valid time.Duration) *acmeServer {
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
	a := &acmeServer{roots: x509.NewCertPool()}
	handler := front.Handler()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.refuse.Load() {
			http.Error(w, "out of order", http.StatusServiceUnavailable)
			return
		}
		if strings.Contains(r.URL.Path, "order-plz") {
			a.orders.Add(1)
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	a.roots.AddCert(s.Certificate())
	a.directory = s.URL + wfe.DirectoryPath
	return a
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// host is a manager with the listeners of a proxy.
type host struct {
	*certs.Manager
	changed       chan struct{}
	plain, secure int
	challenges    atomic.Int64
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

func newHost(t *testing.T, dir string, plain, secure net.Listener, a *acmeServer) *host {
	t.Helper()
	h := &host{changed: make(chan struct{}, 1), plain: port(plain), secure: port(secure)}
	cfg := certs.Config{Dir: dir, PlainPort: h.plain, SecurePort: h.secure, CheckEvery: 50 * time.Millisecond, Changed: func() {
		select {
		case h.changed <- struct{}{}:
		default:
		}
	}}
	if a != nil {
		cfg.Directory, cfg.Roots = a.directory, a.roots
	}
	var err error
	if h.Manager, err = certs.New(t.Context(), cfg); err != nil {
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

func issued(s ingress.Certificate) bool { return s.Problem == "" && !s.NotAfter.IsZero() }

func TestACMEOverHTTP(t *testing.T) {
	plain, secure := listen(t)
	a := newACME(t, port(plain), freePort(t), time.Hour*24*90)
	dir := t.TempDir()
	h := newHost(t, dir, plain, secure, a)
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
	again := newHost(t, dir, plain, secure, a)
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
	h := newHost(t, t.TempDir(), plain, secure, a)
	h.Follow(routes(t, taskdef.Ingress{URL: "https://app.example.com/a"}, taskdef.Ingress{URL: "https://app.example.com/b"}))
	h.until(t, "app.example.com", issued)
	if leaf, err := h.leaf("app.example.com"); err != nil || leaf.VerifyHostname("app.example.com") != nil {
		t.Errorf("%v, %v", leaf, err)
	}
}

// A certificate is renewed before it ends, and clients get the new one.
func TestACMERenews(t *testing.T) {
	plain, secure := listen(t)
	a := newACME(t, port(plain), port(secure), 6*time.Second)
	h := newHost(t, t.TempDir(), plain, secure, a)
	h.Follow(routes(t, taskdef.Ingress{URL: "https://app.example.com"}))
	first := h.until(t, "app.example.com", func(s ingress.Certificate) bool { return !s.NotAfter.IsZero() })
	h.until(t, "app.example.com", func(s ingress.Certificate) bool { return s.NotAfter.After(first.NotAfter) })
	if leaf, err := h.leaf("app.example.com"); err != nil || !leaf.NotAfter.After(first.NotAfter) {
		t.Errorf("%v, %v", leaf, err)
	}
}

// An authority that is out of order keeps one name without a certificate, and no other.
func TestACMEFails(t *testing.T) {
	plain, secure := listen(t)
	a := newACME(t, port(plain), port(secure), time.Hour)
	a.refuse.Store(true)
	h := newHost(t, t.TempDir(), plain, secure, a)
	h.Follow(routes(t, taskdef.Ingress{URL: "https://app.example.com"}, taskdef.Ingress{URL: "https://app.localhost"}))
	s := h.until(t, "app.example.com", func(s ingress.Certificate) bool {
		return s.Problem != "" && s.Problem != "it is being obtained"
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
