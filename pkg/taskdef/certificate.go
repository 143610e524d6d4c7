package taskdef

import (
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"strings"
)

// manifestSecret begins the sources of what a manifest itself contains. Only what reads the manifest has them.
const manifestSecret = "env:PODTASK_POD_"

// isCertificateSource reports whether a certificate or its key is a secret, not a file that is followed.
func isCertificateSource(s string) bool {
	return IsSecretSource(s) && (!strings.HasPrefix(s, "env:") || strings.HasPrefix(s, manifestSecret))
}

// CertificateFromSecret reports whether Certificate and CertificateKey are sources of secrets.
func (i Ingress) CertificateFromSecret() bool { return isCertificateSource(i.Certificate) }

// CertificateOfManifest reports whether the certificate is in a Secret of a manifest that is not registered.
func (i Ingress) CertificateOfManifest() bool {
	return strings.HasPrefix(i.Certificate, manifestSecret)
}

// certificateNames bounds the names of a certificate in a message.
const certificateNames = 5

// CheckCertificate returns what is wrong with a certificate for a host of an address: a chain and its key, both PEM.
// It is "" for nothing. The text contains nothing of the key. Whether the certificate has ended is not looked at.
func CheckCertificate(chain, key []byte, host string) string {
	cert, err := tls.X509KeyPair(chain, key)
	if err != nil { // its text may have parts of the key
		switch {
		case !hasBlock(chain, "CERTIFICATE"):
			return "it has no certificate in PEM"
		case !hasBlock(key, "PRIVATE KEY"):
			return "it has no private key in PEM without a password"
		case strings.Contains(err.Error(), "does not match"):
			return "its key is the one of another certificate"
		}
		return "its certificate or key cannot be read"
	}
	probe := host
	if rest, wild := strings.CutPrefix(host, "*."); wild {
		probe = "any." + rest
	}
	if cert.Leaf.VerifyHostname(probe) == nil {
		return ""
	}
	var names []string
	for _, name := range cert.Leaf.DNSNames {
		names = append(names, fmt.Sprintf("%q", name))
	}
	for _, ip := range cert.Leaf.IPAddresses {
		names = append(names, ip.String())
	}
	switch n := len(names); {
	case n == 0:
		return fmt.Sprintf("it is for no name, and not for %s", host)
	case n > certificateNames:
		names = append(names[:certificateNames], "others")
	}
	return fmt.Sprintf("it is for %s, and not for %s", strings.Join(names, ", "), host)
}

// hasBlock reports whether a PEM file has a block whose type ends in a word.
func hasBlock(file []byte, kind string) bool {
	for block, rest := pem.Decode(file); block != nil; block, rest = pem.Decode(rest) {
		if strings.HasSuffix(block.Type, kind) && block.Headers["DEK-Info"] == "" && !strings.HasPrefix(block.Type, "ENCRYPTED") {
			return true
		}
	}
	return false
}
