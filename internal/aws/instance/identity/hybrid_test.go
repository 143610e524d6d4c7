package identity

import (
	"context"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/aws/instance/awscall"
	"github.com/podtask/podtask/internal/state"
)

// manager is a Systems Manager that knows one activation and one key.
type manager struct {
	t *testing.T

	mu                  sync.Mutex
	key                 *rsa.PublicKey
	fingerprint         string
	registered, updates int
	rotate              bool
	// lose is a call whose answer is lost after it took effect, drop one that is lost before; refuse is
	// refused.
	lose, drop, refuse string
}

func (m *manager) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	if operation == m.drop {
		m.drop = ""
		panic(http.ErrAbortHandler)
	}
	fail := func(code string) {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"__type":%q,"message":"no"}`, code)
	}
	if operation == m.refuse {
		fail("InvalidKeyException")
		return
	}
	var in map[string]string
	_ = json.Unmarshal(body, &in)
	if operation != "RegisterManagedInstance" && !m.verify(r, body) {
		fail("InvalidSignatureException")
		return
	}
	var out any = map[string]any{}
	switch operation {
	case "RegisterManagedInstance":
		if in["ActivationCode"] != "code" || r.Header.Get("Authorization") != "" {
			fail("InvalidActivation")
			return
		}
		m.registered++
		m.fingerprint = in["Fingerprint"]
		m.key = m.parse(in["PublicKey"])
		out = map[string]string{"InstanceId": "mi-0123456789abcdef0"}
	case "RequestManagedInstanceRoleToken":
		if in["Fingerprint"] != m.fingerprint {
			fail("MachineFingerprintDoesNotMatch")
			return
		}
		out = map[string]any{"AccessKeyId": "ASIA", "SecretAccessKey": "s", "SessionToken": "t", "TokenExpirationDate": float64(time.Now().Add(time.Hour).Unix()), "UpdateKeyPair": m.rotate}
	case "UpdateManagedInstancePublicKey":
		m.updates++
		m.key, m.rotate = m.parse(in["NewPublicKey"]), false
	default:
		m.t.Errorf("the call %q is not known", operation)
	}
	if operation == m.lose {
		m.lose = ""
		panic(http.ErrAbortHandler)
	}
	_ = json.NewEncoder(w).Encode(out)
}

func (m *manager) parse(text string) *rsa.PublicKey {
	der, err := base64.StdEncoding.DecodeString(text)
	if err == nil {
		var key any
		if key, err = x509.ParsePKIXPublicKey(der); err == nil {
			return key.(*rsa.PublicKey)
		}
	}
	m.t.Errorf("the public key: %v", err)
	return nil
}

// verify verifies a signature, in words of its own.
func (m *manager) verify(r *http.Request, body []byte) bool {
	auth := r.Header.Get("Authorization")
	date := r.Header.Get("X-Amz-Date")
	scope := date[:8] + "/us-east-1/ssm/aws4_request"
	rest, ok := strings.CutPrefix(auth, "AWS4-HMAC-SHA256 Credential=mi-0123456789abcdef0/"+scope+", SignedHeaders=content-type;host;x-amz-date;x-amz-target, Signature=")
	if !ok {
		return false
	}
	signature, err := base64.StdEncoding.DecodeString(rest)
	hash := sha256.Sum256(body)
	canonical := sha256.Sum256([]byte(strings.Join([]string{"POST", "/", "", "content-type:" + r.Header.Get("Content-Type"), "host:" + r.Host, "x-amz-date:" + date,
		"x-amz-target:" + r.Header.Get("X-Amz-Target"), "", "content-type;host;x-amz-date;x-amz-target", fmt.Sprintf("%x", hash)}, "\n")))
	sum := sha256.Sum256([]byte(fmt.Sprintf("AWS4-HMAC-SHA256\n%s\n%s\n%x", date, scope, canonical)))
	return err == nil && rsa.VerifyPSS(m.key, crypto.SHA256, sum[:], signature, &rsa.PSSOptions{SaltLength: 32}) == nil
}

// readonlyAfter is a disk that is full after a number of writes; negative: never.
type readonlyAfter struct {
	state.OS
	left *int
}

func (d readonlyAfter) Create(name string) (state.File, error) {
	if *d.left == 0 {
		return nil, errors.New("the disk is full")
	}
	*d.left--
	return d.OS.Create(name)
}

func client(m *manager) (*awscall.Client, func()) {
	server := httptest.NewUnstartedServer(m)
	server.Config.ErrorLog = nil
	server.Start()
	return &awscall.Client{HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, Region: "us-east-1", Endpoints: map[string]string{"ssm": server.URL}}, server.Close
}

func TestAnActivation(t *testing.T) {
	t.Parallel()
	m := &manager{t: t}
	calls, end := client(m)
	defer end()
	dir := t.TempDir()
	h, found, err := OpenHybrid(dir, calls)
	if err != nil || found {
		t.Fatal(found, err)
	}
	if err := h.Register(t.Context(), "id", "wrong"); awscall.CodeOf(err) != "InvalidActivation" {
		t.Errorf("a wrong code: %v", err)
	}
	if err := h.Register(t.Context(), "id", "code"); err != nil {
		t.Fatal(err)
	}
	if err := h.Register(t.Context(), "id", "code"); err == nil || !strings.Contains(err.Error(), "mi-0123456789abcdef0") {
		t.Errorf("again: %v", err)
	}
	h, found, err = OpenHybrid(dir, calls)
	if err != nil || !found || h.ID() != "mi-0123456789abcdef0" {
		t.Fatal(found, err)
	}
	got, err := h.Get(t.Context())
	if err != nil || got.AccessKeyID != "ASIA" || got.SessionToken != "t" || time.Until(got.Expires) < 50*time.Minute {
		t.Errorf("%+v, %v", got.Expires, err)
	}
	if m.registered != 1 {
		t.Errorf("%d registrations", m.registered)
	}
}

// Whatever ends the replacement of a key, the host has credentials afterwards.
func TestAKeyIsReplacedOrNot(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		trouble func(*manager)
		writes  int // after which the disk is full; negative: never
		updates int
	}{
		"nothing happens":             {func(*manager) {}, -1, 1},
		"the call is lost":            {func(m *manager) { m.drop = "UpdateManagedInstancePublicKey" }, -1, 1},
		"its answer is lost":          {func(m *manager) { m.lose = "UpdateManagedInstancePublicKey" }, -1, 1},
		"it is refused":               {func(m *manager) { m.refuse = "UpdateManagedInstancePublicKey" }, -1, 0},
		"the new key is not recorded": {func(*manager) {}, 0, 0},
		"its success is not recorded": {func(*manager) {}, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &manager{t: t}
			calls, end := client(m)
			defer end()
			dir := t.TempDir()
			left := -1
			h, _, err := openHybrid(dir, calls, readonlyAfter{left: &left})
			if err != nil {
				t.Fatal(err)
			}
			if err := h.Register(t.Context(), "id", "code"); err != nil {
				t.Fatal(err)
			}
			m.rotate = true
			tt.trouble(m)
			left = tt.writes
			if _, err := h.Get(t.Context()); err != nil {
				t.Errorf("the first: %v", err)
			}
			left = -1
			for range 3 { // the process starts anew each time
				h, found, err := OpenHybrid(dir, calls)
				if err != nil || !found {
					t.Fatal(found, err)
				}
				if _, err := h.Get(t.Context()); err != nil {
					t.Errorf("later: %v", err)
				}
				m.mu.Lock()
				m.refuse = ""
				m.mu.Unlock()
			}
			if m.updates < tt.updates {
				t.Errorf("%d updates", m.updates)
			}
		})
	}
}

func TestChain(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	write(t, home+"/.aws/credentials", "# keys\n[default]\naws_access_key_id = A\naws_secret_access_key=B=C\n[half]\naws_access_key_id = A\n")
	write(t, home+"/.aws/config", "[default]\nregion = x\n[profile process]\ncredential_process = /bin/sh -c 'echo \"{\\\"Version\\\":1,\\\"AccessKeyId\\\":\\\"P\\\",\\\"SecretAccessKey\\\":\\\"Q\\\",\\\"Expiration\\\":\\\"2100-01-01T00:00:00Z\\\"}\"'\n[profile bad]\ncredential_process = /bin/sh -c 'echo hush; exit 3'\n")
	chain := func(profile string, env map[string]string) *Chain {
		return &Chain{Profile: profile, Getenv: func(k string) string {
			if v, ok := env[k]; ok {
				return v
			}
			return map[string]string{"HOME": home}[k]
		}}
	}
	for _, tt := range []struct {
		c         *Chain
		id        string
		wantError string
	}{
		{chain("", nil), "A", ""},
		{chain("", map[string]string{"AWS_ACCESS_KEY_ID": "E", "AWS_SECRET_ACCESS_KEY": "F"}), "E", ""},
		{chain("", map[string]string{"AWS_ACCESS_KEY_ID": "E"}), "", "belong together"},
		{chain("process", nil), "P", ""},
		{chain("", map[string]string{"AWS_PROFILE": "process"}), "P", ""},
		{chain("half", nil), "", "needs both"},
		{chain("bad", nil), "", "exit status 3"},
		{chain("other", nil), "", "has no keys"},
		{chain("", map[string]string{"HOME": "/nowhere"}), "", "no AWS credentials"},
	} {
		got, err := tt.c.Get(context.Background())
		if got.AccessKeyID != tt.id || (err == nil) != (tt.wantError == "") || err != nil && (!strings.Contains(err.Error(), tt.wantError) || strings.Contains(err.Error(), "hush")) {
			t.Errorf("%s: %v, want %s %s", got.AccessKeyID, err, tt.id, tt.wantError)
		}
	}
	c := chain("", nil)
	c.Hybrid = func(context.Context) (awscall.Credentials, error) { return awscall.Credentials{AccessKeyID: "mi"}, nil }
	if got, _ := c.Get(context.Background()); got.AccessKeyID != "mi" {
		t.Errorf("an activation goes before files: %s", got.AccessKeyID)
	}
}

func FuzzSection(f *testing.F) {
	f.Add([]byte("[a]\nb = c\n"), "a")
	f.Fuzz(func(t *testing.T, text []byte, name string) {
		for k := range parseSection(text, name) {
			if k != strings.ToLower(k) {
				t.Errorf("the key %q", k)
			}
		}
	})
}

func FuzzProcess(f *testing.F) {
	f.Add([]byte(`{"Version":1,"AccessKeyId":"a","SecretAccessKey":"b"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if c, err := ParseProcess(text); err == nil && (c.AccessKeyID == "" || c.SecretAccessKey == "") {
			t.Error("no keys and no error")
		}
	})
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
