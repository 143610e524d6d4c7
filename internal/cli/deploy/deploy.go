// Package deploy is the part with `podtask deploy`: build an image, bring it to the host of a service, and update the service. Each step
// is a program that people call by hand too, podman or podtask. A step that fails ends the deployment with its exit code.
package deploy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/distribution/reference"
	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/part"
	"github.com/podtask/podtask/internal/connect/sshhost"
	"github.com/podtask/podtask/internal/serve"
	"github.com/urfave/cli/v2"
)

// Part is the part deploy.
func Part() part.Part {
	return part.Part{
		Name: "deploy",
		Commands: func(p *command.Program) []part.Command {
			return []part.Command{{Command: Command(p), Group: "Services and systemd", After: "service"}}
		},
		Routes: func() map[string]part.Route { return map[string]part.Route{"deploy": {Place: part.Special}} },
	}
}

// Command is `podtask deploy`.
func Command(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "deploy",
		Usage:     "build an image, bring it to the host, and update a service with it",
		ArgsUsage: "SERVICE [DIR]",
		Description: `Builds the image of DIR, by default of this directory, with podman build. With --host it is sent
to that host as podtask push does, with --registry it is pushed there; else it stays here. Then the service is
updated by its own strategy, and the command ends when all copies are healthy. If they do not
become healthy, the service goes back and the exit code says so.

Each deployment has a tag of its own, the time, so that podtask service rollback finds the image of
the one before. "podman image prune" removes images that nothing uses.

Examples:
  podtask deploy web
  podtask --host ssh://box deploy web ./app
  podtask deploy web --registry registry.example.com/team/web`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "file", Aliases: []string{"f"}, Usage: "build by `CONTAINERFILE`", DefaultText: "Containerfile or Dockerfile in DIR"},
			&cli.StringSliceFlag{Name: "build-arg", Usage: "set an argument of the build: `NAME=VALUE`, or NAME for the value of the environment"},
			&cli.StringFlag{Name: "registry", Usage: "push the image to `REPOSITORY` of a registry, from which the host pulls it"},
			&cli.StringFlag{Name: "tag", Usage: "name the image with `TAG`", DefaultText: "the time, as in 20261128-161502"},
			&cli.StringFlag{Name: "container", Usage: "the image is that of `CONTAINER`", DefaultText: "the only one that has an image of this name"},
			&cli.StringFlag{Name: "timeout", Usage: "wait at most `TIME` for healthy copies", DefaultText: "no limit"},
		},
		Action: newDeployer(p).run,
	}
}

// deployer has what `podtask deploy` uses.
type deployer struct {
	in          io.Reader
	out, errOut io.Writer
	environ     func() []string
	executable  func() (string, error)
	findHost    func(*cli.Context) (command.ChosenHost, error)
	now         func() time.Time
}

func newDeployer(p *command.Program) deployer {
	return deployer{in: p.Stdin, out: p.Stdout, errOut: p.Stderr, environ: p.Environ, executable: p.Executable, findHost: p.FindOneHost, now: time.Now}
}

// step is a program with its arguments; what says in a word what it does.
type step struct {
	what string
	args []string
	// quiet: what it prints is left out.
	quiet bool
}

func (d deployer) run(c *cli.Context) error {
	if n := c.Args().Len(); n < 1 || n > 2 {
		return command.Usagef("deploy", "deploy takes a SERVICE and a DIR, not %d arguments", n)
	}
	if service := c.Args().First(); !serve.ValidTaskName(service) { // the steps would take -x for an option
		return command.Usagef("deploy", "%q is no name of a service", service)
	}
	host, err := d.findHost(c)
	if err != nil {
		return err
	}
	self, err := d.executable()
	if err != nil {
		return err
	}
	image, err := d.image(c)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(c.Context, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	steps := plan(c, self, image, host)
	for i, s := range steps {
		fmt.Fprintf(d.errOut, "[%d/%d] %s\n", i+1, len(steps), s.what)
		if err := d.execute(ctx, s); err != nil {
			return err
		}
	}
	fmt.Fprintln(d.out, image)
	return nil
}

// image returns the name of the image that is built.
func (d deployer) image(c *cli.Context) (string, error) {
	repository, tag := c.String("registry"), c.String("tag")
	if repository == "" {
		repository = "localhost/" + strings.ToLower(c.Args().First())
	}
	if tag == "" {
		tag = d.now().UTC().Format("20060102-150405")
	}
	named, err := reference.ParseNamed(repository)
	switch {
	case err != nil && c.String("registry") == "":
		return "", command.Usagef("deploy", "%q is no name of a service that an image can have: name a repository with --registry", c.Args().First())
	case err != nil || !reference.IsNameOnly(named):
		return "", command.Usagef("deploy", "%q is no repository such as registry.example.com/team/web, without a tag", repository)
	}
	tagged, err := reference.WithTag(named, tag)
	if err != nil {
		return "", command.Usagef("deploy", "--tag %q: a tag has letters, digits, dots, dashes and underscores, at most 128", tag)
	}
	return tagged.String(), nil
}

// plan returns the steps of a deployment.
func plan(c *cli.Context, self, image string, host command.ChosenHost) (steps []step) {
	service, dir := c.Args().First(), "."
	if c.Args().Len() > 1 {
		dir = c.Args().Get(1)
	}
	// The steps work on this host also where PODTASK_HOST or the context is another one.
	podtask := []string{self, "--host", sshhost.Local}
	if host.Remote() {
		podtask[2] = host.Word
	}
	with := func(words ...string) []string { return append(podtask[:len(podtask):len(podtask)], words...) }
	find := step{what: "find " + service, args: with("service", "inspect", service), quiet: true} // a build may take long
	build := []string{"podman", "build", "--tag", image}
	if file := c.String("file"); file != "" {
		build = append(build, "--file", file)
	}
	for _, arg := range c.StringSlice("build-arg") {
		build = append(build, "--build-arg", arg)
	}
	steps = append(steps, find, step{what: "build " + image, args: append(build, "--", dir)})
	switch {
	case c.String("registry") != "":
		steps = append(steps, step{what: "push it to the registry", args: []string{"podman", "push", "--", image}})
	case host.Remote():
		steps = append(steps, step{what: "send it to " + host.Name(), args: with("push", image)})
	}
	if container := c.String("container"); container != "" {
		image = container + "=" + image
	}
	update := with("service", "update", service, "--image", image, "--wait")
	if timeout := c.String("timeout"); timeout != "" {
		update = append(update, "--timeout", timeout)
	}
	return append(steps, step{what: "update " + service, args: update})
}

// execute executes a step. Its stdout is progress here; a signal is passed on, so that it can clean up.
func (d deployer) execute(ctx context.Context, s step) error {
	cmd := exec.CommandContext(ctx, s.args[0], s.args[1:]...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = d.environ(), d.in, d.errOut, d.errOut
	if s.quiet {
		cmd.Stdout = nil
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return command.ExitStatus(command.ExitInterrupted)
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		fmt.Fprintf(d.errOut, "deploy: could not %s\n", s.what)
		return command.ExitStatus(exit.ExitCode())
	}
	return fmt.Errorf("%s: %w", s.what, err)
}
