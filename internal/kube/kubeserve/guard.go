package kubeserve

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"
)

// How long answers of the API server are used again; the defaults of a kubelet.
const (
	tokenTime   = 2 * time.Minute
	allowedTime = 5 * time.Minute
	deniedTime  = 30 * time.Second
	maxAnswers  = 4096
	askTime     = 10 * time.Second
)

// guard decides who may call: it establishes the user, by the certificate that TLS has verified or
// by asking about the token, and asks whether the user may use this node in this way.
type guard struct {
	node    string
	client  kubernetes.Interface
	tokens  *cache.LRUExpireCache // hash of a token -> user
	answers *cache.LRUExpireCache // question -> bool
}

func newGuard(node string, client kubernetes.Interface) *guard {
	return &guard{node, client, cache.NewLRUExpireCache(maxAnswers), cache.NewLRUExpireCache(maxAnswers)}
}

// refusal is an error for the caller of a request that is not served.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return r.text }

// user is the caller of a request.
type user struct {
	name, uid string
	groups    []string
	extra     map[string]authorizationv1.ExtraValue
}

// admit returns nil if the caller of r may make the request.
func (g *guard) admit(r *http.Request) *refusal {
	ctx, cancel := context.WithTimeout(r.Context(), askTime)
	defer cancel()
	who, err := g.authenticate(ctx, r)
	if errors.Is(err, errUnknown) {
		return &refusal{http.StatusUnauthorized, "Unauthorized"}
	}
	verb, subresources := access(r)
	if err == nil {
		for _, sub := range subresources {
			var allowed bool
			if allowed, err = g.authorize(ctx, who, verb, sub); err != nil {
				break
			}
			if allowed {
				return nil
			}
		}
	}
	if err != nil {
		return &refusal{http.StatusServiceUnavailable, fmt.Sprintf("the API server cannot be asked whether this request is allowed: %v", err)}
	}
	return &refusal{http.StatusForbidden, fmt.Sprintf("Forbidden (user=%s, verb=%s, resource=nodes, subresource=%s)", who.name, verb, strings.Join(subresources, " or "))}
}

// errUnknown: the request does not say who makes it, or what it says is not true.
var errUnknown = errors.New("unknown user")

func (g *guard) authenticate(ctx context.Context, r *http.Request) (user, error) {
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		subject := r.TLS.VerifiedChains[0][0].Subject
		if subject.CommonName == "" {
			return user{}, errUnknown
		}
		return user{name: subject.CommonName, groups: append(slices.Clone(subject.Organization), "system:authenticated")}, nil
	}
	kind, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if token = strings.TrimSpace(token); !strings.EqualFold(kind, "Bearer") || token == "" {
		return user{}, errUnknown
	}
	key := sha256.Sum256([]byte(token)) // so that no token stays in memory
	if known, ok := g.tokens.Get(key); ok {
		return known.(user), nil
	}
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	review, err := g.client.AuthenticationV1().TokenReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return user{}, fmt.Errorf("review a token: %w", err)
	}
	if !review.Status.Authenticated {
		return user{}, errUnknown
	}
	u := review.Status.User
	who := user{name: u.Username, uid: u.UID, groups: u.Groups, extra: make(map[string]authorizationv1.ExtraValue)}
	for name, values := range u.Extra {
		who.extra[name] = authorizationv1.ExtraValue(values)
	}
	g.tokens.Add(key, who, tokenTime)
	return who, nil
}

// access returns the verb of a request and the subresources of nodes of which one must be allowed,
// as a kubelet derives them (Kubelet authorization: request attributes).
func access(r *http.Request) (verb string, subresources []string) {
	verb = map[string]string{
		http.MethodGet: "get", http.MethodHead: "get", http.MethodPost: "create",
		http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
	}[r.Method]
	switch first, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/"); first {
	case "stats", "metrics":
		return verb, []string{first}
	case "logs":
		return verb, []string{"log"}
	case "healthz", "pods", "configz":
		return verb, []string{first, "proxy"}
	}
	return verb, []string{"proxy"}
}

func (g *guard) authorize(ctx context.Context, who user, verb, subresource string) (bool, error) {
	spec := authorizationv1.SubjectAccessReviewSpec{
		User: who.name, UID: who.uid, Groups: who.groups, Extra: who.extra,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: verb, Version: "v1", Resource: "nodes", Subresource: subresource, Name: g.node,
		},
	}
	question := spec.String()
	if known, ok := g.answers.Get(question); ok {
		return known.(bool), nil
	}
	review, err := g.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("review access: %w", err)
	}
	allowed := review.Status.Allowed && !review.Status.Denied
	keep := deniedTime
	if allowed {
		keep = allowedTime
	}
	g.answers.Add(question, allowed, keep)
	return allowed, nil
}
