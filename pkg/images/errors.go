package images

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/docker/distribution/registry/api/errcode"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/pkg/transient"
	"go.podman.io/common/pkg/retry"
	"go.podman.io/image/v5/docker"
)

// Class explains why a digest could not be found. It decides whether a retry makes sense and
// which hint the user gets.
type Class int

// The classes. The zero Class is Other, so that an unknown failure never looks like a
// known one.
const (
	Other            Class = iota // nothing below fits
	Invalid                       // the text is not an image reference
	Unauthorized                  // no credentials, or rejected ones (401)
	Denied                        // access not allowed with these credentials (403), or blocked in registries.conf
	NoSuchRepository              // the registry does not know the repository
	NoSuchTag                     // the repository has no such tag
	RateLimited                   // too many requests (429)
	TLS                           // no trust in the certificate, or no TLS at all
	DNS                           // the registry's name does not resolve
	Timeout                       // the deadline passed
	Unreachable                   // refused, reset, no route
	Server                        // the registry failed (5xx)
	Canceled                      // the caller canceled
	WrongPlatform                 // the image exists, but not for the requested platform

	numClasses
)

var classNames = [numClasses]string{
	"other", "invalid", "unauthorized", "denied", "no such repository", "no such tag",
	"rate limited", "tls", "dns", "timeout", "unreachable", "server", "canceled", "wrong platform",
}

// String is the class in lower-case words.
func (c Class) String() string {
	if c < 0 || c >= numClasses {
		return "unknown class"
	}
	return classNames[c]
}

// Error is the only error type that this package returns. Its texts contain no passwords
// or tokens, and no user information and queries of URLs. For the same reason it does not
// wrap the original error.
type Error struct {
	Class    Class
	Ref      string // the image, normalized if it could be parsed
	Registry string // host, with port if any; empty for class Invalid
	Message  string // what went wrong and why
	Hint     string // what to do about it; may be empty
	// RetryAfter is the time for which the registry asks clients to wait; 0 if it does not.
	RetryAfter time.Duration

	transient    bool
	wrongContent bool
}

// Error is one line: the image, the message, the hint.
func (e *Error) Error() string {
	s := e.Message
	if e.Ref != "" {
		s = "image " + e.Ref + ": " + s
	}
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s
}

// Is reports, for transient.Err, whether the same request may succeed later without any change. It
// does not say when: podtask's own back-off decides. It is false if the registry asks for
// a wait that is longer than podtask waits. For ErrWrongContent, it reports whether that is the cause.
func (e *Error) Is(target error) bool {
	if target != transient.Err {
		return target == ErrWrongContent && e.wrongContent
	}
	switch e.Class {
	case RateLimited, Server:
		return e.RetryAfter == 0
	case Timeout, Unreachable:
		return true
	case DNS, Other:
		return e.transient
	default:
		return false
	}
}

