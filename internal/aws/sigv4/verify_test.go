package sigv4_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/podtask/podtask/internal/aws/sigv4"
	"github.com/podtask/podtask/internal/testing/nonsense"
)

var (
	key = sigv4.Key{ID: "AKIDEXAMPLE", Secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"}
	at  = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
)

const body = `{"cluster":"default","count":2}`

// signed is a request that the AWS SDK has signed.
func signed(t *testing.T, k sigv4.Key, target string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-amz-json-1.1")
	r.Header.Set("X-Amz-Target", "AmazonEC2ContainerServiceV20141113.RunTask")
	hash := sha256.Sum256([]byte(body))
	credentials := aws.Credentials{AccessKeyID: k.ID, SecretAccessKey: k.Secret}
	if err := v4.NewSigner().SignHTTP(t.Context(), credentials, r, hex.EncodeToString(hash[:]), "ecs", "local", at); err != nil {
		t.Fatal(err)
	}
	return received(r)
}

// received is a request as a server sees it.
func received(r *http.Request) *http.Request {
	r = r.Clone(context.Background())
	r.Host = r.URL.Host
	r.URL.Host, r.URL.Scheme = "", ""
	return r
}

func verify(r *http.Request, body string) error {
	s, err := sigv4.ParseRequest(r, key, at.Add(time.Minute))
	if err != nil {
		return err
	}
	return s.Verify([]byte(body))
}

func TestSignaturesOfTheSDKAreAccepted(t *testing.T) {
	t.Parallel()
	for _, target := range []string{"http://127.0.0.1:4580/", "http://127.0.0.1:4580", "http://localhost:1/a%20b/c?b=2&a=1&a=0&c=x%2By", "http://[::1]:81/"} {
		r := signed(t, key, target)
		if err := verify(r, body); err != nil {
			t.Errorf("%s: %v", target, err)
		}
		s, err := sigv4.ParseRequest(r, key, at)
		if err != nil || s.Service != "ecs" || s.Region != "local" {
			t.Errorf("%+v %v", s, err)
		}
	}
}

// The request is the example of AWS' documentation with its published signature.
func TestSignatureOfTheDocumentationIsAccepted(t *testing.T) {
	t.Parallel()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://iam.amazonaws.com/?Action=ListUsers&Version=2010-05-08", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	r.Header.Set("X-Amz-Date", "20150830T123600Z")
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request, SignedHeaders=content-type;host;x-amz-date, Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7")
	s, err := sigv4.ParseRequest(received(r), key, time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC))
	if err == nil {
		err = s.Verify(nil)
	}
	if err != nil {
		t.Error(err)
	}
}

func TestEachChangedByteIsRefused(t *testing.T) {
	t.Parallel()
	const target = "http://127.0.0.1:4580/p?a=1"
	refused := func(what string, r *http.Request, body string) {
		t.Helper()
		if err := verify(r, body); err == nil {
			t.Errorf("%s is accepted", what)
		}
	}
	for i := range len(body) {
		changed := []byte(body)
		changed[i] ^= 1
		refused("the body "+string(changed), signed(t, key, target), string(changed))
	}
	refused("a longer body", signed(t, key, target), body+" ")
	good := signed(t, key, target)
	for name, values := range good.Header {
		if name == "User-Agent" {
			continue
		}
		for i := range len(values[0]) {
			r := good.Clone(t.Context())
			changed := []byte(values[0])
			changed[i] ^= 1
			r.Header.Set(name, string(changed))
			refused(name+": "+string(changed), r, body)
		}
	}
	for what, change := range map[string]func(*http.Request){
		"another method":   func(r *http.Request) { r.Method = http.MethodPut },
		"another path":     func(r *http.Request) { r.URL.Path = "/q" },
		"another query":    func(r *http.Request) { r.URL.RawQuery = "a=2" },
		"a longer query":   func(r *http.Request) { r.URL.RawQuery = "a=1&b=2" },
		"another host":     func(r *http.Request) { r.Host = "127.0.0.1:4581" },
		"a header missing": func(r *http.Request) { r.Header.Del("X-Amz-Target") },
		"a header twice":   func(r *http.Request) { r.Header.Add("X-Amz-Target", r.Header.Get("X-Amz-Target")) },
		"two dates":        func(r *http.Request) { r.Header.Add("X-Amz-Date", r.Header.Get("X-Amz-Date")) },
		"two signatures":   func(r *http.Request) { r.Header.Add("Authorization", r.Header.Get("Authorization")) },
	} {
		r := signed(t, key, target)
		change(r)
		refused(what, r, body)
	}
}

