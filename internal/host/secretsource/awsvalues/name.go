package awsvalues

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/podtask/podtask/internal/lazy"
)

// Config holds the endpoint of AWS and the credentials.
type Config struct {
	// Endpoint is a URL for all services; empty: Amazon's of the region.
	Endpoint string
	// Region is for names without one.
	Region string
	// Credentials returns credentials that are valid now.
	Credentials func(context.Context) (Credentials, error)
}

// Credentials are credentials of AWS.
type Credentials struct{ AccessKeyID, SecretAccessKey, Token string }

// String keeps secrets out of logs and error texts.
func (Credentials) String() string { return "credentials (hidden)" }

// Wanted identifies a value.
type Wanted struct {
	// Name is an ARN, or the name of a parameter of SSM.
	Name string
	// Stage and Version are of a secret; empty for the current one.
	Stage, Version string
}

// ErrNotBuilt is the error of a program without the AWS SDK.
var ErrNotBuilt = errors.New("this podtask is built without the source aws:; build it with `go build -tags aws`, or use a command with the AWS CLI")

// Error is an error of AWS. It is marked with transient.Mark if the same call may succeed later.
type Error struct{ Message string }

func (e *Error) Error() string { return e.Message }

// target holds the parts of an ARN.
type target struct {
	service, region string
	// name is the ARN for Secrets Manager and SSM, or the bucket of S3, then with a key.
	name, key string
}

var arn = lazy.MustCompile(`^arn:[^:]+:([^:]+):([^:]*):[^:]*:(.+)$`)

// targetOf reads an ARN or the name of a parameter.
func targetOf(name, region string) (target, error) {
	m := arn.FindStringSubmatch(name)
	if m == nil {
		if strings.HasPrefix(name, "arn:") {
			return target{}, &Error{Message: fmt.Sprintf("%q is not an ARN", name)}
		}
		return complete(target{service: "ssm", region: region, name: name})
	}
	t := target{service: m[1], region: m[2], name: name}
	if t.region == "" {
		t.region = region
	}
	switch t.service {
	case "ssm", "secretsmanager":
	case "s3":
		var ok bool
		if t.name, t.key, ok = strings.Cut(m[3], "/"); !ok || t.key == "" {
			return target{}, &Error{Message: fmt.Sprintf("%q names no object of a bucket", name)}
		}
	default:
		return target{}, &Error{Message: fmt.Sprintf("aws: reads Secrets Manager, SSM and S3, not %s", t.service)}
	}
	return complete(t)
}

func complete(t target) (target, error) {
	if t.region == "" {
		return t, &Error{Message: "the region is not known: set aws-region"}
	}
	return t, nil
}
