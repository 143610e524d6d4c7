package podmanifest

import (
	"context"
	"fmt"
	"sync"
	"time"

	authv1 "k8s.io/api/authentication/v1"
	certificates "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Objects fetches what one Pod refers to. Tokens and objects that never change are fetched once.
type Objects struct {
	client kubernetes.Interface
	room   func() corev1.ResourceList // what the node has for Pods
	Now    func() time.Time

	mu      sync.Mutex
	configs map[string]*corev1.ConfigMap // immutable
	secrets map[string]*corev1.Secret    // immutable
	tokens  map[string]token             // by what was asked for

	certificatesMu sync.Mutex
	certificates   map[string]*podCertificate // likewise
}

// token is one of a service account.
type token struct {
	text  string
	until time.Time // then another one is asked for
}

// NewObjects returns a reader of objects of the API server; room returns what the node can give.
func NewObjects(client kubernetes.Interface, room func() corev1.ResourceList) *Objects {
	return &Objects{client: client, room: room, Now: time.Now, configs: make(map[string]*corev1.ConfigMap), secrets: make(map[string]*corev1.Secret), tokens: make(map[string]token), certificates: make(map[string]*podCertificate)}
}

// Reading fetches each object once, for one Pod at one time. It is a kubefiles.Source.
type Reading struct {
	*Objects
	pod     *corev1.Pod
	configs map[string]answered[corev1.ConfigMap]
	secrets map[string]answered[corev1.Secret]
	bundles answered[certificates.ClusterTrustBundleList]
}

// answered is an answer of the API server.
type answered[T any] struct {
	object *T
	err    error
}

// Reading returns a new look at the objects of a Pod.
func (o *Objects) Reading(pod *corev1.Pod) *Reading {
	return &Reading{Objects: o, pod: pod, configs: make(map[string]answered[corev1.ConfigMap]), secrets: make(map[string]answered[corev1.Secret])}
}

// ConfigMap implements kubefiles.Source.
func (r *Reading) ConfigMap(ctx context.Context, name string) (*corev1.ConfigMap, error) {
	return fetch(r, r.configs, r.Objects.configs, name, func() (*corev1.ConfigMap, *bool, error) {
		c, err := r.client.CoreV1().ConfigMaps(r.pod.Namespace).Get(ctx, name, metav1.GetOptions{})
		return c, c.Immutable, err
	})
}

// Secret implements kubefiles.Source.
func (r *Reading) Secret(ctx context.Context, name string) (*corev1.Secret, error) {
	return fetch(r, r.secrets, r.Objects.secrets, name, func() (*corev1.Secret, *bool, error) {
		s, err := r.client.CoreV1().Secrets(r.pod.Namespace).Get(ctx, name, metav1.GetOptions{})
		return s, s.Immutable, err
	})
}

// fetch gets an object, unless it is known.
func fetch[T any](r *Reading, seen map[string]answered[T], kept map[string]*T, name string, get func() (*T, *bool, error)) (*T, error) {
	if a, known := seen[name]; known {
		return a.object, a.err
	}
	r.mu.Lock()
	object := kept[name]
	r.mu.Unlock()
	if object != nil {
		return object, nil
	}
	object, immutable, err := get()
	seen[name] = answered[T]{object, err}
	if err == nil && immutable != nil && *immutable {
		r.mu.Lock()
		kept[name] = object
		r.mu.Unlock()
	}
	return object, err
}

// TrustBundles implements kubefiles.Source. What the API server has in its cache is new enough.
func (r *Reading) TrustBundles(ctx context.Context) ([]certificates.ClusterTrustBundle, error) {
	a := &r.bundles
	if a.object == nil && a.err == nil {
		a.object, a.err = r.client.CertificatesV1().ClusterTrustBundles().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	}
	if a.err != nil {
		return nil, a.err
	}
	return a.object.Items, nil
}

// Allocatable implements kubefiles.Source.
func (r *Reading) Allocatable() corev1.ResourceList { return r.room() }

// Token implements kubefiles.Source. A token is bound to the Pod, so it ends with it.
func (r *Reading) Token(ctx context.Context, want corev1.ServiceAccountTokenProjection) (string, error) {
	request := &authv1.TokenRequest{Spec: authv1.TokenRequestSpec{
		ExpirationSeconds: want.ExpirationSeconds,
		BoundObjectRef:    &authv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: r.pod.Name, UID: r.pod.UID},
	}}
	if want.Audience != "" {
		request.Spec.Audiences = []string{want.Audience}
	}
	seconds := int64(0)
	if want.ExpirationSeconds != nil {
		seconds = *want.ExpirationSeconds
	}
	key, asked := fmt.Sprintf("%d %s", seconds, want.Audience), r.Now()
	r.mu.Lock()
	have, known := r.tokens[key]
	r.mu.Unlock()
	if known && asked.Before(have.until) {
		return have.text, nil
	}
	made, err := r.client.CoreV1().ServiceAccounts(r.pod.Namespace).CreateToken(ctx, accountOf(r.pod), request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("service account %q: %w", accountOf(r.pod), err)
	}
	r.mu.Lock()
	r.tokens[key] = token{made.Status.Token, Renewal(asked, made.Status.ExpirationTimestamp.Time)}
	r.mu.Unlock()
	return made.Status.Token, nil
}

// Shares of a token's time (kubelet: token.requiresRefresh).
const (
	leastLeft = 5 // a fifth of it is left
	mostAge   = 24 * time.Hour
)

// Renewal returns the time at which a token is replaced by another one.
func Renewal(asked, expires time.Time) time.Time {
	at := expires.Add(-expires.Sub(asked) / leastLeft)
	if oldest := asked.Add(mostAge); oldest.Before(at) {
		return oldest
	}
	return at
}
