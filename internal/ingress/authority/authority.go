package authority

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

const (
	authorityYears = 10
	// leafTime is the time for which a certificate of the internal authority is valid; it is replaced when leafRenew is left.
	leafTime  = 7 * 24 * time.Hour
	leafRenew = 2 * 24 * time.Hour
	// clockSkew is how much the clocks of clients may be behind.
	clockSkew = time.Hour
	// maxLeaves is the number of certificates that are kept in memory.
	maxLeaves = 4096
)

// Authority issues certificates for names that no public authority certifies. Its methods may be called
// concurrently.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte // of the certificate
	now  func() time.Time

	mu     sync.Mutex
	leaves map[string]*tls.Certificate
}

// Path is the file with certificate and key of the authority below a state directory.
func Path(stateDir string) string {
	return filepath.Join(stateDir, "ingress", "authority.pem")
}

// Open reads the authority of a file. If there is none, it makes one. Of several processes
// that do so at once, one wins.
func Open(path string, now func() time.Time) (*Authority, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := createAuthority(path, now()); err != nil {
			return nil, err
		}
		data, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, err
	}
	a, err := parseAuthority(data, now)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; remove the file for a new authority, which has to be trusted anew", path, err)
	}
	return a, nil
}

func parseAuthority(data []byte, now func() time.Time) (*Authority, error) {
	pair, err := tls.X509KeyPair(data, data)
	if err != nil {
		return nil, err
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok || pair.Leaf == nil || !pair.Leaf.IsCA {
		return nil, errors.New("it is not an authority with an ECDSA key")
	}
	encoded := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Leaf.Raw})
	return &Authority{cert: pair.Leaf, key: key, pem: encoded, now: now, leaves: map[string]*tls.Certificate{}}, nil
}

// createAuthority makes an authority, unless the file is there by then.
func createAuthority(path string, now time.Time) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "this host"
	}
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{Organization: []string{"podtask"}, CommonName: "podtask internal authority of " + host},
		NotBefore: now.Add(-clockSkew), NotAfter: now.AddDate(authorityYears, 0, 0), KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	err = errors.Join(pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.Encode(&text, &pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".authority-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(text.Bytes())
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

func serial() *big.Int {
	n, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)) // never fails
	return n.Add(n, big.NewInt(1))
}

// PEM is the certificate of the authority, which clients have to trust.
func (a *Authority) PEM() []byte { return bytes.Clone(a.pem) }

// Fingerprint is the SHA-256 of the certificate, in hexadecimal.
func (a *Authority) Fingerprint() string {
	sum := sha256.Sum256(a.cert.Raw)
	return hex.EncodeToString(sum[:])
}

// Subject is what the certificate is for, NotAfter when it ends.
func (a *Authority) Subject() string { return a.cert.Subject.CommonName }

// NotAfter is the time at which the certificate of the authority ends.
func (a *Authority) NotAfter() time.Time { return a.cert.NotAfter }

// Certificate returns a certificate for a name, perhaps with a wildcard, or an IP address.
func (a *Authority) Certificate(name string) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	if c := a.leaves[name]; c != nil && now.Before(c.Leaf.NotAfter.Add(-leafRenew)) {
		return c, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: strings.TrimPrefix(name, "*.")[:min(64, len(strings.TrimPrefix(name, "*.")))]},
		NotBefore: now.Add(-clockSkew), NotAfter: now.Add(leafTime),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true,
	}
	if ip := net.ParseIP(name); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{name}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	c := &tls.Certificate{Certificate: [][]byte{der, a.cert.Raw}, PrivateKey: key, Leaf: leaf}
	if len(a.leaves) >= maxLeaves {
		clear(a.leaves)
	}
	a.leaves[name] = c
	return c, nil
}