// Unwrap lets errors.Is find context.Canceled and context.DeadlineExceeded.
func (e *Error) Unwrap() error {
	switch e.Class {
	case Canceled:
		return context.Canceled
	case Timeout:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// newError converts an error about ref to an Error. It is the only place where errors of
// containers/image get a class and a message.
func (r *Resolver) newError(ref Ref, login Login, err error) *Error {
	e := &Error{Class: classify(err), Ref: ref.String(), Registry: ref.Registry()}
	if e.wrongContent = errors.Is(err, ErrWrongContent); e.Class == Other {
		// An unknown failure is retried if podman pull would retry it.
		e.transient = retry.IsErrorRetryable(err)
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		// "No such host" is a definite answer; other DNS errors may pass.
		e.transient = !dns.IsNotFound
	}
	if answer, ok := errors.AsType[*refusal](err); ok && answer.after > 0 {
		e.RetryAfter = answer.after
	}
	e.Message, e.Hint = r.explain(e.Class, ref, login, err)
	return e
}

// classify checks in this order: podtask's own errors and the caller's context, the error
// code in the registry's reply, the HTTP status, the error of the transport.
func classify(err error) Class {
	switch {
	case errors.Is(err, context.Canceled):
		return Canceled
	case errors.Is(err, errBlocked):
		return Denied
	case errors.Is(err, docker.ErrTooManyRequests):
		return RateLimited
	case errors.Is(err, errPlainHTTP):
		return TLS
	}
	if c := classOfCode(err); c != Other {
		return c
	}
	if c := classOfStatus(statusOf(err), isPing(err)); c != Other {
		return c
	}
	var refused docker.ErrUnauthorizedForCredentials
	if errors.As(err, &refused) || isCredentialLookup(err) {
		return Unauthorized
	}
	return classOfTransport(err)
}

// classOfCode reads the error codes of the distribution specification.
func classOfCode(err error) Class {
	code := ""
	var coded errcode.Error
	var answer *refusal
	switch {
	case errors.As(err, &answer):
		code = answer.code
	case errors.As(err, &coded):
		code = coded.Code.Descriptor().Value
	}
	switch transport.ErrorCode(code) {
	case transport.UnauthorizedErrorCode:
		return Unauthorized
	case transport.DeniedErrorCode:
		return Denied
	case transport.TooManyRequestsErrorCode:
		return RateLimited
	case transport.UnavailableErrorCode:
		return Server
	case transport.NameUnknownErrorCode:
		return NoSuchRepository
	case transport.ManifestUnknownErrorCode:
		return NoSuchTag
	default:
		return Other
	}
}

func classOfStatus(status int, ping bool) Class {
	switch {
	case status == http.StatusUnauthorized:
		return Unauthorized
	case status == http.StatusForbidden:
		return Denied
	case status == http.StatusNotFound && !ping:
		return NoSuchTag
	case status == http.StatusTooManyRequests:
		return RateLimited
	case status >= 500:
		return Server
	default:
		return Other
	}
}

func classOfTransport(err error) Class {
	var (
		dns    *net.DNSError
		cert   *tls.CertificateVerificationError
		record tls.RecordHeaderError
		alert  tls.AlertError
		op     *net.OpError
		netErr net.Error
	)
	switch {
	case errors.As(err, &dns):
		return DNS
	case errors.As(err, &cert), errors.As(err, &record), errors.As(err, &alert), errors.Is(err, http.ErrSchemeMismatch):
		return TLS
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &netErr) && netErr.Timeout():
		return Timeout
	case errors.As(err, &op), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return Unreachable
	default:
		return Other
	}
}

// statusOf returns the HTTP status of err, or 0. If the body had no error code (as after
// HEAD), containers/image reports the status only as text.
func statusOf(err error) int {
	if answer, ok := errors.AsType[*refusal](err); ok {
		return answer.status
	}
	if unexpected, ok := errors.AsType[docker.UnexpectedHTTPStatusError](err); ok {
		return unexpected.StatusCode
	}
	for ; err != nil; err = errors.Unwrap(err) {
		var status int
		if n, _ := fmt.Sscanf(err.Error(), "StatusCode: %d,", &status); n == 1 {
			return status
		}
	}
	return 0
}

// isPing reports whether err comes from GET /v2/, which is not about an image.
func isPing(err error) bool {
	if answer, ok := errors.AsType[*refusal](err); ok {
		return answer.ping
	}
	return anyText(err, "pinging container registry ")
}

// isCredentialLookup reports whether credentials could not be read: auth.json is invalid,
// or a credential helper is missing or fails.
func isCredentialLookup(err error) bool { return anyText(err, "getting username and password: ") }

func anyText(err error, prefix string) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if strings.HasPrefix(err.Error(), prefix) {
			return true
		}
	}
	return false
}

// explain returns the message of a failure, which says what failed and why, and the hint,
// which says what to do.
func (r *Resolver) explain(c Class, ref Ref, given Login, err error) (message, hint string) {
	host := ref.Registry()
	login := "run: podman login " + host
	switch c {
	case Unauthorized:
		if isCredentialLookup(err) {
			return "the credentials for " + host + " cannot be read: " + detail(err), "correct the file or the credential helper, or " + login
		}
		if given != (Login{}) {
			return "registry " + host + " rejected the credentials of the task", "correct the secret that repositoryCredentials names"
		}
		if l, err := r.configured(ref); err == nil && l != (Login{}) {
			return "registry " + host + " rejected the stored credentials", login
		}
		return "registry " + host + " requires credentials and none are configured", login
	case Denied:
		if errors.Is(err, errBlocked) {
			return "registry " + host + " is blocked in registries.conf", "use another registry, or change blocked there"
		}
		return "registry " + host + " denies access to " + ref.Repository(), "check the name, and that the credentials grant access to it (podman login " + host + ")"
	case NoSuchRepository:
		return "registry " + host + " has no repository " + ref.Repository(), "check the spelling; for a private repository, log in (podman login " + host + ")"
	case NoSuchTag:
		if ref.Pinned() {
			return ref.Name() + " has no image with this digest", "check the digest; registries may remove images that have no tag"
		}
		return "there is no tag " + ref.Tag() + " in " + ref.Name(), "check the tag"
	case RateLimited:
		return "registry " + host + " received too many requests from this host (429" + limits(err) + ")", "wait, or log in to get a higher limit (podman login " + host + ")"
	case TLS:
		if errors.Is(err, errPlainPlace) {
			return "registry " + host + " leads to a token server, or another place, without TLS, and nothing was sent there", "ask who runs the registry"
		}
		if errors.Is(err, http.ErrSchemeMismatch) || errors.Is(err, errPlainHTTP) {
			return "registry " + host + " answers without TLS, in plain HTTP", "if that is intended, " + r.insecure(ref)
		}
		return "cannot establish a secure connection to registry " + host + ": " + detail(err), "put its CA into ~/.config/containers/certs.d/" + host + "/ca.crt, or " + r.insecure(ref)
	case DNS:
		return "the name of registry " + host + " cannot be resolved: " + detail(err), "check the spelling and the network"
	case Timeout:
		return "registry " + host + " did not answer in time", "check the network, proxy and firewall"
	case Unreachable:
		if op := new(net.OpError); errors.As(err, &op) && op.Op == "proxyconnect" {
			return "the proxy on the way to registry " + host + " cannot be reached: " + detail(op.Err), "correct HTTPS_PROXY, or add " + host + " to NO_PROXY; the agent and units have variables of their own"
		}
		return "registry " + host + " cannot be reached: " + detail(err), "check that it is running and that the address and port are correct"
	case Server:
		return "registry " + host + " failed: " + detail(err) + limits(err), "try again later"
	case Canceled:
		return "canceled before registry " + host + " answered", ""
	default:
		if errors.Is(err, ErrWrongContent) {
			return "registry " + host + ": " + detail(err), "the registry or a mirror of it sends wrong data: contact its operator"
		}
		return "registry " + host + ": " + detail(err), ""
	}
}

