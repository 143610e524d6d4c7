//go:build aws

package awsvalues

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/podtask/podtask/pkg/transient"
)

// callLimit bounds a read with its repetitions.
const callLimit = 30 * time.Second

// maxValue is the most a value may hold, in bytes.
const maxValue = 1 << 20

// Built reports whether this program can read from AWS.
const Built = true

// Read reads a value. The error is an *Error, or that of the context. A request that may pass
// is repeated up to three times.
func (c Config) Read(ctx context.Context, w Wanted) ([]byte, error) {
	t, err := targetOf(w.Name, c.Region)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	var value []byte
	switch t.service {
	case "ssm":
		value, err = c.parameter(ctx, t)
	case "s3":
		value, err = c.object(ctx, t)
	default:
		value, err = c.secret(ctx, t, w)
	}
	if err != nil {
		return nil, explain(err)
	}
	return value, nil
}

func (c Config) credentials() aws.CredentialsProvider {
	return aws.CredentialsProviderFunc(func(ctx context.Context) (aws.Credentials, error) {
		got, err := c.Credentials(ctx)
		return aws.Credentials{AccessKeyID: got.AccessKeyID, SecretAccessKey: got.SecretAccessKey, SessionToken: got.Token, Source: "podtask"}, err
	})
}

func (c Config) endpoint() *string {
	if c.Endpoint == "" {
		return nil
	}
	return aws.String(c.Endpoint)
}

func (c Config) parameter(ctx context.Context, t target) ([]byte, error) {
	api := ssm.New(ssm.Options{Region: t.region, Credentials: c.credentials(), BaseEndpoint: c.endpoint(), AppID: "podtask"})
	// Execution roles of ECS have ssm:GetParameters.
	out, err := api.GetParameters(ctx, &ssm.GetParametersInput{Names: []string{t.name}, WithDecryption: aws.Bool(true)})
	var refused smithy.APIError
	switch {
	case errors.As(err, &refused) && refused.ErrorCode() == "AccessDeniedException":
		one, denied := api.GetParameter(ctx, &ssm.GetParameterInput{Name: aws.String(t.name), WithDecryption: aws.Bool(true)})
		if denied != nil || one.Parameter == nil {
			return nil, err
		}
		return []byte(aws.ToString(one.Parameter.Value)), nil
	case err != nil:
		return nil, err
	case len(out.Parameters) != 1:
		return nil, &Error{Message: "AWS says ParameterNotFound: there is no parameter " + t.name}
	}
	return []byte(aws.ToString(out.Parameters[0].Value)), nil
}

func (c Config) secret(ctx context.Context, t target, w Wanted) ([]byte, error) {
	api := secretsmanager.New(secretsmanager.Options{Region: t.region, Credentials: c.credentials(), BaseEndpoint: c.endpoint(), AppID: "podtask"})
	in := &secretsmanager.GetSecretValueInput{SecretId: aws.String(t.name)}
	if w.Stage != "" {
		in.VersionStage = aws.String(w.Stage)
	}
	if w.Version != "" {
		in.VersionId = aws.String(w.Version)
	}
	out, err := api.GetSecretValue(ctx, in)
	switch {
	case err != nil:
		return nil, err
	case out.SecretString != nil:
		return []byte(*out.SecretString), nil
	}
	return out.SecretBinary, nil
}

func (c Config) object(ctx context.Context, t target) ([]byte, error) {
	api := s3.New(s3.Options{Region: t.region, Credentials: c.credentials(), BaseEndpoint: c.endpoint(), AppID: "podtask", UsePathStyle: c.Endpoint != ""})
	out, err := api.GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String(t.name), Key: aws.String(t.key)})
	if err != nil {
		return nil, err
	}
	defer out.Body.Close()
	value, err := io.ReadAll(io.LimitReader(out.Body, maxValue+1))
	if err == nil && len(value) > maxValue {
		err = &Error{Message: fmt.Sprintf("the object has more than %d bytes", maxValue)}
	}
	return value, err
}

// explain makes an error of the SDK one line without what was sent.
func explain(err error) error {
	var own *Error
	var api smithy.APIError
	var answer *smithyhttp.ResponseError
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &api):
		refused := &Error{Message: fmt.Sprintf("AWS says %s: %s", api.ErrorCode(), api.ErrorMessage())}
		if api.ErrorFault() == smithy.FaultServer || errors.As(err, &answer) && (answer.HTTPStatusCode() >= 500 || answer.HTTPStatusCode() == http.StatusTooManyRequests) {
			return transient.Mark(refused)
		}
		return refused
	}
	if send, ok := errors.AsType[*smithyhttp.RequestSendError](err); ok {
		return transient.Mark(&Error{Message: "AWS cannot be reached: " + send.Err.Error()})
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return transient.Mark(&Error{Message: err.Error()})
	}
	return &Error{Message: err.Error()}
}
