package kubeserve

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	certificates "k8s.io/api/certificates/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/certificate"
)

// Request is a request for the certificate of a node.
type Request struct {
	Client kubernetes.Interface
	Node   string
	// Dir keeps the certificate and its key; only the user may read it.
	Dir string
	// Addresses are the addresses under which the API server calls the node.
	Addresses []net.IP
}

// RequestedCertificate requests a certificate from the cluster (signer kubernetes.io/kubelet-serving)
// and another one before it expires, until ctx ends. An administrator, or a controller, approves
// each request. Until then there is no certificate, and no caller can connect.
func RequestedCertificate(ctx context.Context, r Request) (Certificate, error) {
	if len(r.Addresses) == 0 {
		return nil, errors.New("the endpoint needs an address for its certificate")
	}
	if err := os.MkdirAll(r.Dir, 0o700); err != nil {
		return nil, err
	}
	store, err := certificate.NewFileStore("podtask-kubelet-server", r.Dir, r.Dir, "", "")
	if err != nil {
		return nil, fmt.Errorf("keep certificates in %s: %w", r.Dir, err)
	}
	manager, err := certificate.NewManager(&certificate.Config{
		ClientsetFn: func(*tls.Certificate) (kubernetes.Interface, error) { return r.Client, nil },
		Template: &x509.CertificateRequest{
			Subject:     pkix.Name{CommonName: "system:node:" + r.Node, Organization: []string{"system:nodes"}},
			IPAddresses: r.Addresses,
		},
		SignerName:       certificates.KubeletServingSignerName,
		GetUsages:        certificate.DefaultKubeletServingGetUsages,
		CertificateStore: store,
		Ctx:              &ctx,
	})
	if err != nil {
		return nil, fmt.Errorf("request a certificate: %w", err)
	}
	manager.Start()
	return func() (*tls.Certificate, error) {
		c := manager.Current()
		if c == nil {
			return nil, fmt.Errorf("node %s has no certificate yet: approve its request with kubectl certificate approve (kubectl get csr lists it)", r.Node)
		}
		return c, nil
	}, nil
}

// FileCertificate reads a certificate and its key from files, and again when they have changed.
func FileCertificate(certFile, keyFile string) (Certificate, error) {
	var (
		mu      sync.Mutex
		current *tls.Certificate
		changed time.Time
	)
	load := func() (*tls.Certificate, error) {
		mu.Lock()
		defer mu.Unlock()
		info, err := os.Stat(certFile)
		if err == nil && current != nil && info.ModTime().Equal(changed) {
			return current, nil
		}
		var pair tls.Certificate
		if err == nil {
			pair, err = tls.LoadX509KeyPair(certFile, keyFile)
		}
		switch {
		case err == nil:
			current, changed = &pair, info.ModTime()
		case current == nil:
			return nil, fmt.Errorf("read the certificate of the endpoint: %w", err)
		} // else one of the two files is just being replaced
		return current, nil
	}
	_, err := load()
	return load, err
}
