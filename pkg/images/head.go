package images

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/opencontainers/go-digest"
	"go.podman.io/image/v5/manifest"
	"go.podman.io/image/v5/pkg/sysregistriesv2"
	"go.podman.io/image/v5/pkg/tlsclientconfig"
	"go.podman.io/image/v5/types"
)

// head requests the digest of ref's tag without the manifest. containers/image can do
// that too, but does not return the headers: the media type, the wait that a busy
// registry asks for, and the rest of a limit.
func (r *Resolver) head(ctx context.Context, ref Ref, login Login) (digest.Digest, string, error) {
	registry, insecure, err := registryOf(r.sys, ref)
	if err != nil {
		return "", "", err
	}
	wire, err := newWire(r.sys, ref, insecure)
	if err != nil {
		return "", "", err
	}
	defer wire.base.CloseIdleConnections()
	asking, err := transport.NewWithContext(ctx, registry, login.authenticator(), transport.NewUserAgent(wire, r.sys.DockerRegistryUserAgent),
		[]string{"repository:" + ref.Repository() + ":" + transport.PullScope})
	if err != nil {
		return "", "", wire.explain(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, "https://"+registry.RegistryStr()+"/v2/"+ref.Repository()+"/manifests/"+ref.Tag(), nil)
	if err != nil {
		return "", "", err
	}
	req.Header["Accept"] = manifest.DefaultRequestedManifestMIMETypes
	res, err := (&http.Client{Transport: asking}).Do(req)
	if err != nil {
		return "", "", wire.explain(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return "", "", newRefusal(res, res.Request.URL.Path == "/v2/")
	}
	d, err := digest.Parse(res.Header.Get("Docker-Content-Digest"))
	if err != nil {
		return "", "", errNoDigest
	}
	mediaType, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";")
	return d, strings.TrimSpace(mediaType), nil
}

// errNoDigest is a successful reply to HEAD without Docker-Content-Digest.
var errNoDigest = errors.New("the reply has no digest")

// registryOf returns ref's host for go-containerregistry, which calls Docker Hub
// index.docker.io.
func registryOf(sys *types.SystemContext, ref Ref) (host name.Registry, insecure bool, err error) {
	conf, err := findRegistry(sys, ref.Name())
	if err != nil {
		return host, false, fmt.Errorf("reading registries.conf: %w", err)
	}
	var options []name.Option
	if insecure = conf != nil && conf.Insecure; insecure {
		options = append(options, name.Insecure)
	}
	text := ref.Registry()
	if text == "docker.io" {
		text = name.DefaultRegistry
	}
	host, err = name.NewRegistry(text, options...)
	return host, insecure, err
}

// allowsPlain reports whether registries.conf allows plain HTTP for the registry of ref, or for one of its mirrors.
func (r *Resolver) allowsPlain(ref Ref) (bool, error) {
	conf, err := findRegistry(r.sys, ref.Name())
	if err != nil {
		return false, fmt.Errorf("reading registries.conf: %w", err)
	}
	return conf != nil && (conf.Insecure || slices.ContainsFunc(conf.Mirrors, func(m sysregistriesv2.Endpoint) bool { return m.Insecure })), nil
}

// wire is the transport of one exchange with a registry. It rejects plain HTTP unless
// registries.conf allows it, and records the last refusal.
type wire struct {
	base     *http.Transport
	insecure bool

	mu    sync.Mutex
	last  *refusal
	tls   error // why there was no answer over TLS
	plain error // why there was none without it
}

func newWire(sys *types.SystemContext, ref Ref, insecure bool) (*wire, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: insecure} //nolint:gosec // registries.conf says so
	if dir := certsOf(sys, ref.Registry()); dir != "" {
		if err := tlsclientconfig.SetupCertificates(dir, conf); err != nil {
			return nil, err
		}
	}
	base := tlsclientconfig.NewTransport()
	base.TLSClientConfig = conf
	return &wire{base: base, insecure: insecure}, nil
}

// certsOf returns the directory of containers-certs.d(5) for a host; empty if there is
// none.
func certsOf(sys *types.SystemContext, host string) string {
	parents := []string{sys.DockerPerHostCertDirPath}
	if parents[0] == "" {
		parents = []string{"/etc/containers/certs.d", "/etc/docker/certs.d"}
		if home, err := os.UserHomeDir(); err == nil {
			parents = append([]string{filepath.Join(home, ".config/containers/certs.d")}, parents...)
		}
	}
	for _, parent := range parents {
		dir := filepath.Join(parent, host)
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			return dir
		}
	}
	return ""
}

