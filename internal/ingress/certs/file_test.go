package certs_test

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/ingress"
	"github.com/podtask/podtask/internal/ingress/authority"
	"github.com/podtask/podtask/pkg/taskdef"
)

// writePair writes a certificate for a name into two files, as programs that renew certificates do: the new files get
// the place of the old ones.
func writePair(t *testing.T, dir, name string) {
	t.Helper()
	a, err := authority.Open(authority.Path(t.TempDir()), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	c, err := a.Certificate(name)
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{"key.pem": {Type: "PRIVATE KEY", Bytes: key}, "cert.pem": {Type: "CERTIFICATE", Bytes: c.Certificate[0]}} {
		path := filepath.Join(dir, file)
		if err := os.WriteFile(path+".new", pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
}

// Files are followed. The last good certificate stays while they are damaged.
func TestFiles(t *testing.T) {
	plain, secure := listen(t)
	h := newHost(t, t.TempDir(), listeners{plain: plain, secure: secure}, nil)
	dir := t.TempDir()
	address := taskdef.Ingress{URL: "https://app.example.org", Certificate: filepath.Join(dir, "cert.pem"), CertificateKey: filepath.Join(dir, "key.pem")}
	h.Follow(routes(t, address))
	if all := h.Statuses(); len(all) != 1 || !strings.Contains(all[0].Problem, "no such file") {
		t.Errorf("without files: %+v", all)
	}
	if _, err := h.leaf("app.example.org"); err == nil {
		t.Error("there is a certificate without files")
	}
	writePair(t, dir, "app.example.org")
	h.until(t, "app.example.org", func(s ingress.Certificate) bool { return !s.NotAfter.IsZero() })
	first, err := h.leaf("app.example.org")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cert.pem"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.until(t, "app.example.org", func(s ingress.Certificate) bool { return strings.Contains(s.Problem, "PEM") && !s.NotAfter.IsZero() })
	if again, err := h.leaf("app.example.org"); err != nil || !again.Equal(first) {
		t.Errorf("with a damaged file the certificate is another one, %v", err)
	}
	writePair(t, dir, "other.example.org")
	s := h.until(t, "app.example.org", func(s ingress.Certificate) bool { return strings.Contains(s.Problem, "it is for") })
	if !strings.Contains(s.Problem, "other.example.org") {
		t.Errorf("the problem is %q", s.Problem)
	}
}
