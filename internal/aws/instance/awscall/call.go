package awscall

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/podtask/podtask/internal/lazy"
)

// Credentials sign calls to AWS. They are valid until Expires, or for ever if it is zero.
type Credentials struct {
	AccessKeyID, SecretAccessKey, SessionToken string
	Expires                                    time.Time
}

// String keeps secrets out of logs and error texts.
func (Credentials) String() string { return "credentials (hidden)" }

// GoString is String.
func (c Credentials) GoString() string { return c.String() }

// Provider returns credentials that are valid now. It is safe for concurrent use.
type Provider func(context.Context) (Credentials, error)

// Service is one of the services of AWS.
type Service struct {
	// Name is that in signatures and endpoints, such as ecs; Target is the prefix of X-Amz-Target.
	Name, Target string
}

// The services that are called.
var (
	ECS            = Service{"ecs", "AmazonEC2ContainerServiceV20141113"}
	SSM            = Service{"ssm", "AmazonSSM"}
	SecretsManager = Service{"secretsmanager", "secretsmanager"}
	ECR            = Service{"ecr", "AmazonEC2ContainerRegistry_V20150921"}
	STS            = Service{Name: "sts"}
)

// maxAnswer is the most an answer may have, in bytes.
const maxAnswer = 8 << 20

// callTimeout ends a call that AWS does not answer.
const callTimeout = 30 * time.Second

// reachTimeout ends an attempt to reach a service.
const reachTimeout = 10 * time.Second

// Client makes calls. It is safe for concurrent use.
type Client struct {
	// HTTP makes the requests.
	HTTP *http.Client
	// Credentials sign the calls; nil for calls that need no signature.
	Credentials Provider
	Region      string
	// Endpoints are URLs by the names of services; those that are missing are Amazon's.
	Endpoints map[string]string
	// Variant chooses among Amazon's endpoints.
	Variant   Variant
	UserAgent string
	// Clock has the time for signatures.
	Clock *Clock
	// Sign, if not nil, signs requests in place of SigV4 with Credentials.
	Sign func(r *http.Request, body []byte, s Service, region string, now time.Time) error
}

// With returns a client that calls as another caller, in a region; empty: in the same.
func (c *Client) With(p Provider, region string) *Client {
	other := *c
	other.Credentials, other.Region = p, cmp.Or(region, c.Region)
	return &other
}

// Error is the answer of a service that refused a call.
type Error struct {
	Operation string
	// Code is the name of the exception; empty if the answer has none.
	Code, Message string
	Status        int
	// Region is the region of a bucket of S3 that is in another one than the request was sent to.
	Region string
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s", e.Operation, cmp.Or(strings.TrimPrefix(strings.TrimSuffix(e.Code+": "+e.Message, ": "), ": "), http.StatusText(e.Status)))
}

// Passing reports whether the same call may succeed soon: the service is busy or has failed.
func (e *Error) Passing() bool {
	switch e.Code {
	case "ThrottlingException", "Throttling", "TooManyRequestsException", "RequestLimitExceeded", "ServerException", "LimitExceededException",
		"InternalServerError", "InternalFailure", "InternalServerException", "ServiceUnavailable", "ServiceUnavailableException", "RequestTimeout", "TooManyUpdates":
		return true
	}
	return e.Status >= 500 || e.Status == http.StatusTooManyRequests || e.Status >= 300 && e.Status < 400
}

// CodeOf returns the code of an *Error; empty for other errors.
func CodeOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}

// Refused reports whether the service gave an answer that the same call will get again. Errors of
// the network are not such answers.
func Refused(err error) bool {
	var e *Error
	return errors.As(err, &e) && !e.Passing()
}

// Outdated reports whether a service refused a call because its credentials have ended, or because of the clock of
// this host: with new credentials, or when the clock is right, it may succeed.
func Outdated(err error) bool {
	switch CodeOf(err) {
	case "ExpiredTokenException", "ExpiredToken", "RequestExpired", "RequestTimeTooSkewed", "InvalidSignatureException", "SignatureDoesNotMatch":
		return true
	}
	return false
}

