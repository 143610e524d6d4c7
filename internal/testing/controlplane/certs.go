package controlplane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// authority signs certificates.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// lifetime is that of all certificates.
const lifetime = 24 * time.Hour

// newAuthority makes an authority with the files DIR/NAME.crt and .key.
func newAuthority(dir, name string) (*authority, error) {
	a := &authority{dir: dir}
	template := &x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
	var err error
	a.cert, a.key, err = a.sign(name, template)
	return a, err
}

// sign makes a key and a certificate, signed by the authority or, before it has one, by itself.
func (a *authority) sign(name string, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return nil, nil, err
	}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Minute), time.Now().Add(lifetime)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return nil, nil, fmt.Errorf("sign %s: %w", name, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	for _, f := range []struct {
		suffix, kind string
		data         []byte
	}{{".crt", "CERTIFICATE", der}, {".key", "PRIVATE KEY", secret}} {
		text := pem.EncodeToMemory(&pem.Block{Type: f.kind, Bytes: f.data})
		if err := os.WriteFile(filepath.Join(a.dir, name+f.suffix), text, 0o600); err != nil {
			return nil, nil, err
		}
	}
	return cert, key, nil
}

// server makes a certificate for a server on loopback.
func (a *authority) server(name string) error {
	_, _, err := a.sign(name, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	return err
}

// client makes a certificate for a user.
func (a *authority) client(file, user string, groups ...string) error {
	_, _, err := a.sign(file, &x509.Certificate{
		Subject:  pkix.Name{CommonName: user, Organization: groups},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return err
}