func TestWhatIsWrongWithASignatureIsTold(t *testing.T) {
	t.Parallel()
	without := func(name string) string {
		return strings.Replace(signed(t, key, "http://h/").Header.Get("Authorization"), name, "", 1)
	}
	for _, c := range []struct {
		name   string
		change func(*http.Request)
		now    time.Time
		want   error
	}{
		{"no signature", func(r *http.Request) { r.Header.Del("Authorization") }, at, sigv4.ErrMissing},
		{"basic authentication", func(r *http.Request) { r.SetBasicAuth("a", "b") }, at, sigv4.ErrMissing},
		{"no date", func(r *http.Request) { r.Header.Del("X-Amz-Date") }, at, sigv4.ErrInvalid},
		{"6 minutes early", func(*http.Request) {}, at.Add(6 * time.Minute), sigv4.ErrInvalid},
		{"6 minutes late", func(*http.Request) {}, at.Add(-6 * time.Minute), sigv4.ErrInvalid},
		{"host not signed", func(r *http.Request) { r.Header.Set("Authorization", without("host;")) }, at, sigv4.ErrInvalid},
		{"date not signed", func(r *http.Request) { r.Header.Set("Authorization", without("x-amz-date;")) }, at, sigv4.ErrInvalid},
		{"operation not signed", func(r *http.Request) { r.Header.Set("Authorization", without(";x-amz-target")) }, at, sigv4.ErrInvalid},
		{"a long header", func(r *http.Request) { r.Header.Set("Authorization", strings.Repeat("x", 5000)) }, at, sigv4.ErrInvalid},
		{"a bad scope", func(r *http.Request) { r.Header.Set("Authorization", without("/aws4_request")) }, at, sigv4.ErrInvalid},
	} {
		r := signed(t, key, "http://h/")
		c.change(r)
		if _, err := sigv4.ParseRequest(r, key, c.now); !errors.Is(err, c.want) {
			t.Errorf("%s: error is %v, want %v", c.name, err, c.want)
		}
	}
	if _, err := sigv4.ParseRequest(signed(t, sigv4.Key{ID: "AKIDOTHER", Secret: key.Secret}, "http://h/"), key, at); !errors.Is(err, sigv4.ErrUnknownKey) {
		t.Errorf("another key: error is %v", err)
	}
	if _, err := sigv4.ParseRequest(signed(t, key, "http://h/"), sigv4.Key{ID: key.ID}, at); err == nil {
		t.Error("a key without a secret verifies")
	}
	s, err := sigv4.ParseRequest(signed(t, sigv4.Key{ID: key.ID, Secret: "other"}, "http://h/"), key, at)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Verify([]byte(body)); !errors.Is(err, sigv4.ErrInvalid) || bytes.Contains([]byte(err.Error()), []byte(key.Secret)) {
		t.Errorf("another secret: error is %v", err)
	}
}

func FuzzParseRequest(f *testing.F) {
	f.Add("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260304/local/ecs/aws4_request, SignedHeaders=host;x-amz-date, Signature=00", "20260304T050607Z", "a=1")
	f.Fuzz(func(t *testing.T, authorization, date, query string) {
		r := &http.Request{Method: http.MethodPost, Host: "h", Header: http.Header{"Authorization": {authorization}, "X-Amz-Date": {date}}}
		r.URL = signed(t, key, "http://h/").URL
		r.URL.RawQuery = query
		s, err := sigv4.ParseRequest(r, key, at)
		if err == nil && s.Verify(nil) == nil {
			t.Error("a signature out of nothing is accepted")
		}
	})
}

func TestNonsenseIsNoSignature(t *testing.T) {
	nonsense.Check(t, "AWS4-HMAC-SHA256 ", func(text string) {
		r := signed(t, key, "http://h/")
		r.Header.Set("Authorization", text)
		if _, err := sigv4.ParseRequest(r, key, at); err == nil {
			t.Error("nonsense is accepted")
		}
	})
}
