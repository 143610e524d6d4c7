package aws

import (
	"errors"
	"fmt"
	"io"

	"github.com/podtask/podtask/internal/aws/awskey"
	"github.com/podtask/podtask/internal/aws/sigv4"
	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/config"
	"github.com/podtask/podtask/internal/engine/facts/arn"
	"github.com/urfave/cli/v2"
)

// Command is `podtask aws`.
func Command(p *command.Program) *cli.Command {
	o := newAWS(p)
	return &cli.Command{
		Name:  "aws",
		Usage: "let clients of Amazon ECS reach the agent",
		Description: `An agent with aws-listen answers the AWS command line, the SDKs and what is built on them.
They sign their requests with a key that podtask makes for this user.

Examples:
  podtask agent --aws-listen 127.0.0.1:4580
  eval "$(podtask aws env)"
  aws ecs list-tasks`,
		Subcommands: []*cli.Command{
			{
				Name:        "env",
				Usage:       "print the environment of AWS clients for a shell",
				Description: "Set aws-listen in the configuration, so that this command and the agent agree.\n\nExamples:\n  podtask aws env > aws.env",
				Flags:       command.ConfigFlags("agent"),
				Action:      o.env,
			},
			{
				Name:        "profile",
				Usage:       "print a profile for ~/.aws/config that gets its key from podtask",
				Description: "Examples:\n  podtask aws profile >> ~/.aws/config",
				Flags:       command.ConfigFlags("agent"),
				Action:      o.profile,
			},
			{
				Name:        "key",
				Usage:       "print the key as a credential process of AWS clients does",
				Description: "Examples:\n  podtask aws key --new > /dev/null",
				Flags:       []cli.Flag{&cli.BoolFlag{Name: "new", Usage: "replace the key; the agent stops accepting the old one at once"}},
				Action:      o.key,
			},
		},
	}
}

// awsOptions is what the commands of `podtask aws` use.
type awsOptions struct {
	out       io.Writer
	getenv    func(string) string
	configure func(*cli.Context) (*config.Settings, error)
}

func newAWS(p *command.Program) awsOptions {
	return awsOptions{out: p.Stdout, getenv: p.Getenv, configure: p.Configure}
}

// address returns the address on which the agent answers clients of ECS.
func (o awsOptions) address(c *cli.Context) (string, error) {
	if err := command.NoArguments(c); err != nil {
		return "", err
	}
	settings, err := o.configure(c)
	if err != nil {
		return "", err
	}
	if settings.Agent.AWSListen == "" {
		return "", errors.New("the agent does not answer AWS clients: set aws-listen = \"127.0.0.1:4580\" in podtask.toml, or PODTASK_AWS_LISTEN, and restart the agent")
	}
	return settings.Agent.AWSListen, nil
}

// loadKey returns the key in the state directory, or a new one.
func (o awsOptions) loadKey(c *cli.Context, replace bool) (sigv4.Key, error) {
	settings, err := o.configure(c)
	if err != nil {
		return sigv4.Key{}, err
	}
	stateDir, _, err := command.Dirs(o.getenv, settings.Paths.StateDir)
	if err != nil {
		return sigv4.Key{}, err
	}
	if replace {
		return awskey.Replace(stateDir)
	}
	return awskey.Load(stateDir)
}

func (o awsOptions) env(c *cli.Context) error {
	address, err := o.address(c)
	if err != nil {
		return err
	}
	key, err := o.loadKey(c, false)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(o.out, "export AWS_ENDPOINT_URL=http://%s\nexport AWS_REGION=%s\nexport AWS_DEFAULT_REGION=%s\nexport AWS_ACCESS_KEY_ID=%s\nexport AWS_SECRET_ACCESS_KEY=%s\nunset AWS_SESSION_TOKEN AWS_PROFILE\n",
		address, arn.Region(), arn.Region(), key.ID, key.Secret)
	return err
}

func (o awsOptions) profile(c *cli.Context) error {
	address, err := o.address(c)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(o.out, "[profile podtask]\nregion = %s\nendpoint_url = http://%s\ncredential_process = podtask aws key\n", arn.Region(), address)
	return err
}

func (o awsOptions) key(c *cli.Context) error {
	if err := command.NoArguments(c); err != nil {
		return err
	}
	key, err := o.loadKey(c, c.Bool("new"))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(o.out, "{\"Version\": 1, \"AccessKeyId\": %q, \"SecretAccessKey\": %q}\n", key.ID, key.Secret)
	return err
}
