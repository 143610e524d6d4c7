package program

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha1"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/aws/instance/awscall"
)

// amazon is a network in which each name of AWS is one server, whose certificate is of a private authority, and
// proxy.example is a proxy.
type amazon struct {
	server, proxy *httptest.Server
	authority     string // a file

	mu               sync.Mutex
	proxied, reached []string // hosts that the proxy was asked for, and those that were called without it
}

func newAmazon(t *testing.T) *amazon {
	t.Helper()
	a := &amazon{authority: filepath.Join(t.TempDir(), "ca.pem")}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	own := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"*.eu-central-1.amazonaws.com", "api.ecr.eu-central-1.amazonaws.com"}}
	der, err := x509.CreateCertificate(rand.Reader, own, own, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(a.authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	a.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if key := r.Header.Get("Sec-WebSocket-Key"); key != "" {
			sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) // RFC 6455
			w.Header().Set("Upgrade", "websocket")
			w.Header().Set("Connection", "Upgrade")
			w.Header().Set("Sec-WebSocket-Accept", base64.StdEncoding.EncodeToString(sum[:]))
			w.WriteHeader(http.StatusSwitchingProtocols)
			return
		}
		if strings.HasPrefix(r.Host, "sts.") {
			_, _ = io.WriteString(w, `<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult><Arn>arn:aws:iam::111122223333:user/a</Arn><UserId>A</UserId><Account>111122223333</Account></GetCallerIdentityResult></GetCallerIdentityResponse>`)
			return
		}
		_, _ = io.WriteString(w, "{}")
	}))
	a.server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	a.server.StartTLS()
	t.Cleanup(a.server.Close)
	a.proxy = httptest.NewServer(http.HandlerFunc(a.tunnel))
	t.Cleanup(a.proxy.Close)
	return a
}

// tunnel answers CONNECT.
func (a *amazon) tunnel(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect {
		http.Error(w, "only CONNECT", http.StatusMethodNotAllowed)
		return
	}
	a.note(&a.proxied, r.Host)
	to, err := new(net.Dialer).DialContext(r.Context(), "tcp", a.server.Listener.Addr().String())
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(http.StatusOK)
	from, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	go func() {
		_, _ = io.Copy(to, buffered)
		to.Close()
	}()
	_, _ = io.Copy(from, to)
	from.Close()
}

func (a *amazon) note(list *[]string, address string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	host, _, _ := net.SplitHostPort(address)
	if !slices.Contains(*list, host) {
		*list = append(*list, host)
	}
}

// dial connects to a name.
func (a *amazon) dial(ctx context.Context, network, address string) (net.Conn, error) {
	to := a.server
	if address == "proxy.example:3128" {
		to = a.proxy
	} else {
		a.note(&a.reached, address)
	}
	return new(net.Dialer).DialContext(ctx, network, to.Listener.Addr().String())
}

// client is the client of a host with an environment.
func (a *amazon) client(t *testing.T, env map[string]string) *awscall.Client {
	t.Helper()
	env["AWS_ACCESS_KEY_ID"], env["AWS_SECRET_ACCESS_KEY"] = "A", "B"
	o := newOptions(commands[0], io.Discard, host(t, env), "1")
	if err := o.parse([]string{"--region", "eu-central-1"}); err != nil {
		t.Fatal(err)
	}
	c, err := o.calls()
	if err != nil {
		t.Fatal(err)
	}
	transport := c.HTTP.Transport.(*http.Transport)
	transport.DialContext, transport.DisableKeepAlives = a.dial, true
	return c
}

// callAll calls each service and opens both web sockets.
func callAll(t *testing.T, c *awscall.Client) (failed []error) {
	t.Helper()
	for _, s := range []awscall.Service{awscall.ECS, awscall.SSM, awscall.SecretsManager, awscall.ECR} {
		if err := c.Call(t.Context(), s, "Do", map[string]string{}, nil); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", s.Name, err))
		}
	}
	if _, err := c.Caller(t.Context()); err != nil {
		failed = append(failed, fmt.Errorf("sts: %w", err))
	}
	if _, err := c.Get(t.Context(), "settings", "a.env"); err != nil {
		failed = append(failed, fmt.Errorf("s3: %w", err))
	}
	for _, link := range []string{"a", "t"} {
		ws, err := c.Dial(t.Context(), "https://ecs-"+link+"-1.eu-central-1.amazonaws.com/ws")
		if err != nil {
			failed = append(failed, fmt.Errorf("the web socket %s: %w", link, err))
			continue
		}
		ws.Close("")
	}
	return failed
}

// hostsOfAWS are the hosts of callAll.
var hostsOfAWS = []string{"api.ecr", "ecs", "ecs-a-1", "ecs-t-1", "s3", "secretsmanager", "ssm", "sts"}

// Calls and web sockets of every service go by the proxy, and those of NO_PROXY past it; certificates of a private authority are
// trusted either way, and not without AWS_CA_BUNDLE.
func TestProxiesAndPrivateAuthorities(t *testing.T) {
	t.Parallel()
	const suffix = ".eu-central-1.amazonaws.com"
	for name, tt := range map[string]struct {
		env    map[string]string
		direct []string // of hostsOfAWS
	}{
		"no proxy at all":      {map[string]string{}, hostsOfAWS},
		"a proxy for all":      {map[string]string{"HTTPS_PROXY": "http://proxy.example:3128"}, nil},
		"in small letters":     {map[string]string{"https_proxy": "proxy.example:3128", "no_proxy": "ssm" + suffix}, []string{"ssm"}},
		"a service without":    {map[string]string{"HTTPS_PROXY": "http://proxy.example:3128", "NO_PROXY": "secretsmanager" + suffix + ",169.254.0.0/16"}, []string{"secretsmanager"}},
		"web sockets without":  {map[string]string{"HTTPS_PROXY": "http://proxy.example:3128", "NO_PROXY": "ecs-a-1" + suffix + ", ecs-t-1" + suffix + ":443"}, []string{"ecs-a-1", "ecs-t-1"}},
		"all of AWS without":   {map[string]string{"HTTPS_PROXY": "http://proxy.example:3128", "NO_PROXY": ".amazonaws.com"}, hostsOfAWS},
		"a proxy of HTTP only": {map[string]string{"HTTP_PROXY": "http://proxy.example:3128"}, hostsOfAWS},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAmazon(t)
			tt.env["AWS_CA_BUNDLE"] = a.authority
			for _, err := range callAll(t, a.client(t, tt.env)) {
				t.Error(err)
			}
			var direct, proxied []string
			for _, h := range hostsOfAWS {
				if slices.Contains(tt.direct, h) {
					direct = append(direct, h+suffix)
				} else {
					proxied = append(proxied, h+suffix)
				}
			}
			slices.Sort(direct)
			slices.Sort(proxied)
			slices.Sort(a.reached)
			slices.Sort(a.proxied)
			if !slices.Equal(a.reached, direct) || !slices.Equal(a.proxied, proxied) {
				t.Errorf("without the proxy %v, by it %v", a.reached, a.proxied)
			}
		})
	}
	t.Run("an authority that is not trusted", func(t *testing.T) {
		t.Parallel()
		a := newAmazon(t)
		failed := callAll(t, a.client(t, map[string]string{}))
		if len(failed) != len(hostsOfAWS) {
			t.Errorf("%v", failed)
		}
		for _, err := range failed {
			if !strings.Contains(err.Error(), "certificate") {
				t.Error(err)
			}
		}
	})
}
