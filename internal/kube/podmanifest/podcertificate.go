package podmanifest

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	certificates "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// podCertificate is a key of a Pod with the certificate that a signer has issued for it, and the request for
// another one. The keys are in the memory of this process and in the files of the Pod, nowhere else.
type podCertificate struct {
	key, chain []byte    // PEM; empty until a certificate was issued
	renewal    time.Time // then another one is requested
	wanted     []byte    // the key of the request, in PEM; nil if nothing is requested
	request    string    // the name of the request
}

// errNotIssued means that the signer has not answered yet.
var errNotIssued = errors.New("the signer has not issued the certificate yet")

// Certificate implements kubefiles.Source: what was issued is kept, and replaced when the signer says so. Until then
// each look asks for the answer once.
func (r *Reading) Certificate(ctx context.Context, want corev1.PodCertificateProjection) (key, chain []byte, err error) {
	text, err := json.Marshal(want)
	if err != nil {
		return nil, nil, err
	}
	r.certificatesMu.Lock() // for the calls, too: two looks at a time would make two requests
	defer r.certificatesMu.Unlock()
	c := r.certificates[string(text)]
	if c == nil {
		c = &podCertificate{}
		r.certificates[string(text)] = c
	}
	if len(c.chain) == 0 || !r.Now().Before(c.renewal) {
		err = r.renew(ctx, c, want)
	}
	if len(c.chain) == 0 {
		return nil, nil, err
	}
	return c.key, c.chain, nil // an older one until there is another
}

// renew requests a certificate, or takes over what the signer has answered.
func (r *Reading) renew(ctx context.Context, c *podCertificate, want corev1.PodCertificateProjection) error {
	if c.wanted == nil {
		if err := r.requestCertificate(ctx, c, want); err != nil {
			return err
		}
	}
	made, err := r.client.CertificatesV1().PodCertificateRequests(r.pod.Namespace).Get(ctx, c.request, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		c.wanted = nil
		return fmt.Errorf("the request %q for a certificate was removed: another one is made", c.request)
	}
	if err != nil {
		return err
	}
	for _, o := range made.Status.Conditions {
		switch {
		case o.Status != metav1.ConditionTrue:
		case o.Type == certificates.PodCertificateRequestConditionTypeIssued && made.Status.BeginRefreshAt != nil:
			c.key, c.chain, c.renewal, c.wanted = c.wanted, []byte(made.Status.CertificateChain), made.Status.BeginRefreshAt.Time, nil
			return nil
		case o.Type == certificates.PodCertificateRequestConditionTypeDenied, o.Type == certificates.PodCertificateRequestConditionTypeFailed:
			return fmt.Errorf("the signer %s has not issued the certificate: %s, %s: %s", want.SignerName, o.Type, o.Reason, o.Message)
		}
	}
	return errNotIssued
}

// requestCertificate makes a key and a request for its certificate.
func (r *Reading) requestCertificate(ctx context.Context, c *podCertificate, want corev1.PodCertificateProjection) error {
	account, err := r.client.CoreV1().ServiceAccounts(r.pod.Namespace).Get(ctx, accountOf(r.pod), metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("service account %q: %w", accountOf(r.pod), err)
	}
	node, err := r.client.CoreV1().Nodes().Get(ctx, r.pod.Spec.NodeName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("node %q: %w", r.pod.Spec.NodeName, err)
	}
	key, err := newKey(want.KeyType)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	proof, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return err
	}
	made, err := r.client.CertificatesV1().PodCertificateRequests(r.pod.Namespace).Create(ctx, &certificates.PodCertificateRequest{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: r.pod.Namespace, GenerateName: "req-",
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: r.pod.Name, UID: r.pod.UID}},
		},
		Spec: certificates.PodCertificateRequestSpec{
			SignerName: want.SignerName, MaxExpirationSeconds: want.MaxExpirationSeconds,
			PodName: r.pod.Name, PodUID: r.pod.UID, ServiceAccountName: account.Name, ServiceAccountUID: account.UID,
			NodeName: types.NodeName(node.Name), NodeUID: node.UID,
			StubPKCS10Request: proof, UnverifiedUserAnnotations: want.UserAnnotations,
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	c.wanted, c.request = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), made.Name
	return nil
}

// newKey makes a key of a type that Kubernetes names.
func newKey(kind string) (crypto.Signer, error) {
	switch kind {
	case "RSA3072":
		return rsa.GenerateKey(rand.Reader, 3072)
	case "RSA4096":
		return rsa.GenerateKey(rand.Reader, 4096)
	case "ECDSAP256":
		return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "ECDSAP384":
		return ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case "ECDSAP521":
		return ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	case "ED25519":
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return key, err
	}
	return nil, fmt.Errorf("this node makes no keys of the type %q", kind)
}
