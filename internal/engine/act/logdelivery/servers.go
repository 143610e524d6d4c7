package logdelivery

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/config"
	"github.com/podtask/podtask/internal/engine/facts/metadata"
	"github.com/podtask/podtask/internal/host/secretsource"
	"github.com/podtask/podtask/internal/logs/logfiles"
	"github.com/podtask/podtask/internal/logs/logsend"
	"github.com/podtask/podtask/internal/logs/logsend/awslogs"
	"github.com/podtask/podtask/internal/logs/logsend/forward"
	"github.com/podtask/podtask/internal/logs/logsend/gelf"
	"github.com/podtask/podtask/internal/logs/logsend/splunk"
	"github.com/podtask/podtask/internal/logs/logsend/syslog"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/logdriver"
)

// Servers makes the senders that the configuration allows.
type Servers struct {
	Settings config.Delivery
	Getenv   func(string) string
	Podman   func(context.Context) (Describer, error)
	// Processes finds the process of a log router, in whose network NetnsHelper makes sockets; it
	// is as for netns.ListenIn.
	Processes   func(context.Context) (Podman, error)
	NetnsHelper []string
	// Files have the sockets of log routers.
	Files logfiles.Dir
	// Secret reads the value of a secret option of container i.
	Secret func(ctx context.Context, s lifecycle.State, i int, option string) ([]byte, error)
	// Role reads the source of a task's execution role (Identity.ExecutionRoleSource).
	Role func(ctx context.Context, s lifecycle.State) ([]byte, error)

	mu      sync.Mutex
	helpers map[string]func(context.Context) (awslogs.Credentials, error) // by role
}

// Sends implements Senders.
func (v *Servers) Sends(s lifecycle.State, i int) bool {
	l := s.Task.Containers[i].Log
	if !l.Sent(taskdef.LogSettings{Mode: s.Options.Logs, AWSLogs: v.Settings.AWSLogs() || s.Task.Identity.ExecutionRoleSource != ""}) || len(l.Problems()) > 0 {
		return false
	}
	return l.Driver != logdriver.FireLens || taskdef.RoutedBy(s.Task, taskdef.RouterOf(s.Task, s.Options.Logs), i)
}

// New implements Senders.
func (v *Servers) New(ctx context.Context, s lifecycle.State, i int) (Sender, error) {
	c := s.Task.Containers[i]
	o := v.origin(ctx, s, i)
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	switch c.Log.Driver {
	case logdriver.AWSLogs:
		return v.awslogs(s, i, o), nil
	case logdriver.FireLens:
		return v.fireLens(s, i, o), nil
	case logdriver.Fluentd:
		f, _ := logdriver.ParseFluentd(c.Log.Options)
		return forward.New(forward.Config{
			Dial: logsend.Dialer(f.Address, logdriver.TLS{}), Tag: f.Tag.Of(o), Members: forward.ContainerMembers(f.Attributes, o),
			Ack: f.Ack, SubSecond: f.SubSecond, Timeout: f.WriteTimeout,
		}), nil
	case logdriver.GELF:
		g, _ := logdriver.ParseGELF(c.Log.Options)
		return gelf.New(gelf.Config{Options: g, Origin: o, Host: host}), nil
	case logdriver.Splunk:
		return v.splunk(ctx, s, i, o, host)
	case logdriver.Syslog:
		options, _ := logdriver.ParseSyslog(c.Log.Options)
		return syslog.New(syslog.Config{Options: options, Origin: o, Host: host, PID: os.Getpid()}), nil
	}
	return nil, fmt.Errorf("podtask has no sender for the log driver %s", c.Log.Driver)
}

// Prepare implements Senders.
func (v *Servers) Prepare(ctx context.Context, s lifecycle.State, i int) error {
	if s.Task.Containers[i].Log.Driver != logdriver.AWSLogs {
		return nil
	}
	return v.awslogs(s, i, v.origin(ctx, s, i)).Prepare(ctx)
}

func (v *Servers) awslogs(s lifecycle.State, i int, o logdriver.Origin) *awslogs.Sender {
	c := s.Task.Containers[i]
	options, _ := logdriver.ParseAWSLogs(c.Log.Options)
	return awslogs.New(awslogs.Config{
		Options: options, Credentials: v.credentials(s), Stream: options.StreamName(c.Name, s.ID, o),
		Endpoint: cmp.Or(options.Endpoint, v.Settings.AWSLogsEndpoint, v.Getenv("AWS_ENDPOINT_URL_CLOUDWATCH_LOGS")),
	})
}

func (v *Servers) splunk(ctx context.Context, s lifecycle.State, i int, o logdriver.Origin, host string) (Sender, error) {
	l := s.Task.Containers[i].Log
	options, _ := logdriver.ParseSplunk(l.Options)
	token := options.Token
	if token == "" {
		value, err := v.Secret(ctx, s, i, logdriver.SplunkToken)
		if err != nil {
			return nil, err
		}
		token = string(value)
	}
	return splunk.New(splunk.Config{Options: options, Origin: o, Host: host, Token: token})
}

// credentials returns the credentials of a task's execution role. Senders share those of the helper; a
// source is the task's own.
func (v *Servers) credentials(s lifecycle.State) func(context.Context) (awslogs.Credentials, error) {
	if source := s.Task.Identity.ExecutionRoleSource; source != "" {
		return credentialsFrom(&metadata.Helper{Fresh: secretsource.IsFile(source), Read: func(ctx context.Context) ([]byte, error) { return v.Role(ctx, s) }})
	}
	role := s.Task.Identity.ExecutionRoleARN
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.helpers == nil {
		v.helpers = make(map[string]func(context.Context) (awslogs.Credentials, error))
	}
	if v.helpers[role] == nil {
		v.helpers[role] = credentialsOf(v.Settings.CredentialsHelper, role)
	}
	return v.helpers[role]
}

// lasting is how long credentials without an end are used before they are asked for again.
const lasting = time.Hour

// credentialsOf returns the credentials that a program prints for a role. Without a program, the
// server is a local one that asks for none that are real.
func credentialsOf(command []string, role string) func(context.Context) (awslogs.Credentials, error) {
	if len(command) == 0 {
		return func(context.Context) (awslogs.Credentials, error) {
			return awslogs.Credentials{AccessKeyID: "podtask", SecretAccessKey: "podtask", Expires: time.Now().Add(lasting)}, nil
		}
	}
	env := []string{"PODTASK_ROLE=execution"}
	if role != "" {
		env = append(env, "PODTASK_ROLE_ARN="+role)
	}
	return credentialsFrom(&metadata.Helper{Command: command, Env: env})
}

func credentialsFrom(helper *metadata.Helper) func(context.Context) (awslogs.Credentials, error) {
	return func(ctx context.Context) (awslogs.Credentials, error) {
		c, err := helper.Credentials(ctx)
		return awslogs.Credentials{AccessKeyID: c.AccessKeyID, SecretAccessKey: c.SecretAccessKey, Token: c.Token, Expires: c.Expiration}, err
	}
}
