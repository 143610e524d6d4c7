package engine

import (
	"cmp"
	"context"
	"errors"

	"github.com/podtask/podtask/internal/config"
	"github.com/podtask/podtask/internal/engine/facts/metadata"
	"github.com/podtask/podtask/internal/host/secretsource"
	"github.com/podtask/podtask/internal/host/secretsource/awsvalues"
	"github.com/podtask/podtask/pkg/transient"
)

// awsReader returns what reads the source aws:.
func awsReader(s *config.Settings, getenv func(string) string) secretsource.AWS {
	return func(ctx context.Context, name string, a secretsource.Asked) ([]byte, error) {
		c := awsvalues.Config{
			Endpoint: s.References.AWSEndpoint, Region: cmp.Or(s.Metadata.Region, getenv("AWS_REGION"), getenv("AWS_DEFAULT_REGION")),
			Credentials: func(ctx context.Context) (awsvalues.Credentials, error) { return awsCredentials(ctx, s, getenv, a) },
		}
		value, err := c.Read(ctx, awsvalues.Wanted{Name: name, Stage: a.VersionStage, Version: a.VersionID})
		if e, ok := errors.AsType[*awsvalues.Error](err); ok {
			err = &secretsource.Error{Message: e.Message, Transient: transient.Is(err)}
		}
		return value, err
	}
}

// awsCredentials are those with which podtask itself asks AWS: of the helper, which is told the
// execution role, or of the environment.
func awsCredentials(ctx context.Context, s *config.Settings, getenv func(string) string, a secretsource.Asked) (awsvalues.Credentials, error) {
	if command := s.References.AWSHelper; len(command) > 0 {
		h := &metadata.Helper{Command: command, Env: []string{
			"PODTASK_TASK_ID=" + a.TaskID, "PODTASK_TASK_FAMILY=" + a.Family, "PODTASK_TASK_ROLE_ARN=" + a.TaskRole, "PODTASK_EXECUTION_ROLE_ARN=" + a.ExecutionRole,
		}}
		c, err := h.Credentials(ctx)
		return awsvalues.Credentials{AccessKeyID: c.AccessKeyID, SecretAccessKey: c.SecretAccessKey, Token: c.Token}, err
	}
	c := awsvalues.Credentials{AccessKeyID: getenv("AWS_ACCESS_KEY_ID"), SecretAccessKey: getenv("AWS_SECRET_ACCESS_KEY"), Token: getenv("AWS_SESSION_TOKEN")}
	if c.AccessKeyID == "" || c.SecretAccessKey == "" {
		return c, &awsvalues.Error{Message: "there are no credentials for aws:; set aws-credentials-helper, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"}
	}
	return c, nil
}
