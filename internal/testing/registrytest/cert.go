package registrytest

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
	"time"
)

// Certificate makes a certificate for 127.0.0.1 and its key, and the private CA that
// signed it and that nobody trusts yet; all in PEM.
func Certificate() (ca, cert, key []byte, err error) {
	authority := template("registrytest CA", 1)
	authority.IsCA, authority.KeyUsage = true, x509.KeyUsageCertSign
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("make a CA: %w", err)
	}
	caDER, err := x509.CreateCertificate(rand.Reader, authority, authority, caKey.Public(), caKey)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("make a CA: %w", err)
	}
	server := template("registrytest", 2)
	server.KeyUsage, server.IPAddresses = x509.KeyUsageDigitalSignature, []net.IP{net.IPv4(127, 0, 0, 1)}
	serverKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("make a certificate: %w", err)
	}
	serverDER, err := x509.CreateCertificate(rand.Reader, server, authority, serverKey.Public(), caKey)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("make a certificate: %w", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(serverKey)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("make a certificate: %w", err)
	}
	in := func(kind string, der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) }
	return in("CERTIFICATE", caDER), in("CERTIFICATE", serverDER), in("PRIVATE KEY", keyDER), nil
}

func template(name string, serial int64) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber:          big.NewInt(serial),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		BasicConstraintsValid: true,
	}
}