// RoundTrip implements http.RoundTripper.
func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "https" && !w.insecure {
		return nil, errPlainHTTP
	}
	res, err := w.base.RoundTrip(req)
	w.mu.Lock()
	defer w.mu.Unlock()
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &record) && string(record.RecordHeader[:]) == "HTTP/":
		w.tls = http.ErrSchemeMismatch
	case err != nil && req.URL.Scheme == "https":
		w.tls = err
	case err != nil:
		w.plain = err
	case res.StatusCode >= http.StatusBadRequest:
		w.last = newRefusal(res, req.URL.Path == "/v2/")
	}
	if err == nil {
		res.Body = &boundedBody{res.Body, maxReply}
	}
	return res, err
}

// maxReply is the most that is read of a token or an error in bytes, as in
// containers/image. go-containerregistry reads to the end, which a registry need not send.
const maxReply = 1 << 20

// boundedBody is the body of a reply that may have n more bytes.
type boundedBody struct {
	io.ReadCloser
	n int
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.n == 0 {
		return 0, errLongReply
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.n)])
	b.n -= n
	return n, err
}

// errLongReply: a reply is larger than any that makes sense.
var errLongReply = fmt.Errorf("it sends a reply of more than %d bytes", maxReply)

// errPlainHTTP is returned to go-containerregistry when it falls back to plain HTTP for a
// host in a private network.
var errPlainHTTP = errors.New("plain HTTP is not allowed")

// explain returns the cause of an error of go-containerregistry.
func (w *wire) explain(err error) error {
	if answered, ok := errors.AsType[*transport.Error](err); ok {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.last != nil && w.last.status == answered.StatusCode {
			if len(answered.Errors) > 0 {
				w.last.code, w.last.text = string(answered.Errors[0].Code), answered.Errors[0].Message
			}
			return w.last
		}
		return &refusal{status: answered.StatusCode}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.tls != nil && !w.insecure:
		return w.tls // the error that follows is about plain HTTP
	case w.plain != nil && errors.Is(w.tls, http.ErrSchemeMismatch):
		return w.plain
	}
	return err
}

// refusal is a reply with an error status.
type refusal struct {
	status int
	ping   bool   // the reply to GET /v2/, which is not about an image
	code   string // of the distribution specification; empty after HEAD
	text   string
	// after is the time to wait before the next request (Retry-After); negative if it is
	// not set.
	after time.Duration
	// quota describes the limit in the reply (RateLimit-Limit, -Remaining).
	quota string
}

func newRefusal(res *http.Response, ping bool) *refusal {
	return &refusal{status: res.StatusCode, ping: ping, after: retryAfter(res.Header, time.Now()), quota: quota(res.Header)}
}

func (e *refusal) Error() string {
	s := fmt.Sprintf("%d %s", e.status, http.StatusText(e.status))
	if text := cmp.Or(e.text, e.code); text != "" {
		s += ": " + text
	}
	return s
}

// retryAfter reads the header of RFC 9110 section 10.2.3: seconds or a date.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(h.Get("Retry-After"))
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(at.Sub(now), 0)
	}
	return -1
}

// quota describes a registry's limit. Docker Hub sends "100;w=21600": the number of pulls
// and a period in seconds.
func quota(h http.Header) string {
	limit, window := cutNumber(h.Get("RateLimit-Limit"))
	left, _ := cutNumber(h.Get("RateLimit-Remaining"))
	var parts []string
	if limit >= 0 {
		text := fmt.Sprintf("limit %d", limit)
		if seconds, err := strconv.ParseUint(strings.TrimPrefix(window, "w="), 10, 31); err == nil {
			text += " in " + span(time.Duration(seconds)*time.Second)
		}
		parts = append(parts, text)
	}
	if left >= 0 {
		parts = append(parts, fmt.Sprintf("%d left", left))
	}
	return strings.Join(parts, ", ")
}

// span formats a duration without minutes and seconds that are zero: 6h, 30s.
func span(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// cutNumber reads "100;w=21600" as 100 and "w=21600"; it returns -1 for invalid text.
func cutNumber(text string) (n int, rest string) {
	number, rest, _ := strings.Cut(strings.TrimSpace(text), ";")
	v, err := strconv.ParseUint(strings.TrimSpace(number), 10, 31)
	if err != nil {
		return -1, ""
	}
	return int(v), strings.TrimSpace(rest)
}

// retryBusy calls ask until the registry is no longer busy, and waits as long as the
// registry asks for, up to the resolver's maximum.
func (r *Resolver) retryBusy(ctx context.Context, ask func() error) error {
	end := time.Now().Add(r.maxWait)
	for try := 1; ; try++ {
		err := ask()
		var busy *refusal
		if !errors.As(err, &busy) || busy.after < 0 || busy.status != http.StatusTooManyRequests && busy.status != http.StatusServiceUnavailable {
			return err
		}
		if try == maxTries || time.Now().Add(busy.after).After(end) {
			return err
		}
		timer := time.NewTimer(busy.after)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}

// maxTries limits the requests to a registry that always asks for a wait of zero.
const maxTries = 5
