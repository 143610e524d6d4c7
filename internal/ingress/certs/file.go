package certs

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
)

// pair names the files of a certificate.
type pair struct{ cert, key string }

// loaded is what the files had when they were last read.
type loaded struct {
	cert *tls.Certificate // nil before the first good one
	err  error
}

// load reads the files of a certificate. A good one stays in use while those that replace it are bad.
func (p pair) load(before loaded) loaded {
	cert, err := p.read()
	if err != nil {
		return loaded{before.cert, err}
	}
	return loaded{cert, nil}
}

func (p pair) read() (*tls.Certificate, error) {
	chain, err := os.ReadFile(p.cert)
	if err != nil {
		return nil, err
	}
	key, err := os.ReadFile(p.key)
	if err != nil {
		return nil, err
	}
	cert, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return nil, fmt.Errorf("%s with the key %s: %w", p.cert, p.key, err)
	}
	return &cert, nil
}

// dirs are the directories in which a change of the files shows, also if they are symbolic links.
func (p pair) dirs() (dirs []string) {
	for _, file := range []string{p.cert, p.key} {
		dirs = append(dirs, filepath.Dir(file))
		if real, err := filepath.EvalSymlinks(file); err == nil {
			dirs = append(dirs, filepath.Dir(real))
		}
	}
	return dirs
}
