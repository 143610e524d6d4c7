package kubeserve_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/kube/kubeserve"
	"github.com/podtask/podtask/internal/testing/rudeclient"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// cluster is an API server that knows some users, and a node that asks it.
type cluster struct {
	t    *testing.T
	ca   *x509.Certificate
	key  *ecdsa.PrivateKey
	pods *pods
	addr string

	mu      sync.Mutex
	down    bool
	asked   []string // "USER VERB SUBRESOURCE"
	reviews int
}

// allowed are the users that may use nodes, with what they may.
var allowed = map[string][]string{
	"kube-apiserver-kubelet-client":              {"create proxy", "get proxy", "get stats", "get metrics", "get log"},
	"system:serviceaccount:monitoring:collector": {"get metrics"},
}

// tokens are the users of tokens.
var tokens = map[string]string{"good": "system:serviceaccount:monitoring:collector", "stranger": "system:serviceaccount:default:default"}

func newCluster(t *testing.T) *cluster {
	c := &cluster{t: t, pods: &pods{}}
	api := httptest.NewServer(http.HandlerFunc(c.api))
	t.Cleanup(api.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: api.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	c.ca, c.key = c.sign(&x509.Certificate{Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true})
	serving := c.pair(&x509.Certificate{Subject: pkix.Name{CommonName: "system:node:edge"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	cas := x509.NewCertPool()
	cas.AddCert(c.ca)
	server := kubeserve.New(kubeserve.Config{
		Node: "edge", Pods: c.pods, Bound: bound, Settings: map[string]any{"maxPods": 7}, Client: client, ClientCAs: cas, Log: slog.New(slog.DiscardHandler),
		Certificate: func() (*tls.Certificate, error) { return &serving, nil },
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.addr = l.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return c
}

// api answers reviews.
func (c *cluster) api(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reviews++
	if c.down {
		http.Error(w, "no", http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	switch {
	case strings.HasSuffix(r.URL.Path, "/tokenreviews"):
		var review authenticationv1.TokenReview
		_ = json.NewDecoder(r.Body).Decode(&review)
		review.Status.User.Username, review.Status.Authenticated = tokens[review.Spec.Token], tokens[review.Spec.Token] != ""
		_ = json.NewEncoder(w).Encode(review)
	case strings.HasSuffix(r.URL.Path, "/subjectaccessreviews"):
		var review authorizationv1.SubjectAccessReview
		_ = json.NewDecoder(r.Body).Decode(&review)
		a := review.Spec.ResourceAttributes
		what := a.Verb + " " + a.Subresource
		c.asked = append(c.asked, review.Spec.User+" "+what)
		review.Status.Allowed = a.Resource == "nodes" && a.Name == "edge" && slices.Contains(allowed[review.Spec.User], what)
		_ = json.NewEncoder(w).Encode(review)
	default:
		http.NotFound(w, r)
	}
}

func (c *cluster) sign(template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	c.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		c.t.Fatal(err)
	}
	template.SerialNumber, template.NotBefore, template.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := c.ca, c.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		c.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		c.t.Fatal(err)
	}
	return cert, key
}

func (c *cluster) pair(template *x509.Certificate) tls.Certificate {
	cert, key := c.sign(template)
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert}
}

// as is the configuration of a client with a certificate for a user; empty: none.
func (c *cluster) as(user string, groups ...string) *rest.Config {
	cfg := &rest.Config{Host: "https://" + c.addr, TLSClientConfig: rest.TLSClientConfig{CAData: pemOf("CERTIFICATE", c.ca.Raw)}}
	if user != "" {
		cert, key := c.sign(&x509.Certificate{Subject: pkix.Name{CommonName: user, Organization: groups}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		der, err := x509.MarshalECPrivateKey(key)
		if err != nil {
			c.t.Fatal(err)
		}
		cfg.CertData, cfg.KeyData = pemOf("CERTIFICATE", cert.Raw), pemOf("EC PRIVATE KEY", der)
	}
	return cfg
}

func pemOf(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// server is the configuration of the API server as a client.
func (c *cluster) server() *rest.Config { return c.as("kube-apiserver-kubelet-client") }

// get returns the status and the body of an answer.
func (c *cluster) get(cfg *rest.Config, path string) (status int, body string) {
	c.t.Helper()
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	resp, err := client.Get(cfg.Host + path)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

func TestWhoMayCall(t *testing.T) {
	t.Parallel()
	const log, metrics = "/containerLogs/default/web/main", "/metrics/resource"
	for _, tt := range []struct {
		name, user, token, path string
		groups                  []string
		down                    bool
		status                  int
		asked                   string
	}{
		{name: "no credentials", path: log, status: 401},
		{name: "no credentials for metrics", path: metrics, status: 401},
		{name: "an unknown token", token: "bad", path: metrics, status: 401},
		{name: "another node of the cluster", user: "system:node:other", groups: []string{"system:nodes"}, path: log, status: 403, asked: "system:node:other get proxy"},
		{name: "this node itself", user: "system:node:edge", groups: []string{"system:nodes"}, path: log, status: 403, asked: "system:node:edge get proxy"},
		{name: "another node for metrics", user: "system:node:other", groups: []string{"system:nodes"}, path: metrics, status: 403, asked: "system:node:other get metrics"},
		{name: "another node for a path that does not exist", user: "system:node:other", path: "/nothing", status: 403, asked: "system:node:other get proxy"},
		{name: "a service account without permission", token: "stranger", path: log, status: 403, asked: "system:serviceaccount:default:default get proxy"},
		{name: "metrics do not include logs", token: "good", path: log, status: 403, asked: "system:serviceaccount:monitoring:collector get proxy"},
		{name: "no API server to ask about a user", user: "kube-apiserver-kubelet-client", path: log, down: true, status: 503},
		{name: "no API server to ask about a token", token: "good", path: metrics, down: true, status: 503},
		{name: "a service account with permission", token: "good", path: metrics, status: 200, asked: "system:serviceaccount:monitoring:collector get metrics"},
		{name: "the API server", user: "kube-apiserver-kubelet-client", path: log, status: 200, asked: "kube-apiserver-kubelet-client get proxy"},
		{name: "the API server for a path that does not exist", user: "kube-apiserver-kubelet-client", path: "/nothing", status: 404, asked: "kube-apiserver-kubelet-client get proxy"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			c.down = tt.down
			cfg := c.as(tt.user, tt.groups...)
			cfg.BearerToken = tt.token
			status, body := c.get(cfg, tt.path)
			if status != tt.status {
				t.Errorf("status %d (%s), want %d", status, body, tt.status)
			}
			if status != http.StatusOK && c.pods.called() {
				t.Error("a Pod was touched for a caller that was refused")
			}
			if got := strings.Join(c.asked, ", "); got != tt.asked {
				t.Errorf("the API server was asked about %q, want %q", got, tt.asked)
			}
			if tt.token != "" && strings.Contains(body, tt.token) {
				t.Errorf("the answer has the token: %s", body)
			}
		})
	}
}

func TestCertificateOfAnotherAuthorityIsRefused(t *testing.T) {
	t.Parallel()
	c, other := newCluster(t), newCluster(t)
	cfg := other.as("kube-apiserver-kubelet-client")
	cfg.Host, cfg.CAData = "https://"+c.addr, pemOf("CERTIFICATE", c.ca.Raw)
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Get(cfg.Host + "/containerLogs/default/web/main")
	if err == nil {
		resp.Body.Close()
		t.Errorf("status %d, want a refused connection", resp.StatusCode)
	}
	if c.pods.called() {
		t.Error("a Pod was touched")
	}
}

func TestAnswersOfTheAPIServerAreKept(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	cfg := c.as("")
	cfg.BearerToken = "good"
	for range 3 {
		if status, body := c.get(cfg, "/metrics/resource"); status != http.StatusOK {
			t.Fatalf("status %d: %s", status, body)
		}
	}
	if c.reviews != 2 {
		t.Errorf("%d reviews for three requests, want 2", c.reviews)
	}
}

// pods are Pods that note calls.
type pods struct {
	mu    sync.Mutex
	calls []string
	query kubeserve.LogQuery
	lines []kubeserve.Line
	err   error
	exec  func(ctx context.Context, command []string, s kubeserve.Streams) (int, error)
	usage kubeserve.Usage
}

func (p *pods) note(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, fmt.Sprintf(format, args...))
}

func (p *pods) called() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.calls) > 0
}

func (p *pods) Logs(_ context.Context, ref kubeserve.Ref, q kubeserve.LogQuery, fn func(kubeserve.Line) error) error {
	p.note("logs %v", ref)
	p.query = q
	for _, l := range p.lines {
		if err := fn(l); err != nil {
			return err
		}
	}
	return p.err
}

func (p *pods) Exec(ctx context.Context, ref kubeserve.Ref, command []string, s kubeserve.Streams) (int, error) {
	p.note("exec %v", ref)
	return p.exec(ctx, command, s)
}

func (p *pods) Attach(ctx context.Context, ref kubeserve.Ref, s kubeserve.Streams) error {
	p.note("attach %v", ref)
	_, err := p.exec(ctx, nil, s)
	return err
}

func (p *pods) Forward(_ context.Context, ref kubeserve.Ref, port uint16, stream io.ReadWriter) error {
	p.note("forward %v %d", ref, port)
	_, err := io.Copy(stream, stream)
	return err
}

func (p *pods) Usage(context.Context) (kubeserve.Usage, error) {
	p.note("usage")
	return p.usage, p.err
}

// Unknown clients take no place of those that may call, in TLS or before it.
func TestRudeClients(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	dial := func() (net.Conn, error) { return net.Dial("tcp", c.addr) }
	rudeclient.Crowd(t, 30, "/healthz", dial)
	rudeclient.Crowd(t, 20, "/healthz", func() (net.Conn, error) {
		raw, err := dial()
		if err != nil {
			return nil, err
		}
		return tls.Client(raw, &tls.Config{InsecureSkipVerify: true}), nil
	})
	for range 300 { // with those before more than there may be
		silent, err := dial()
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
	}
	if status, body := c.get(c.server(), "/stats/summary"); status != http.StatusOK {
		t.Errorf("a caller that may call: %d %s", status, body)
	}
}
