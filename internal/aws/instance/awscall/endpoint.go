package awscall

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	smithyendpoints "github.com/aws/smithy-go/endpoints"
)

// Variant chooses among the endpoints of a service.
type Variant struct {
	// DualStack: those that have addresses of IPv6 too. FIPS: those with cryptography of FIPS 140.
	DualStack, FIPS bool
}

// Endpoint returns the URL of a service, without a slash at its end: a configured one, or Amazon's for the region and the
// variant, as the SDK has them for each partition.
func (c *Client) Endpoint(service string) (string, error) {
	if u := c.Endpoints[service]; u != "" {
		return u, nil
	}
	ctx := context.Background() // nothing is asked
	region, dual, fips := aws.String(c.Region), aws.Bool(c.Variant.DualStack), aws.Bool(c.Variant.FIPS)
	var found smithyendpoints.Endpoint
	var err error
	switch service {
	case SSM.Name:
		found, err = ssm.NewDefaultEndpointResolverV2().ResolveEndpoint(ctx, ssm.EndpointParameters{Region: region, UseDualStack: dual, UseFIPS: fips})
	case SecretsManager.Name:
		found, err = secretsmanager.NewDefaultEndpointResolverV2().ResolveEndpoint(ctx, secretsmanager.EndpointParameters{Region: region, UseDualStack: dual, UseFIPS: fips})
	case "s3":
		found, err = s3.NewDefaultEndpointResolverV2().ResolveEndpoint(ctx, s3.EndpointParameters{Region: region, UseDualStack: dual, UseFIPS: fips, ForcePathStyle: aws.Bool(true)})
	default:
		found, err = ecs.NewDefaultEndpointResolverV2().ResolveEndpoint(ctx, ecs.EndpointParameters{Region: region, UseDualStack: dual, UseFIPS: fips})
	}
	if err != nil {
		return "", fmt.Errorf("the endpoint of %s in %q: %w", service, c.Region, err)
	}
	address := strings.TrimRight(found.URI.String(), "/")
	switch service {
	case ECR.Name:
		// The SDK's module of ECR would be linked for this rule alone: https://docs.aws.amazon.com/general/latest/gr/ecr.html.
		host := "//api.ecr."
		if c.Variant.FIPS {
			host = "//ecr-fips."
		} else if c.Variant.DualStack {
			host = "//ecr."
		}
		address = replaceHost(address, c.Variant.FIPS, host)
	case STS.Name:
		host := "//sts."
		if c.Variant.FIPS && !strings.HasPrefix(c.Region, "us-gov-") { // the endpoints there are FIPS
			host = "//sts-fips."
		}
		address = replaceHost(address, c.Variant.FIPS, host)
	}
	return address, nil
}

// replaceHost makes an endpoint of ECS one of a service whose rules are otherwise the same.
func replaceHost(address string, fips bool, host string) string {
	of := "//ecs."
	if fips {
		of = "//ecs-fips."
	}
	return strings.Replace(address, of, host, 1)
}
