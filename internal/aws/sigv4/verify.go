package sigv4

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Errors of a request. Use errors.Is.
var (
	// ErrMissing: the request is not signed, or in another way.
	ErrMissing = errors.New("the request is not signed with AWS Signature Version 4 in its Authorization header")
	// ErrUnknownKey: the access key is another one.
	ErrUnknownKey = errors.New("the access key is not the one of this agent")
	// ErrInvalid: the signature does not fit the request or the time.
	ErrInvalid = errors.New("the signature is not valid")
)

const (
	algorithm = "AWS4-HMAC-SHA256"
	timestamp = "20060102T150405Z"
	// Skew is how far the date of a request may be from the present, in both directions.
	Skew = 5 * time.Minute
	// maxHeader is more than an Authorization header of a client needs, in bytes.
	maxHeader = 4096
)

// Key is an access key with its secret.
type Key struct{ ID, Secret string }

// Request is a signed request whose body was not read yet. ParseRequest makes it.
type Request struct {
	// Service is that of the scope, such as ecs; Region the client's region.
	Service, Region string

	key       Key
	date      string // as signed
	scope     string
	signed    []string // names of headers, in order
	signature string
	canonical string // all of the canonical request but the hash of the body
}

// ParseRequest checks all of a request that can be checked without its body: that it is
// signed, with the key, now, and that what must be signed is. Nothing that it returns may
// be trusted before Verify.
func ParseRequest(r *http.Request, key Key, now time.Time) (*Request, error) {
	s, err := parseAuthorization(r.Header.Values("Authorization"))
	if err != nil {
		return nil, err
	}
	id, scope, _ := strings.Cut(s.scope, "/")
	if !hmac.Equal([]byte(id), []byte(key.ID)) || key.Secret == "" {
		return nil, ErrUnknownKey
	}
	s.key, s.scope = key, scope
	parts := strings.Split(scope, "/")
	if len(parts) != 4 || parts[3] != "aws4_request" || parts[1] == "" || parts[2] == "" {
		return nil, fmt.Errorf("%w: the scope is not DATE/REGION/SERVICE/aws4_request", ErrInvalid)
	}
	s.Region, s.Service = parts[1], parts[2]
	if err := s.checkDate(r.Header.Values("X-Amz-Date"), parts[0], now); err != nil {
		return nil, err
	}
	if err := s.canonicalize(r); err != nil {
		return nil, err
	}
	return s, nil
}

// parseAuthorization reads "AWS4-HMAC-SHA256 Credential=..., SignedHeaders=..., Signature=...".
// The scope still begins with the access key.
func parseAuthorization(values []string) (*Request, error) {
	if len(values) == 0 {
		return nil, ErrMissing
	}
	if len(values) > 1 || len(values[0]) > maxHeader {
		return nil, fmt.Errorf("%w: there must be one Authorization header of at most %d bytes", ErrInvalid, maxHeader)
	}
	rest, ok := strings.CutPrefix(values[0], algorithm+" ")
	if !ok {
		return nil, ErrMissing
	}
	fields := strings.Split(rest, ", ")
	if len(fields) != 3 {
		fields = strings.Split(rest, ",")
	}
	var s Request
	var headers string
	for i, f := range []struct {
		name string
		into *string
	}{{"Credential=", &s.scope}, {"SignedHeaders=", &headers}, {"Signature=", &s.signature}} {
		if len(fields) != 3 || !strings.HasPrefix(fields[i], f.name) {
			return nil, fmt.Errorf("%w: the Authorization header is not Credential, SignedHeaders and Signature", ErrInvalid)
		}
		*f.into = strings.TrimPrefix(fields[i], f.name)
	}
	s.signed = strings.Split(headers, ";")
	if !slices.IsSorted(s.signed) || len(slices.Compact(slices.Clone(s.signed))) != len(s.signed) || headers != strings.ToLower(headers) {
		return nil, fmt.Errorf("%w: SignedHeaders must be lower-case names in order", ErrInvalid)
	}
	return &s, nil
}

