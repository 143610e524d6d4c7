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
	"regexp"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
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
)

// maxAnswer is the most an answer may have, in bytes.
const maxAnswer = 8 << 20

// callTimeout ends a call that AWS does not answer.
const callTimeout = 30 * time.Second

// Client makes calls. It is safe for concurrent use.
type Client struct {
	// HTTP makes the requests.
	HTTP *http.Client
	// Credentials sign the calls; nil for calls that need no signature.
	Credentials Provider
	Region      string
	// Endpoints are URLs by the names of services; those that are missing are Amazon's.
	Endpoints map[string]string
	UserAgent string
	// Sign, if not nil, signs requests in place of SigV4 with Credentials.
	Sign func(r *http.Request, body []byte, s Service, region string) error
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
	return fmt.Sprintf("%s: %s", e.Operation, cmp.Or(strings.TrimSuffix(e.Code+": "+e.Message, ": "), http.StatusText(e.Status)))
}

// Passing reports whether the same call may succeed soon: the service is busy or has failed.
func (e *Error) Passing() bool {
	switch e.Code {
	case "ThrottlingException", "Throttling", "TooManyRequestsException", "RequestLimitExceeded", "ServerException", "LimitExceededException",
		"InternalServerError", "InternalFailure", "InternalServerException", "ServiceUnavailable", "ServiceUnavailableException", "RequestTimeout", "TooManyUpdates":
		return true
	}
	return e.Status >= 500 || e.Status == http.StatusTooManyRequests
}

// CodeOf returns the code of an *Error; empty for other errors.
func CodeOf(err error) string {
	var e *Error
	if errors.As(err, &e) {
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

// Endpoint returns the URL of a service.
func (c *Client) Endpoint(service string) string {
	if u := c.Endpoints[service]; u != "" {
		return u
	}
	domain := "amazonaws.com"
	if strings.HasPrefix(c.Region, "cn-") {
		domain = "amazonaws.com.cn"
	}
	name := service
	if service == ECR.Name {
		name = "api.ecr"
	}
	return "https://" + name + "." + c.Region + "." + domain
}

// Call makes a call and reads the answer into out, unless that is nil. Refusals of the service are
// *Error.
func (c *Client) Call(ctx context.Context, s Service, operation string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	headers := http.Header{"Content-Type": {"application/x-amz-json-1.1"}, "X-Amz-Target": {s.Target + "." + operation}}
	answer, err := c.send(ctx, s, operation, request{http.MethodPost, c.Endpoint(s.Name) + "/", headers, body})
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

// regionName matches regions, which become part of a host name.
var regionName = regexp.MustCompile(`^[a-z0-9-]{1,32}$`)

// Get reads an object of S3, whichever region it is in.
func (c *Client) Get(ctx context.Context, bucket, key string) ([]byte, error) {
	content, err := c.get(ctx, bucket, key)
	var e *Error
	if errors.As(err, &e) && regionName.MatchString(e.Region) && e.Region != c.Region {
		return c.With(c.Credentials, e.Region).get(ctx, bucket, key)
	}
	return content, err
}

func (c *Client) get(ctx context.Context, bucket, key string) ([]byte, error) {
	base := c.Endpoint("s3")
	path := "/" + bucket + "/" + (&url.URL{Path: key}).EscapedPath()
	return c.send(ctx, Service{Name: "s3"}, "GetObject", request{http.MethodGet, base + path, http.Header{}, nil})
}

// request is a request that is not signed yet.
type request struct {
	method, address string
	headers         http.Header
	body            []byte
}

func (c *Client) send(ctx context.Context, s Service, operation string, q request) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, q.method, q.address, bytes.NewReader(q.body))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", operation, err)
	}
	r.Header = q.headers
	r.Header.Set("User-Agent", c.UserAgent)
	if c.Credentials != nil || c.Sign != nil {
		if err := c.sign(ctx, r, q.body, s); err != nil {
			return nil, fmt.Errorf("%s: %w", operation, err)
		}
	}
	resp, err := c.HTTP.Do(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", operation, withoutQuery(err))
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: read the answer: %w", operation, err)
	case len(answer) > maxAnswer:
		return nil, fmt.Errorf("%s: the answer has more than %d bytes", operation, maxAnswer)
	case resp.StatusCode != http.StatusOK:
		e := refusal(operation, resp.StatusCode, answer)
		e.Region = resp.Header.Get("X-Amz-Bucket-Region")
		return nil, e
	}
	return answer, nil
}

// withoutQuery shortens an error of HTTP to its cause: the address is known, and may be long.
func withoutQuery(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
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
		}
		if xml.Unmarshal(body, &x) == nil {
			e.Type, e.Message = x.Code, x.Message
		}
	}
	code := e.Type
	if i := strings.LastIndexByte(code, '#'); i >= 0 {
		code = code[i+1:]
	}
	return &Error{Operation: operation, Code: code, Message: cmp.Or(e.Message, e.Message2), Status: status}
}

// sign signs a request with the caller's credentials.
func (c *Client) sign(ctx context.Context, r *http.Request, body []byte, s Service) error {
	if c.Sign != nil {
		return c.Sign(r, body, s, c.Region)
	}
	got, err := c.Credentials(ctx)
	if err != nil {
		return err
	}
	hash := Hash(body)
	if s.Name == "s3" {
		r.Header.Set("X-Amz-Content-Sha256", hash)
	}
	return v4.NewSigner().SignHTTP(ctx, sdk(got), r, hash, s.Name, c.Region, time.Now(), func(o *v4.SignerOptions) {
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
