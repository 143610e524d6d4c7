package certs

import (
	"crypto/tls"
)

// challengeProtocol is the ALPN protocol of TLS-ALPN-01 (RFC 8737).
const challengeProtocol = "acme-tls/1"

// TLS returns how the proxy speaks TLS.
func (m *Manager) TLS() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: m.Get, NextProtos: []string{"h2", "http/1.1", challengeProtocol}}
}
