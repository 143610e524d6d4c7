package images

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/containers/image/v5/docker/reference"
	"github.com/containers/image/v5/pkg/docker/config"
	"github.com/containers/image/v5/types"
	"github.com/google/go-containerregistry/pkg/authn"
)

// Login is what one registry is shown. The zero Login is nobody's. Values are
// comparable and do not print themselves.
type Login struct {
	Username, Password string
	// IdentityToken is a refresh token, which the registry's token server takes
	// instead of a password.
	IdentityToken string
	// BearerToken is shown to the registry itself. Podman cannot be given one.
	BearerToken string
}

// Format implements fmt.Formatter: no verb shows the content.
func (Login) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "[login]") }

// MarshalText keeps the content out of JSON.
func (Login) MarshalText() ([]byte, error) { return []byte("[login]"), nil }

// ParseLogin reads the login for ref from a secret. It knows
//
//	{"username": "...", "password": "..."}   as AWS Secrets Manager has it for ECS;
//	                                          or "identitytoken", or "registrytoken"
//	{"auths": {"registry.example.com": ...}}  containers-auth.json(5), Docker's config.json
//	user:password
//
// The error says which of them is broken and holds nothing of the secret.
func ParseLogin(secret []byte, ref Ref) (Login, error) {
	text := strings.TrimSpace(string(secret))
	if !utf8.ValidString(text) || strings.ContainsAny(text, "\x00\n") && !strings.HasPrefix(text, "{") {
		return Login{}, errNoLogin
	}
	if !strings.HasPrefix(text, "{") {
		user, password, ok := strings.Cut(text, ":")
		if !ok || user == "" || password == "" {
			return Login{}, errNoLogin
		}
		return Login{Username: user, Password: password}, nil
	}
	var file struct {
		entry
		Auths map[string]entry `json:"auths"`
	}
	if json.Unmarshal([]byte(text), &file) != nil {
		return Login{}, errors.New("the secret is no valid JSON")
	}
	found := file.entry
	if file.Auths != nil {
		key, ok := bestKey(file.Auths, ref)
		if !ok {
			return Login{}, errors.New("the secret has no login for " + ref.Registry())
		}
		found = file.Auths[key]
	}
	return found.login()
}

var errNoLogin = errors.New(`the secret is no login: it holds neither {"username": ..., "password": ...}, nor {"auths": ...}, nor user:password`)

// entry is one login in JSON.
type entry struct {
	Username      string `json:"username"`
	Password      string `json:"password"`
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
	Auth          string `json:"auth"` // base64 of user:password
}

func (e entry) login() (Login, error) {
	l := Login{Username: e.Username, Password: e.Password, IdentityToken: e.IdentityToken, BearerToken: e.RegistryToken}
	if e.Auth != "" {
		plain, err := base64.StdEncoding.DecodeString(e.Auth)
		user, password, ok := strings.Cut(string(plain), ":")
		if err != nil || !ok {
			return Login{}, errors.New(`"auth" in the secret is not the base64 of user:password`)
		}
		l.Username, l.Password = user, strings.TrimRight(password, "\x00")
	}
	if l.IdentityToken == "" && l.BearerToken == "" && (l.Username == "" || l.Password == "") {
		return Login{}, errors.New("the secret has no username or no password")
	}
	return l, nil
}

// bestKey is the most specific key for ref, as containers-auth.json(5) has it:
// a repository or namespace before its registry. Docker's URLs are known too.
func bestKey(auths map[string]entry, ref Ref) (best string, ok bool) {
	longest := -1
	for key := range auths {
		name := strings.TrimPrefix(strings.TrimPrefix(key, "https://"), "http://")
		if name != key { // a URL means the whole registry
			name, _, _ = strings.Cut(name, "/")
		}
		name = strings.TrimSuffix(name, "/")
		if name == "index.docker.io" || name == "registry-1.docker.io" {
			name = "docker.io"
		}
		if (name == ref.Name() || strings.HasPrefix(ref.Name(), name+"/")) && len(name) > longest {
			best, longest, ok = key, len(name), true
		}
	}
	return best, ok
}

// configured is the login that containers/image finds for ref, in its own order:
// auth files and credential helpers. The zero Login is none.
func (r *Resolver) configured(ref Ref) (Login, error) {
	named, err := reference.ParseNormalizedNamed(ref.Name())
	if err != nil {
		return Login{}, err
	}
	c, err := config.GetCredentialsForRef(r.sys, named)
	if err != nil {
		return Login{}, fmt.Errorf("getting username and password: %w", err)
	}
	return Login{Username: c.Username, Password: c.Password, IdentityToken: c.IdentityToken}, nil
}

func (l Login) authenticator() authn.Authenticator {
	if l == (Login{}) {
		return authn.Anonymous
	}
	return authn.FromConfig(authn.AuthConfig{
		Username: l.Username, Password: l.Password, IdentityToken: l.IdentityToken, RegistryToken: l.BearerToken,
	})
}

// with is the configuration with a login of the caller's. containers/image shows
// it to the registry that the reference names, and to no mirror.
func (r *Resolver) with(l Login) *types.SystemContext {
	if l == (Login{}) {
		return r.sys
	}
	own := *r.sys
	own.DockerAuthConfig = &types.DockerAuthConfig{Username: l.Username, Password: l.Password, IdentityToken: l.IdentityToken}
	own.DockerBearerRegistryToken = l.BearerToken
	return &own
}

// Access is how Podman is let into the registry for a pull of ref: by a login of
// the caller's or, without one, by what is configured. A zero login leaves it to
// authFile (empty: the usual places), as mirrors have logins of their own. The
// error is an *Error.
func (r *Resolver) Access(ref Ref, given Login) (login Login, authFile string, err error) {
	switch {
	case given.BearerToken != "":
		return Login{}, "", r.newError(ref, given, errBearer)
	case given != (Login{}):
		return given, "", nil
	}
	direct, err := r.direct(ref)
	if err == nil && direct {
		login, err = r.configured(ref)
	}
	if err != nil {
		return Login{}, "", r.newError(ref, given, err)
	}
	return login, r.sys.AuthFilePath, nil
}

var errBearer = errors.New("a bearer token is not enough for Podman to pull with: use a username and password, or an identity token")
