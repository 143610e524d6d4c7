package images

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/google/go-containerregistry/pkg/authn"
	"go.podman.io/image/v5/docker/reference"
	"go.podman.io/image/v5/pkg/docker/config"
	"go.podman.io/image/v5/types"
)

// Login holds the credentials for one registry. The zero Login means no credentials.
// Values are comparable and do not print.
type Login struct {
	Username, Password string
	// IdentityToken is a refresh token, which the registry's token server accepts instead
	// of a password.
	IdentityToken string
	// BearerToken is sent to the registry itself. Podman does not support it.
	BearerToken string
}

// Format implements fmt.Formatter: no verb shows the content.
func (Login) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "[login]") }

// MarshalText keeps the content out of JSON.
func (Login) MarshalText() ([]byte, error) { return []byte("[login]"), nil }

// ParseLogin reads the login for ref from a secret. It supports
//
//	{"username": "...", "password": "..."}   as AWS Secrets Manager has it for ECS;
//	                                          or "identitytoken", or "registrytoken"
//	{"auths": {"registry.example.com": ...}}  containers-auth.json(5), Docker's config.json
//	user:password
//
// The error says what is wrong and contains no part of the secret.
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
		return Login{}, errors.New("the secret is not valid JSON")
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

var errNoLogin = errors.New(`the secret contains no login: expected {"username": ..., "password": ...}, {"auths": ...} or user:password`)

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

// bestKey returns the most specific key for ref as described in containers-auth.json(5):
// a repository or namespace precedes its registry. It also accepts Docker's URLs.
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

// configured returns the login that containers/image finds for ref in auth files and
// credential helpers; the zero Login if there is none.
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

// with returns the configuration with the caller's login. containers/image sends it to
// the registry of the reference only, not to mirrors.
func (r *Resolver) with(l Login) *types.SystemContext {
	if l == (Login{}) {
		return r.sys
	}
	own := *r.sys
	own.DockerAuthConfig = &types.DockerAuthConfig{Username: l.Username, Password: l.Password, IdentityToken: l.IdentityToken}
	own.DockerBearerRegistryToken = l.BearerToken
	return &own
}

// Access returns the credentials for Podman's pull of ref: the caller's login or, without
// one, the configured one. If login is zero, Podman must use authFile (empty means the
// default files), because mirrors have their own logins. The error is an *Error.
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

var errBearer = errors.New("a bearer token does not work for pulls of Podman: use a username and password, or an identity token")