// Call makes a call and reads the answer into out, unless that is nil. Refusals of the service are
// *Error.
func (c *Client) Call(ctx context.Context, s Service, operation string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	headers := http.Header{"Content-Type": {"application/x-amz-json-1.1"}, "X-Amz-Target": {s.Target + "." + operation}}
	base, err := c.Endpoint(s.Name)
	if err != nil {
		return err
	}
	answer, err := c.send(ctx, s, operation, request{http.MethodPost, base + "/", headers, body})
	if err != nil {
		return err
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("%s: the answer is not what ECS sends: %w", operation, err)
	}
	return nil
}

// Caller is whom AWS takes the credentials for.
type Caller struct {
	Account, ARN string
}

// Caller asks STS who the caller is, which needs no permission.
func (c *Client) Caller(ctx context.Context) (out Caller, err error) {
	base, err := c.Endpoint(STS.Name)
	if err != nil {
		return out, err
	}
	headers := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	text, err := c.send(ctx, STS, "GetCallerIdentity", request{http.MethodPost, base + "/", headers, []byte("Action=GetCallerIdentity&Version=2011-06-15")})
	if err != nil {
		return out, err
	}
	var answer struct {
		Result struct {
			Account string
			Arn     string
		} `xml:"GetCallerIdentityResult"`
	}
	if err := xml.Unmarshal(text, &answer); err != nil || answer.Result.Arn == "" {
		return out, errors.New("GetCallerIdentity: the answer is not what STS sends")
	}
	return Caller{answer.Result.Account, answer.Result.Arn}, nil
}

// Reach asks a service for nothing, without credentials, and returns its URL and by how much its clock is ahead: any answer
// shows that the name resolves, the host answers, and its certificate is trusted.
func (c *Client) Reach(ctx context.Context, service string) (address string, ahead time.Duration, err error) {
	if address, err = c.Endpoint(service); err != nil {
		return "", 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodHead, address+"/", nil)
	if err != nil {
		return address, 0, err
	}
	r.Header.Set("User-Agent", c.UserAgent)
	resp, err := c.do(r)
	if err != nil {
		return address, 0, withoutQuery(err)
	}
	defer resp.Body.Close()
	if theirs, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		ahead = time.Until(theirs).Round(time.Second)
	}
	return address, ahead, nil
}

// regionName matches regions, which become part of a host name.
var regionName = lazy.MustCompile(`^[a-z0-9-]{1,32}$`)

// Get reads an object of S3, whichever region it is in.
func (c *Client) Get(ctx context.Context, bucket, key string) ([]byte, error) {
	content, err := c.get(ctx, bucket, key)
	if e, ok := errors.AsType[*Error](err); ok && regionName.MatchString(e.Region) && e.Region != c.Region {
		return c.With(c.Credentials, e.Region).get(ctx, bucket, key)
	}
	return content, err
}

func (c *Client) get(ctx context.Context, bucket, key string) ([]byte, error) {
	base, err := c.Endpoint("s3")
	if err != nil {
		return nil, err
	}
	path := "/" + bucket + "/" + (&url.URL{Path: key}).EscapedPath()
	return c.send(ctx, Service{Name: "s3"}, "GetObject", request{http.MethodGet, base + path, http.Header{}, nil})
}

// request is a request that is not signed yet.
type request struct {
	method, address string
	headers         http.Header
	body            []byte
}

// send sends a request. If it is refused because of the clock of this host, that is corrected, and the request is sent again.
func (c *Client) send(ctx context.Context, s Service, operation string, q request) ([]byte, error) {
	answer, learned, err := c.sendOnce(ctx, s, operation, q)
	if learned {
		answer, _, err = c.sendOnce(ctx, s, operation, q)
	}
	return answer, err
}

