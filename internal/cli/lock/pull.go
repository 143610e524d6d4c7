package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/internal/engine/act/imagestore"
	"github.com/podtask/podtask/internal/serve/ownerapi"
	"github.com/podtask/podtask/pkg/images"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"
)

// PullCommand is `podtask pull`.
func PullCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "pull",
		Usage:     "pull all images of a definition, Pod or service before it is run",
		ArgsUsage: "FILE|-|FAMILY[:REV] ...",
		Description: `Pulls the images of all containers and volumes at the same time, with a bar for each on a
terminal. What is here with the digest that the registry has now is not pulled again. An
image that cannot be pulled does not keep the others from being pulled.

Examples:
  podtask pull web.yaml
  podtask pull --locked web.yaml
  podtask pull --service web
  podtask pull shop.json pod.yaml && podtask run --pull never shop.json`,
		Flags: append([]cli.Flag{
			command.LockedFlag(),
			&cli.StringSliceFlag{Name: "service", Usage: "pull the images of the definition that the service `NAME` runs now"},
			&cli.StringSliceFlag{Name: "leave-out", Usage: "do not pull the image of `CONTAINER`"},
			&cli.StringFlag{Name: "progress", Value: "auto", Usage: "show pulls in `MODE` plain (lines), json (JSON Lines on stderr), none, or auto: bars on a terminal, else plain"},
			command.QuietFlag("IDs of images"),
			command.NoTruncFlag("digests and ids"),
			command.FormatFlag(command.ListFormats),
		}, command.DefinitionFlags()...),
		Action: command.WithMachine(p, newPull),
	}
}

// pullOptions holds the dependencies of `podtask pull`.
type pullOptions struct {
	out, errOut io.Writer
	getenv      func(string) string
	log         *slog.Logger
	definition  func(c *cli.Context, name string) (command.Definition, error)
	images      *imagestore.Resolver
	puller      *imagestore.Puller
	owners      *connect.Connector
	onPull      func(show func(imagestore.Progress))
}

func newPull(m *command.Machine) pullOptions {
	p, e := m.Program, m.Engine
	return pullOptions{
		out: p.Stdout, errOut: p.Stderr, getenv: p.Getenv, log: m.Log, definition: p.Definition,
		images: e.Images, puller: e.Puller, owners: m.Connector,
		onPull: func(show func(imagestore.Progress)) { m.OnPull = show },
	}
}

// pulledImage is the output for an image; templates see its fields.
type pulledImage struct {
	Image  string `json:"image"`
	Digest string `json:"digest,omitempty"`
	ID     string `json:"id"`
	// Pulled is false for an image of local storage that no registry was asked for.
	Pulled bool `json:"pulled"`
}

// pullJob is an image of a task.
type pullJob struct {
	task  taskdef.Task
	image string
}

// Run implements command.Runner.
func (o pullOptions) Run(ctx context.Context, c *cli.Context) error {
	mode := c.String("progress")
	if !slices.Contains(console.ProgressModes, mode) {
		return command.Usagef("pull", "--progress is auto, plain, json or none, not %q", mode)
	}
	names := c.Args().Slice()
	services, err := o.services(ctx, c.StringSlice("service"))
	if err != nil {
		return err
	}
	if names = append(names, services...); len(names) == 0 {
		return command.Usagef("pull", "no FILE whose images to pull; `podman pull` pulls an image by its name")
	}
	jobs, err := o.jobs(ctx, c, names)
	if err != nil {
		return err
	}
	view := console.NewPullView(mode, o.errOut, o.getenv)
	o.onPull(func(p imagestore.Progress) { view.Observe(ownerapi.NewPull(p)) })
	got, err := o.pull(ctx, jobs)
	return errors.Join(o.print(c, got), err)
}

// services returns the definitions that services run now.
func (o pullOptions) services(ctx context.Context, names []string) (definitions []string, err error) {
	if len(names) == 0 {
		return nil, nil
	}
	agent, err := o.owners.RequireAgent(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w, or name the FILE of the definition instead of --service", err)
	}
	defer agent.Close()
	for _, name := range names {
		s, err := agent.Service(ctx, name)
		if err != nil {
			return nil, err
		}
		definitions = append(definitions, s.TaskDefinition)
	}
	return definitions, nil
}

// jobs reads all definitions, before anything is pulled.
func (o pullOptions) jobs(ctx context.Context, c *cli.Context, names []string) (jobs []pullJob, err error) {
	invalid := false
	for _, name := range names {
		d, err := o.definition(c, name)
		if err != nil {
			return nil, err
		}
		d.Changes.Adjustments.LeaveOut = c.StringSlice("leave-out")
		task, f, err := d.Read()
		if err != nil {
			return nil, err
		}
		if !f.Runnable(o.errOut) {
			invalid = true
			continue
		}
		if err := f.Lock.CheckBuilt(ctx, o.images); err != nil {
			return nil, err
		}
		for _, image := range task.Images() {
			if !slices.ContainsFunc(jobs, func(j pullJob) bool { return j.image == image && j.task.Platform == task.Platform }) {
				jobs = append(jobs, pullJob{task, image})
			}
		}
	}
	if invalid {
		return nil, command.ExitStatus(command.ExitOwnFailure)
	}
	return jobs, nil
}

// pull pulls all images at once and returns those that are here. All errors are reported.
func (o pullOptions) pull(ctx context.Context, jobs []pullJob) ([]pulledImage, error) {
	got, errs := make([]pulledImage, len(jobs)), make([]error, len(jobs))
	var g errgroup.Group
	g.SetLimit(atOnce)
	for i, j := range jobs {
		g.Go(func() error {
			brought, err := o.puller.Bring(ctx, o.state(ctx, j), j.image)
			got[i] = pulledImage{Image: j.image, Digest: brought.Digest, ID: brought.ID, Pulled: brought.Pulled}
			errs[i] = err
			return nil
		})
	}
	_ = g.Wait() // the errors are in errs
	here := []pulledImage{}
	for i, p := range got {
		if errs[i] == nil {
			here = append(here, p)
		}
	}
	return here, errors.Join(errs...)
}

// state returns a task whose images are pulled always, except one that no registry has.
func (o pullOptions) state(ctx context.Context, j pullJob) lifecycle.State {
	options := lifecycle.Options{Pull: lifecycle.PullAlways}
	ref, err := images.ParseRef(j.image)
	if err == nil {
		if local, short := ref.Built(); short {
			if _, found, _ := o.images.Stored(ctx, local.String()); found { // if Podman fails, the pull says so
				options.Pull = lifecycle.PullDefault
			}
		}
		if ref.Local() {
			options.Pull = lifecycle.PullNever
		}
	}
	return lifecycle.New("", "", j.task, options, time.Time{})
}

func (o pullOptions) print(c *cli.Context, got []pulledImage) error {
	id, digest := lifecycle.ShortID, console.ShortDigest
	if c.Bool("no-trunc") {
		whole := func(s string) string { return s }
		id, digest = whole, whole
	}
	return command.Listing[pulledImage]{
		Items: got,
		ID:    func(p pulledImage) string { return id(p.ID) },
		Columns: []command.Column[pulledImage]{
			{Head: "IMAGE", Cell: func(p pulledImage) string { return p.Image }},
			{Head: "DIGEST", Cell: func(p pulledImage) string { return cmp.Or(digest(p.Digest), command.NoValue) }},
			{Head: "ID", Cell: func(p pulledImage) string { return id(p.ID) }},
		},
	}.Print(o.out, c)
}
