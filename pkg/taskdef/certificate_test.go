package taskdef_test

import (
	"encoding/pem"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/testing/certtest"
	"github.com/podtask/podtask/pkg/taskdef"
)

func TestCheckCertificate(t *testing.T) {
	t.Parallel()
	chain, key := certtest.Pair(t, "app.example.org", "*.dev.example.org", "192.0.2.1")
	other, otherKey := certtest.Pair(t)
	many, manyKey := certtest.Pair(t, "1.test", "2.test", "3.test", "4.test", "5.test", "6.test")
	locked := pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: []byte("hunter2")})
	broken := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("hunter2")})
	for _, c := range []struct {
		chain, key []byte
		host, want string
	}{
		{chain, key, "app.example.org", ""},
		{chain, key, "a.dev.example.org", ""},
		{chain, key, "*.dev.example.org", ""},
		{chain, key, "192.0.2.1", ""},
		{chain, key, "*.example.org", "not for *.example.org"},
		{chain, key, "www.example.org", `it is for "app.example.org", "*.dev.example.org", 192.0.2.1, and not for www.example.org`},
		{other, otherKey, "a.test", "it is for no name, and not for a.test"},
		{many, manyKey, "a.test", `"5.test", others, and not for a.test`},
		{chain, otherKey, "app.example.org", "the one of another certificate"},
		{nil, key, "app.example.org", "no certificate in PEM"},
		{key, key, "app.example.org", "no certificate in PEM"},
		{chain, nil, "app.example.org", "no private key"},
		{chain, locked, "app.example.org", "without a password"},
		{chain, broken, "app.example.org", "cannot be read"},
	} {
		problem := taskdef.CheckCertificate(c.chain, c.key, c.host)
		if !strings.Contains(problem, c.want) || (c.want == "") != (problem == "") || strings.Contains(problem, "hunter") {
			t.Errorf("for %s: %q, want %q", c.host, problem, c.want)
		}
	}
}

// A certificate is a file or a secret, and its key the same.
func TestCertificateOfAnIngress(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ certificate, key, want string }{
		{"/c.pem", "/k.pem", ""},
		{"podman:crt", "podman:key", ""},
		{"credential:crt", "command:pass tls", ""},
		{"env:PODTASK_POD_1", "env:PODTASK_POD_2", ""}, // of a manifest
		{"podman:crt", "", "give both or none"},
		{"podman:crt", "/k.pem", "a secret of this host"},
		{"/c.pem", "podman:key", "absolute path"},
		{"env:CRT", "env:KEY", "as podman:NAME"},
		{"podman:crt", "env:KEY", "a secret of this host"},
		{"acme", "podman:key", "give both or none"},
	} {
		i := taskdef.Ingress{URL: "https://a.test", Container: "web", Port: 80, Certificate: c.certificate, CertificateKey: c.key}
		var texts []string
		for _, p := range i.Check() {
			texts = append(texts, p.Text)
		}
		if all := strings.Join(texts, "; "); !strings.Contains(all, c.want) || (c.want == "") != (all == "") {
			t.Errorf("%s with %s: %q, want %q", c.certificate, c.key, all, c.want)
		}
	}
}

func FuzzCheckCertificate(f *testing.F) {
	chain, key := certtest.Pair(f, "a.test")
	f.Add(chain, key, "a.test")
	f.Add([]byte("-----BEGIN CERTIFICATE-----\n"), []byte("-----BEGIN EC PRIVATE KEY-----\nDEK-Info: x\n"), "*.b.test")
	f.Fuzz(func(t *testing.T, chain, key []byte, host string) {
		problem := taskdef.CheckCertificate(chain, key, host)
		if problem != "" && len(key) > 20 && strings.Contains(problem, string(key)) {
			t.Errorf("the problem has the key: %q", problem)
		}
	})
}
