package registrytest

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
)

// tokens are the bearer tokens handed out, each with the repository it opens.
type tokens struct {
	mu    sync.Mutex
	scope map[string]string // token → repository; "" opens /v2/ only
}

func newTokens() *tokens { return &tokens{scope: make(map[string]string)} }

func (t *tokens) issue(repository string) string {
	token := rand.Text()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.scope[token] = repository
	return token
}

func (t *tokens) opens(token, repository string) (known, open bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	scope, known := t.scope[token]
	return known, known && (repository == "" || scope == repository)
}

// gate is the authentication of a registry.
type gate struct {
	opts   Options
	addr   string
	tokens *tokens
}

// authenticate lets pass to next who may.
func (g *gate) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch {
		case g.opts.Auth == Token && req.URL.Path == "/token":
			g.serveToken(w, req)
		case g.opts.Auth == Token:
			g.wantToken(w, req, next)
		case g.opts.Auth == Basic && !g.knows(req):
			w.Header().Set("WWW-Authenticate", `Basic realm="registrytest"`)
			writeError(w, http.StatusUnauthorized, "UNAUTHORIZED", "authentication required")
		default:
			next.ServeHTTP(w, req)
		}
	})
}

// knows reports whether req carries the right user and password.
func (g *gate) knows(req *http.Request) bool {
	user, password, ok := req.BasicAuth()
	sameUser := subtle.ConstantTimeCompare([]byte(user), []byte(g.opts.User))
	samePassword := subtle.ConstantTimeCompare([]byte(password), []byte(g.opts.Password))
	return ok && sameUser&samePassword == 1
}

// refreshes reports whether req brings the identity token instead of a password, as
// OAuth 2 has it (RFC 6749 section 6).
func (g *gate) refreshes(req *http.Request) bool {
	return g.opts.IdentityToken != "" && req.Method == http.MethodPost && req.PostFormValue("grant_type") == "refresh_token" &&
		subtle.ConstantTimeCompare([]byte(req.PostFormValue("refresh_token")), []byte(g.opts.IdentityToken)) == 1
}

// serveToken is the token endpoint of the distribution specification, with a password
// (GET) or an identity token (POST).
func (g *gate) serveToken(w http.ResponseWriter, req *http.Request) {
	if !g.refreshes(req) && !g.knows(req) {
		writeError(w, http.StatusUnauthorized, "UNAUTHORIZED", "incorrect username or password")
		return
	}
	var repository string
	if kind, rest, ok := strings.Cut(req.FormValue("scope"), ":"); ok && kind == "repository" {
		repository, _, _ = strings.Cut(rest, ":")
	}
	token := g.tokens.issue(repository)
	w.Header().Set("Content-Type", "application/json")
	// The client has hung up if this fails.
	_ = json.NewEncoder(w).Encode(map[string]any{"token": token, "access_token": token, "expires_in": 300})
}

// wantToken lets pass requests with a token for their repository.
func (g *gate) wantToken(w http.ResponseWriter, req *http.Request, next http.Handler) {
	repository := repositoryOf(req.URL.Path)
	token, _ := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
	known, open := g.tokens.opens(token, repository)
	if open {
		next.ServeHTTP(w, req)
		return
	}
	scheme := "http"
	if g.opts.TLS {
		scheme = "https"
	}
	challenge := fmt.Sprintf(`Bearer realm="%s://%s/token",service="registrytest"`, scheme, g.addr)
	if repository != "" {
		challenge += fmt.Sprintf(`,scope="repository:%s:pull"`, repository)
	}
	if known {
		challenge += `,error="insufficient_scope"`
	}
	w.Header().Set("WWW-Authenticate", challenge)
	writeError(w, http.StatusUnauthorized, "UNAUTHORIZED", "authentication required")
}

// repositoryOf finds the repository in /v2/REPOSITORY/{manifests,blobs,tags}/….
func repositoryOf(path string) string {
	rest, ok := strings.CutPrefix(path, "/v2/")
	if !ok {
		return ""
	}
	for _, kind := range []string{"/manifests/", "/blobs/", "/tags/"} {
		if i := strings.LastIndex(rest, kind); i > 0 {
			return rest[:i]
		}
	}
	return ""
}

// writeError answers in the error format of the distribution specification.
func writeError(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// The client has hung up if this fails.
	_ = json.NewEncoder(w).Encode(map[string]any{
		"errors": []map[string]string{{"code": code, "message": message}},
	})
}
