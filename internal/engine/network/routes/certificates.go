package routes

import (
	"bytes"
	"crypto/sha256"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/ingress"
	"github.com/podtask/podtask/internal/ingress/routefile"
	"github.com/podtask/podtask/pkg/taskdef"
)

func (p *Publisher) certificateDir() string {
	return ingress.CertificateDir(filepath.Dir(filepath.Dir(p.file)))
}

// CertificateFile names the file for the certificate of an address whose certificate is a secret. The name follows from the
// names of the service, the host and the secrets.
func (p *Publisher) CertificateFile(name, host string, i taskdef.Ingress) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{name, host, i.Certificate, i.CertificateKey}, "\x00")))
	return filepath.Join(p.certificateDir(), fmt.Sprintf("%x.pem", sum[:12]))
}

// StoreCertificate writes a chain and its key, which fit together, into a file that only this user reads. The file is
// removed when no route has it and the proxy no longer uses it.
func (p *Publisher) StoreCertificate(file string, chain, key []byte) error {
	text := slices.Concat(blocks(chain, "CERTIFICATE"), blocks(key, "PRIVATE KEY"))
	defer clear(text)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	if err := routefile.Replace(file, text); err != nil {
		return fmt.Errorf("write the certificate for the ingress proxy: %w", err)
	}
	p.certificates[file] = !p.hasRoute(file)
	return nil
}

// blocks are the blocks of a PEM file whose types end in a word.
func blocks(file []byte, kind string) []byte {
	var out bytes.Buffer
	for block, rest := pem.Decode(file); block != nil; block, rest = pem.Decode(rest) {
		if strings.HasSuffix(block.Type, kind) {
			_ = pem.Encode(&out, block) // neither a buffer nor a decoded block fails
		}
	}
	return out.Bytes()
}

// Certificate returns the certificate, its key and their source that an address of a service has in the routes now, or had
// before the agent started.
func (p *Publisher) Certificate(name string, i taskdef.Ingress) (chain, key, source string, found bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.routes {
		if r.Service == name && r.URL == i.URL {
			return r.Certificate, r.CertificateKey, r.CertificateSource, true
		}
	}
	return "", "", "", false
}

// Usable reports whether the proxy serves an address with a certificate for it.
func (p *Publisher) Usable(i taskdef.Ingress) bool {
	status, a := p.Status(), taskdef.Address{}
	if status != nil {
		a, _ = taskdef.ParseAddress(i.URL) // another host than that of a certificate if it is none
	}
	return status != nil && slices.ContainsFunc(status.Certificates, func(c ingress.Certificate) bool { return c.Name == a.Host && c.Usable })
}

// findCertificates finds the files that the agent before has left.
func (p *Publisher) findCertificates() {
	p.certificates = make(map[string]bool)
	entries, err := os.ReadDir(p.certificateDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.log.Warn("certificates from secrets that no service has are not removed", "error", err)
	}
	for _, e := range entries {
		p.certificates[filepath.Join(p.certificateDir(), e.Name())] = false
	}
}

func (p *Publisher) hasRoute(file string) bool {
	return slices.ContainsFunc(p.routes, func(r routefile.Route) bool { return r.Certificate == file })
}

// removeCertificates removes the files that neither the routes nor the proxy have. The caller holds mu.
func (p *Publisher) removeCertificates() {
	for file, fresh := range p.certificates {
		switch {
		case p.hasRoute(file):
			p.certificates[file] = false
		case fresh || p.status != nil && slices.ContainsFunc(p.status.Certificates, func(c ingress.Certificate) bool { return c.File == file }):
		default:
			if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
				p.log.Warn("the certificate of a secret is not removed", "file", file, "error", err)
				continue
			}
			delete(p.certificates, file)
		}
	}
}