// insecure explains the way to use the registry of an image without protection, and what that means. The
// table of registries.conf is the one that decides about the image, if there is one.
func (r *Resolver) insecure(ref Ref) string {
	location := ref.Registry()
	if conf, err := findRegistry(r.sys, ref.Name()); err == nil && conf != nil && conf.Location != "" {
		location = conf.Location
	}
	return fmt.Sprintf("set insecure = true in registries.conf, in the [[registry]] with location = %q: "+
		"images and credentials may then travel unencrypted, and no certificate is checked", location)
}

// limits returns what a busy registry reports about the wait and its limits, with a
// leading comma; empty if it reports nothing.
func limits(err error) string {
	var answer *refusal
	if !errors.As(err, &answer) {
		return ""
	}
	text := ""
	if answer.after > 0 {
		text = ", it asks clients to wait " + span(answer.after)
	}
	if answer.quota != "" {
		text += ", " + answer.quota
	}
	return text
}

// detail returns the shortest text of err that contains the reason, safe to show.
func detail(err error) string {
	var (
		dns        *net.DNSError
		op         *net.OpError
		unexpected docker.UnexpectedHTTPStatusError
		coded      errcode.Error
		answer     *refusal
	)
	switch {
	case errors.As(err, &answer):
		return clean(answer.Error())
	case errors.As(err, &dns):
		return clean(localPort.ReplaceAllString(dns.Error(), ""))
	case errors.As(err, &op):
		return clean(localPort.ReplaceAllString(op.Error(), ""))
	case errors.As(err, &unexpected):
		return clean(unexpected.Error())
	case errors.As(err, &coded):
		return clean(coded.Error())
	default:
		return clean(err.Error())
	}
}

// localPort is this host's end of a connection, which is another one at each attempt.
var localPort = lazy.MustCompile(`\S+:\d+->`)

const maxDetail = 300 // runes of outside text in an error

var (
	urlText = lazy.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^\s"'<>]+`)
	// A reference with credentials in front, as people paste it from a URL.
	userInfoText = lazy.MustCompile(`[^\s/@"']+:[^\s/@"']+@([^\s/@"']+/)`)
	schemeText   = lazy.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}`)
	fieldText    = lazy.MustCompile(`(?i)(token|password|passwd|secret|auth)((?:\\?["'])\s*:\s*\\?["']|=)[^\s"'\\,}&]+`)
	// containers/image quotes the start of a token answer it cannot decode.
	bodyText = lazy.MustCompile(`body start "(?:[^"\\]|\\.)*"`)
)

// clean makes text from outside safe to show and store: one line of limited length
// without credentials and control characters.
func clean(s string) string {
	s = bodyText.ReplaceAllString(s, "body withheld")
	s = urlText.ReplaceAllStringFunc(s, cleanURL)
	s = userInfoText.ReplaceAllString(s, "[redacted]@$1")
	s = schemeText.ReplaceAllString(s, "$1 [redacted]")
	s = fieldText.ReplaceAllString(s, "$1$2[redacted]")
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == unicode.ReplacementChar {
			return ' '
		}
		return r
	}, s)
	if r := []rune(s); len(r) > maxDetail {
		s = string(r[:maxDetail]) + "…"
	}
	return s
}

// cleanURL removes everything from a URL that may contain a secret.
func cleanURL(s string) string {
	trimmed := strings.TrimRight(s, ".,:;)]")
	u, err := url.Parse(trimmed)
	if err != nil {
		return "[URL]"
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String() + s[len(trimmed):]
}
