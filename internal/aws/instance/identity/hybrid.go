package identity

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/aws/instance/awscall"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/internal/uuid"
)

// keyBits is the size of the RSA keys of a managed instance.
const keyBits = 2048

// managed is what a hybrid activation left on this host. The keys are the host's identity, and are on
// its disk for that reason.
type managed struct {
	// ID is mi-...; empty while the registration is under way.
	ID          string `json:"id,omitempty"`
	Region      string `json:"region"`
	Fingerprint string `json:"fingerprint"`
	// Key is the private key (PKCS #8), Next one that is to take its place: AWS may know either.
	Key  []byte `json:"key"`
	Next []byte `json:"next,omitempty"`
}

// Hybrid is the identity of a host that was activated with Systems Manager. It is safe for
// concurrent use.
type Hybrid struct {
	// Calls makes calls without credentials.
	Calls *awscall.Client
	store *state.Store

	mu  sync.Mutex
	has managed
}

var hybridKey = strings.Repeat("0", 32)

// OpenHybrid opens the identity in a directory. Found is false if the host was not activated.
func OpenHybrid(dir string, calls *awscall.Client) (h *Hybrid, found bool, err error) {
	return openHybrid(dir, calls, state.OS{})
}

func openHybrid(dir string, calls *awscall.Client, fsys state.FS) (h *Hybrid, found bool, err error) {
	store, err := state.OpenIn(filepath.Join(dir, "managed"), fsys)
	if err != nil {
		return nil, false, err
	}
	h = &Hybrid{Calls: calls, store: store}
	text, err := store.Get(hybridKey)
	if errors.Is(err, fs.ErrNotExist) {
		return h, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	if err := json.Unmarshal(text, &h.has); err != nil {
		return nil, false, errors.New("the record of the managed instance cannot be read")
	}
	return h, h.has.ID != "", nil
}

// ID is the ID of the managed instance, mi-...
func (h *Hybrid) ID() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.has.ID
}

// save records the identity. The lock is held.
func (h *Hybrid) save(m managed) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if err := h.store.Put(hybridKey, text); err != nil {
		return err
	}
	h.has = m
	return nil
}

// newKey makes a private key.
func newKey() ([]byte, error) {
	key, err := rsa.GenerateKey(rand.Reader, keyBits)
	if err != nil {
		return nil, err
	}
	return x509.MarshalPKCS8PrivateKey(key)
}

func parseKey(der []byte) (*rsa.PrivateKey, error) {
	key, err := x509.ParsePKCS8PrivateKey(der)
	if k, ok := key.(*rsa.PrivateKey); ok && err == nil {
		return k, nil
	}
	return nil, errors.New("the key of the managed instance cannot be read")
}

// public is the public key as AWS takes it: base64 of its DER form.
func public(der []byte) (string, error) {
	key, err := parseKey(der)
	if err != nil {
		return "", err
	}
	text, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	return base64.StdEncoding.EncodeToString(text), err
}

// Register uses an activation. The key is recorded first, so that an answer never belongs to a key
// that is lost. A host that is registered already is not registered again.
func (h *Hybrid) Register(ctx context.Context, id, code string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.has.ID != "" {
		return fmt.Errorf("this host is the managed instance %s already", h.has.ID)
	}
	m := h.has
	if len(m.Key) == 0 {
		var err error
		if m.Key, err = newKey(); err != nil {
			return err
		}
		m.Fingerprint = uuid.New()
	}
	m.Region = h.Calls.Region
	if err := h.save(m); err != nil {
		return err
	}
	key, err := public(m.Key)
	if err != nil {
		return err
	}
	in := map[string]string{"ActivationId": id, "ActivationCode": code, "PublicKey": key, "PublicKeyType": "Rsa", "Fingerprint": m.Fingerprint}
	var out struct {
		ID string `json:"InstanceId"`
	}
	if err := h.Calls.Call(ctx, awscall.SSM, "RegisterManagedInstance", in, &out); err != nil {
		return err
	}
	if !strings.HasPrefix(out.ID, "mi-") {
		return fmt.Errorf("RegisterManagedInstance: the ID %q is not one of a managed instance", out.ID)
	}
	m.ID = out.ID
	return h.save(m)
}

// token is the answer of RequestManagedInstanceRoleToken.
type token struct {
	AccessKeyID                   string `json:"AccessKeyId"`
	SecretAccessKey, SessionToken string
	TokenExpirationDate           float64 // seconds since 1970
	UpdateKeyPair                 bool
}

