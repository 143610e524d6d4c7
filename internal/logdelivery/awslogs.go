package logdelivery

import (
	"cmp"
	"context"
	"time"

	"github.com/podtask/podtask/pkg/config"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/logroute"
	"github.com/podtask/podtask/pkg/logsend/awslogs"
	"github.com/podtask/podtask/pkg/metadata"
	"github.com/podtask/podtask/pkg/taskdef"
)

// Servers makes the senders that the configuration allows.
type Servers struct {
	settings    config.Delivery
	getenv      func(string) string
	credentials func(context.Context) (awslogs.Credentials, error)
}

// NewServers returns the senders for a configuration.
func NewServers(settings config.Delivery, getenv func(string) string) *Servers {
	return &Servers{settings: settings, getenv: getenv, credentials: credentialsOf(settings.CredentialsHelper)}
}

// Sends implements Senders.
func (v *Servers) Sends(s lifecycle.State, i int) bool {
	l := s.Task.Containers[i].Log
	if !l.Sent(taskdef.LogSettings{Mode: s.Options.Logs, AWSLogs: v.settings.AWSLogs()}) {
		return false
	}
	_, problems := logroute.ParseAWSLogs(l.Options)
	return len(problems) == 0
}

// New implements Senders.
func (v *Servers) New(s lifecycle.State, i int) Sender { return v.awslogs(s, i) }

// Prepare implements Senders.
func (v *Servers) Prepare(ctx context.Context, s lifecycle.State, i int) error {
	return v.awslogs(s, i).Prepare(ctx)
}

func (v *Servers) awslogs(s lifecycle.State, i int) *awslogs.Sender {
	c := s.Task.Containers[i]
	options, _ := logroute.ParseAWSLogs(c.Log.Options)
	return awslogs.New(awslogs.Config{
		Options: options, Credentials: v.credentials, Stream: options.StreamName(c.Name, s.ID, s.Containers[i].ID),
		Endpoint: cmp.Or(options.Endpoint, v.settings.AWSLogsEndpoint, v.getenv("AWS_ENDPOINT_URL_CLOUDWATCH_LOGS")),
	})
}

// lasting is how long credentials without an end are used before they are asked for again.
const lasting = time.Hour

// credentialsOf returns the credentials that a program prints. Without one, the server is a
// local one that asks for none that are real.
func credentialsOf(command []string) func(context.Context) (awslogs.Credentials, error) {
	if len(command) == 0 {
		return func(context.Context) (awslogs.Credentials, error) {
			return awslogs.Credentials{AccessKeyID: "podtask", SecretAccessKey: "podtask", Expires: time.Now().Add(lasting)}, nil
		}
	}
	helper := &metadata.Helper{Command: command, Env: []string{"PODTASK_ROLE=execution"}}
	return func(ctx context.Context) (awslogs.Credentials, error) {
		c, err := helper.Credentials(ctx)
		return awslogs.Credentials{AccessKeyID: c.AccessKeyID, SecretAccessKey: c.SecretAccessKey, Token: c.Token, Expires: c.Expiration}, err
	}
}