// sendOnce sends a request once. Learned: it was refused because of the clock, which is right now.
func (c *Client) sendOnce(ctx context.Context, s Service, operation string, q request) (answer []byte, learned bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, q.method, q.address, bytes.NewReader(q.body))
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w", operation, err)
	}
	r.Header = q.headers.Clone()
	r.Header.Set("User-Agent", c.UserAgent)
	if c.Credentials != nil || c.Sign != nil {
		if err := c.sign(ctx, r, q.body, s); err != nil {
			return nil, false, fmt.Errorf("%s: %w", operation, err)
		}
	}
	resp, err := c.do(r)
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w", operation, withoutQuery(err))
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, false, fmt.Errorf("%s: read the answer: %w", operation, err)
	case len(answer) > maxAnswer:
		return nil, false, fmt.Errorf("%s: the answer has more than %d bytes", operation, maxAnswer)
	case resp.StatusCode != http.StatusOK:
		e := refusal(operation, resp.StatusCode, answer)
		e.Region = resp.Header.Get("X-Amz-Bucket-Region")
		return nil, skewed(e) && c.Clock.learn(resp), e
	}
	return answer, false, nil
}

// do sends a request to its address and to no other: a redirect would take the signature, the token of a session and what was
// asked elsewhere, perhaps without TLS. S3 names the region of a bucket without one.
func (c *Client) do(r *http.Request) (*http.Response, error) {
	client := *c.HTTP
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return client.Do(r)
}

// skewed reports whether a refusal may be due to the clock of this host.
func skewed(e *Error) bool {
	return Outdated(e) && e.Code != "ExpiredTokenException" && e.Code != "ExpiredToken" || e.Code == "AuthFailure"
}

// withoutQuery shortens an error of HTTP to its cause: the address is known, and may be long.
func withoutQuery(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}

// refusal reads the exception in an answer.
func refusal(operation string, status int, body []byte) *Error {
	var e struct {
		Type     string `json:"__type"`
		Message  string `json:"message"`
		Message2 string `json:"Message"`
	}
	if json.Unmarshal(body, &e) != nil { // an answer without JSON has a status; S3 answers in XML
		var x struct {
			Code, Message string
			Error         struct{ Code, Message string } // as STS answers
		}
		if xml.Unmarshal(body, &x) == nil {
			e.Type, e.Message = cmp.Or(x.Code, x.Error.Code), cmp.Or(x.Message, x.Error.Message)
		}
	}
	code := e.Type
	if i := strings.LastIndexByte(code, '#'); i >= 0 {
		code = code[i+1:]
	}
	return &Error{Operation: operation, Code: short(code), Message: short(cmp.Or(e.Message, e.Message2)), Status: status}
}

// maxText limits the bytes of a text of a service in an error, which reaches reasons, the log and the status.
const maxText = 500

func short(text string) string { return strings.ToValidUTF8(text[:min(len(text), maxText)], "") }

// sign signs a request with the caller's credentials.
func (c *Client) sign(ctx context.Context, r *http.Request, body []byte, s Service) error {
	if c.Sign != nil {
		return c.Sign(r, body, s, c.Region, c.Clock.now())
	}
	got, err := c.Credentials(ctx)
	if err != nil {
		return err
	}
	hash := Hash(body)
	if s.Name == "s3" {
		r.Header.Set("X-Amz-Content-Sha256", hash)
	}
	return v4.NewSigner().SignHTTP(ctx, sdk(got), r, hash, s.Name, c.Region, c.Clock.now(), func(o *v4.SignerOptions) {
		o.DisableURIPathEscaping = s.Name == "s3"
	})
}

// Hash returns the SHA-256 of a body in hexadecimal, as signatures have it.
func Hash(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

func sdk(c Credentials) aws.Credentials {
	return aws.Credentials{AccessKeyID: c.AccessKeyID, SecretAccessKey: c.SecretAccessKey, SessionToken: c.SessionToken, Source: "podtask"}
}