// checkDate checks the signed date against the scope's day and the present.
func (s *Request) checkDate(dates []string, day string, now time.Time) error {
	if len(dates) != 1 {
		return fmt.Errorf("%w: there must be one X-Amz-Date header", ErrInvalid)
	}
	s.date = dates[0]
	at, err := time.Parse(timestamp, s.date)
	if err != nil || at.Format(timestamp) != s.date || at.Format("20060102") != day {
		return fmt.Errorf("%w: X-Amz-Date is not YYYYMMDDTHHMMSSZ on the day of the scope", ErrInvalid)
	}
	if off := now.Sub(at); off > Skew || off < -Skew {
		return fmt.Errorf("%w: the request was signed at %s, and it is %s here: more than %s apart", ErrInvalid, s.date, now.UTC().Format(timestamp), Skew)
	}
	return nil
}

// mustBeSigned says which headers a signature has to cover: those that decide what a
// request means.
func mustBeSigned(r *http.Request) []string {
	names := []string{"host"}
	for name := range r.Header {
		if lower := strings.ToLower(name); lower == "content-type" || lower == "x-amz-target" || lower == "x-amz-date" {
			names = append(names, lower)
		}
	}
	return names
}

// canonicalize makes the canonical request without the hash of the body.
func (s *Request) canonicalize(r *http.Request) error {
	for _, name := range mustBeSigned(r) {
		if !slices.Contains(s.signed, name) {
			return fmt.Errorf("%w: it does not cover the header %s", ErrInvalid, name)
		}
	}
	query, err := canonicalQuery(r.URL.RawQuery)
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\n%s\n", r.Method, canonicalPath(r.URL), query)
	for _, name := range s.signed {
		value, err := headerValue(r, name)
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s:%s\n", name, value)
	}
	fmt.Fprintf(&b, "\n%s\n", strings.Join(s.signed, ";"))
	s.canonical = b.String()
	return nil
}

// canonicalPath is the path as sent, with each element encoded once more (all services but
// S3).
func canonicalPath(u *url.URL) string {
	path := u.EscapedPath()
	if path == "" {
		return "/"
	}
	return strings.ReplaceAll(escape(path), "%2F", "/")
}

// canonicalQuery sorts the parameters by their encoded names and values.
func canonicalQuery(raw string) (string, error) {
	if raw == "" {
		return "", nil
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return "", fmt.Errorf("%w: the query cannot be read", ErrInvalid)
	}
	var all []string
	for name, list := range values {
		for _, v := range list {
			all = append(all, escape(name)+"="+escape(v))
		}
	}
	slices.Sort(all)
	return strings.Join(all, "&"), nil
}

// escape encodes all but the unreserved characters of RFC 3986.
func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// headerValue is the value of a signed header. A header that is there twice is refused:
// which of them counts is a matter of taste, and no client sends it.
func headerValue(r *http.Request, name string) (string, error) {
	if name == "host" {
		return r.Host, nil
	}
	values := r.Header.Values(name)
	if len(values) == 0 && name == "content-length" && r.ContentLength >= 0 {
		values = []string{strconv.FormatInt(r.ContentLength, 10)}
	}
	if len(values) != 1 {
		return "", fmt.Errorf("%w: the signed header %q is there %d times", ErrInvalid, name, len(values))
	}
	return strings.Join(strings.Fields(values[0]), " "), nil
}

// Verify checks the signature for the body of the request, in constant time.
func (s *Request) Verify(body []byte) error {
	hash := sha256.Sum256(body)
	canonical := sha256.Sum256([]byte(s.canonical + hex.EncodeToString(hash[:])))
	text := strings.Join([]string{algorithm, s.date, s.scope, hex.EncodeToString(canonical[:])}, "\n")
	key := []byte("AWS4" + s.key.Secret)
	for _, part := range strings.Split(s.scope, "/") {
		key = mac(key, part)
	}
	if !hmac.Equal([]byte(hex.EncodeToString(mac(key, text))), []byte(s.signature)) {
		return fmt.Errorf("%w: it does not fit the request: check the secret access key", ErrInvalid)
	}
	return nil
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}
