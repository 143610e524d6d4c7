package kubeserve_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/kube/kubeserve"
)

func TestCertificateIsReadAgainWhenItsFileHasChanged(t *testing.T) {
	t.Parallel()
	c := &cluster{t: t}
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	write := func(name string, at time.Time) {
		cert, key := c.sign(&x509.Certificate{Subject: pkix.Name{CommonName: name}})
		der, err := x509.MarshalECPrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		for file, text := range map[string][]byte{certFile: pemOf("CERTIFICATE", cert.Raw), keyFile: pemOf("EC PRIVATE KEY", der)} {
			if err := os.WriteFile(file, text, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(file, at, at); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := kubeserve.FileCertificate(certFile, keyFile); err == nil {
		t.Error("no error without files")
	}
	write("first", time.Unix(1000, 0))
	get, err := kubeserve.FileCertificate(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	want := func(name string) {
		t.Helper()
		pair, err := get()
		if err != nil || pair.Leaf.Subject.CommonName != name {
			t.Errorf("certificate %v (%v), want %s", pair.Leaf.Subject, err, name)
		}
	}
	want("first")
	write("second", time.Unix(2000, 0))
	want("second")
	// Half of a replacement: the certificate in use stays.
	if err := os.WriteFile(certFile, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	want("second")
}