// Get implements awscall.Provider. If AWS asks for a new key pair, the key is replaced.
func (h *Hybrid) Get(ctx context.Context) (awscall.Credentials, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t, err := h.token(ctx)
	if err != nil {
		return awscall.Credentials{}, fmt.Errorf("the managed instance %s: %w", h.has.ID, err)
	}
	if t.UpdateKeyPair {
		// The credentials are good, whatever becomes of the new key; it is tried again with the next.
		_ = h.rotate(ctx)
	}
	return awscall.Credentials{AccessKeyID: t.AccessKeyID, SecretAccessKey: t.SecretAccessKey, SessionToken: t.SessionToken,
		Expires: time.UnixMilli(int64(t.TokenExpirationDate * 1000))}, nil
}

// token asks for credentials with the key, or with the one that is to take its place: an earlier
// replacement may have been interrupted before or after AWS took the new key. The one that works
// is kept.
func (h *Hybrid) token(ctx context.Context) (token, error) {
	t, err := h.request(ctx, h.has.Key)
	if len(h.has.Next) == 0 || err != nil && !awscall.Refused(err) {
		return t, err
	}
	m := h.has
	if err == nil { // AWS has not taken the new one
		m.Next = nil
		return t, h.save(m)
	}
	t, nextErr := h.request(ctx, h.has.Next)
	if nextErr != nil {
		return t, errors.Join(err, nextErr)
	}
	m.Key, m.Next = m.Next, nil
	return t, h.save(m)
}

func (h *Hybrid) request(ctx context.Context, key []byte) (t token, err error) {
	calls, err := h.signed(key)
	if err != nil {
		return t, err
	}
	return t, calls.Call(ctx, awscall.SSM, "RequestManagedInstanceRoleToken", map[string]string{"Fingerprint": h.has.Fingerprint}, &t)
}

// rotate replaces the key. Both are recorded until AWS is known to have one of them.
func (h *Hybrid) rotate(ctx context.Context) error {
	m := h.has
	var err error
	if m.Next, err = newKey(); err != nil {
		return err
	}
	if err := h.save(m); err != nil {
		return err
	}
	calls, err := h.signed(m.Key)
	if err != nil {
		return err
	}
	next, err := public(m.Next)
	if err != nil {
		return err
	}
	err = calls.Call(ctx, awscall.SSM, "UpdateManagedInstancePublicKey", map[string]string{"NewPublicKey": next, "NewPublicKeyType": "Rsa"}, nil)
	if err != nil && !awscall.Refused(err) {
		return err // it may have been taken: the next token tells
	}
	_, err = h.token(ctx)
	return err
}

// signed returns a client whose requests are signed with a key. The form is that of SigV4, but the
// signature is RSA-PSS of the string to sign, in base64.
func (h *Hybrid) signed(der []byte) (*awscall.Client, error) {
	key, err := parseKey(der)
	if err != nil {
		return nil, err
	}
	calls := *h.Calls
	calls.Region = h.has.Region
	calls.Sign = signer{h.has.ID, key}.sign
	return &calls, nil
}

// signer signs requests as a managed instance.
type signer struct {
	id  string
	key *rsa.PrivateKey
}

// sign signs a request for /.
func (k signer) sign(r *http.Request, body []byte, s awscall.Service, region string, now time.Time) error {
	date := now.UTC().Format("20060102T150405Z")
	r.Header.Set("X-Amz-Date", date)
	const signed = "content-type;host;x-amz-date;x-amz-target"
	canonical := fmt.Sprintf("%s\n/\n\ncontent-type:%s\nhost:%s\nx-amz-date:%s\nx-amz-target:%s\n\n%s\n%s",
		r.Method, r.Header.Get("Content-Type"), r.URL.Host, date, r.Header.Get("X-Amz-Target"), signed, awscall.Hash(body))
	scope := date[:8] + "/" + region + "/" + s.Name + "/aws4_request"
	sum := sha256.Sum256([]byte("AWS4-HMAC-SHA256\n" + date + "\n" + scope + "\n" + awscall.Hash([]byte(canonical))))
	signature, err := rsa.SignPSS(rand.Reader, k.key, crypto.SHA256, sum[:], &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash})
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+k.id+"/"+scope+", SignedHeaders="+signed+", Signature="+base64.StdEncoding.EncodeToString(signature))
	return nil
}
