package registrytest

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/podtask/podtask/internal/testing/faults"
)

// Auth is how a registry asks who is there.
type Auth int

// The kinds of Auth.
const (
	None  Auth = iota
	Basic      // HTTP basic authentication
	Token      // bearer tokens from /token, which wants basic authentication
)

// Options of a Registry. The zero value is an open registry over plain HTTP.
type Options struct {
	Auth           Auth
	User, Password string
	// IdentityToken is taken instead of the password at /token; empty: none is.
	IdentityToken string
	TLS           bool      // serve HTTPS with a certificate of a CA of its own (CertPEM)
	Log           io.Writer // gets a line per finished request; nil: none
}

// Registry is a running registry.
type Registry struct {
	*requestLog
	gate
	ca      []byte // of the certificate, in PEM
	storage storage
	rules   faults.Rules
	server  *http.Server
	served  chan struct{} // closed when the server has ended
}

// New starts a registry on a free port of 127.0.0.1. Close ends it.
func New(o Options) (*Registry, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start registry: %w", err)
	}
	r := &Registry{
		requestLog: newRequestLog(o.Log),
		gate:       gate{opts: o, addr: listener.Addr().String(), tokens: newTokens()},
		storage:    storage{registry.New(registry.Logger(log.New(io.Discard, "", 0)))},
		served:     make(chan struct{}),
	}
	if o.TLS {
		cert, ca, err := keyPair()
		if err != nil {
			listener.Close()
			return nil, fmt.Errorf("start registry: %w", err)
		}
		r.ca = ca
		listener = tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{cert}})
	}
	r.server = &http.Server{
		Handler:  r.wrap(r.rules.Wrap(r.authenticate(r.storage))),
		ErrorLog: log.New(io.Discard, "", 0), // reset connections are on order here
	}
	go func() {
		defer close(r.served)
		_ = r.server.Serve(listener) // ends with ErrServerClosed
	}()
	return r, nil
}

// TB is the part of testing.TB that Start needs; naming it here keeps package
// testing out of programs that use this package.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
}

// Start is New for a test: it is closed when the test ends.
func Start(t TB, o Options) *Registry {
	t.Helper()
	r, err := New(o)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(r.Close)
	return r
}

// Close ends the server, its connections and the requests in it, hung ones too.
func (r *Registry) Close() {
	r.server.Close()
	<-r.served
}

// Shutdown ends the server after the requests in it, or when ctx ends.
func (r *Registry) Shutdown(ctx context.Context) error {
	err := r.server.Shutdown(ctx)
	r.Close()
	return err
}

// Addr is the registry's host:port, the first part of its images' names.
func (r *Registry) Addr() string { return r.addr }

// Ref is the full reference of name, "app:1" say.
func (r *Registry) Ref(name string) string { return r.addr + "/" + name }

// AuthJSON is the content of a containers-auth.json(5) file that logs in here;
// without authentication it has no login.
func (r *Registry) AuthJSON() []byte {
	return r.AuthJSONFor(r.opts.User, r.opts.Password)
}

// AuthJSONFor is AuthJSON with another user or password.
func (r *Registry) AuthJSONFor(user, password string) []byte {
	type login struct {
		Auth string `json:"auth"`
	}
	logins := map[string]login{}
	if r.opts.Auth != None {
		logins[r.addr] = login{base64.StdEncoding.EncodeToString([]byte(user + ":" + password))}
	}
	b, err := json.MarshalIndent(map[string]any{"auths": logins}, "", "  ")
	if err != nil {
		panic(err) // maps of strings always marshal
	}
	return append(b, '\n')
}

// BearerToken hands out a token that opens a repository, as /token does.
func (r *Registry) BearerToken(repository string) string { return r.tokens.issue(repository) }

// RegistriesConf is the content of a containers-registries.conf(5) file under
// which this registry is spoken to without TLS, or without trust if it has TLS.
func (r *Registry) RegistriesConf() []byte {
	return fmt.Appendf(nil, "[[registry]]\nlocation = %q\ninsecure = true\n", r.addr)
}

// CertPEM is the CA's certificate of a registry with TLS: the ca.crt of certs.d.
func (r *Registry) CertPEM() []byte { return r.ca }

func keyPair() (cert tls.Certificate, ca []byte, err error) {
	ca, certPEM, keyPEM, err := Certificate()
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	cert, err = tls.X509KeyPair(certPEM, keyPEM)
	return cert, ca, err
}
