package importer

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/internal/define"
	"github.com/podtask/podtask/internal/define/catalog"
	"github.com/podtask/podtask/internal/define/foreign"
	"github.com/podtask/podtask/internal/term"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/refs"
	"github.com/urfave/cli/v2"
)

// accountFlags choose a service of an account.
func accountFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "cluster", Usage: "read the service of the cluster `NAME`", DefaultText: "default"},
		&cli.StringFlag{Name: "region", Usage: "pass the `REGION` to the aws command"},
		&cli.StringFlag{Name: "profile", Usage: "pass the `PROFILE` to the aws command"},
		&cli.StringFlag{Name: "endpoint-url", Usage: "pass the `URL` of another endpoint to the aws command"},
	}
}

// ECSImportCommand is `podtask ecs import`.
func ECSImportCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name: "import", Usage: "make a task definition from a service that runs on ECS", ArgsUsage: "SERVICE",
		Description: `Reads the service and its task definition with the aws command, as you have configured it,
and writes NAME.json and, for what the definition names on AWS, NAME.references.toml, a
table to fill in (docs/references.md). Only describe-services and describe-task-definition
are called: nothing changes in the account. The command that makes the service here is
printed, and what is lost.

Examples:
  podtask ecs import web --cluster shop --region eu-central-1
  podtask ecs import web --cluster shop --profile prod --output shop --yaml`,
		Flags: append(accountFlags(),
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "write to `DIR`", DefaultText: "."},
			&cli.BoolFlag{Name: "dry-run", Usage: "print what would be written"},
			&cli.StringFlag{Name: "name", Usage: "call the task and the service `NAME`", DefaultText: "their names on ECS"},
			&cli.BoolFlag{Name: "yaml", Usage: "write the definition as YAML"},
			&cli.BoolFlag{Name: "replace", Usage: "replace files that are there"},
			&cli.StringFlag{Name: "format", Usage: "print what was made and lost in `FORMAT` " + command.ItemFormats},
		),
		Action: func(c *cli.Context) error {
			if c.Args().Len() != 1 {
				return command.Usagef(command.Path(c), "ecs import takes one SERVICE, not %d arguments", c.Args().Len())
			}
			return newImporter(p).live(c)
		},
	}
}

// ECSDiffCommand is `podtask ecs diff`.
func ECSDiffCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name: "diff", Usage: "compare a service that runs on ECS with the one that runs here", ArgsUsage: "SERVICE [NAME]",
		Description: `Reads the service and its task definition with the aws command, as you have configured it,
and compares them with the service NAME of this host (default: SERVICE), or with the
definition in --file. What ECS adds by itself makes no difference: defaults, read-only
members and the order of lists. Lines that begin with - are on ECS only, with + here only,
with ~ different. The exit code is 1 if there is a difference.

Examples:
  podtask ecs diff web --cluster shop
  podtask ecs diff web --cluster shop --file web.json --format json`,
		Flags: append(accountFlags(),
			&cli.StringFlag{Name: "file", Usage: "compare with the definition in `FILE`, without a service here"},
			&cli.StringFlag{Name: "format", Usage: "print the differences in `FORMAT` " + command.ItemFormats},
		),
		Action: func(c *cli.Context) error {
			if n := c.Args().Len(); n < 1 || n > 2 || n == 2 && c.IsSet("file") {
				return command.Usagef(command.Path(c), "ecs diff takes SERVICE, and a NAME or --file")
			}
			if err := command.CheckFormat(c); err != nil {
				return err
			}
			if c.IsSet("file") {
				return newFileDiffer(p).Run(c.Context, c)
			}
			return command.WithMachine(p, newDiffer)(c)
		},
	}
}

// awsTimeout limits one call of the aws command, which tries again by itself.
const awsTimeout = 2 * time.Minute

// maxAWS is how much the aws command may print. A task definition has at most 64 KiB.
const maxAWS = 4 << 20

// awsCommand is the user's command line of AWS.
type awsCommand struct {
	environ func() []string
	flags   []string // --region and others
	cluster string
}

// awsOf returns the command with the flags of a command line.
func awsOf(environ func() []string, c *cli.Context) awsCommand {
	a := awsCommand{environ: environ, cluster: c.String("cluster")}
	for _, flag := range []string{"region", "profile", "endpoint-url"} {
		if v := c.String(flag); v != "" {
			a.flags = append(a.flags, "--"+flag, v)
		}
	}
	return a
}

// call calls an operation of ECS that only reads, and returns what it prints.
func (a awsCommand) call(ctx context.Context, operation string, args ...string) ([]byte, error) {
	path, err := exec.LookPath("aws")
	if err != nil {
		return nil, errors.New("the aws command is not in PATH: podtask reads the account with it only")
	}
	ctx, cancel := context.WithTimeout(ctx, awsTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, slices.Concat([]string{"ecs", operation}, args, []string{"--output", "json"}, a.flags)...)
	cmd.Env = append(a.environ(), "AWS_PAGER=")
	out, problems := &limited{most: maxAWS}, &limited{most: 8 << 10}
	cmd.Stdout, cmd.Stderr = out, problems
	cmd.WaitDelay = time.Second
	err = cmd.Run()
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("aws ecs %s: %w", operation, ctx.Err())
	case err != nil:
		return nil, fmt.Errorf("aws ecs %s: %w: %s", operation, err, term.Line(strings.Join(strings.Fields(problems.buffer.String()), " ")))
	case out.cut:
		return nil, fmt.Errorf("aws ecs %s printed more than %d MiB", operation, maxAWS>>20)
	}
	return out.buffer.Bytes(), nil
}

// limited keeps the beginning of what is written.
type limited struct {
	buffer bytes.Buffer // not embedded: io.Copy would call its ReadFrom instead of Write
	most   int
	cut    bool
}

func (l *limited) Write(b []byte) (int, error) {
	if room := l.most - l.buffer.Len(); len(b) > room {
		l.cut = true
		l.buffer.Write(b[:max(room, 0)])
		return len(b), nil
	}
	return l.buffer.Write(b)
}

// read returns what ECS says of a service and its task definition.
func (a awsCommand) read(ctx context.Context, service string) (q foreign.LiveRequest, err error) {
	if strings.HasPrefix(service, "-") {
		return q, fmt.Errorf("%q is not the name of a service", service)
	}
	args := []string{"--services", service}
	if a.cluster != "" {
		args = append(args, "--cluster", a.cluster)
	}
	if q.Service, err = a.call(ctx, "describe-services", args...); err != nil {
		return q, err
	}
	arn, err := foreign.DefinitionOf(q.Service)
	if err != nil {
		return q, err
	}
	q.Definition, err = a.call(ctx, "describe-task-definition", "--task-definition", arn, "--include", "TAGS")
	return q, err
}

// live imports a service that runs on ECS.
func (i importer) live(c *cli.Context) error {
	if err := command.CheckFormat(c); err != nil {
		return err
	}
	q, err := awsOf(i.environ, c).read(c.Context, c.Args().First())
	if err != nil {
		return err
	}
	q.Name = c.String("name")
	r, err := foreign.Live(q)
	if err != nil {
		return err
	}
	return i.writeForeign(c, c.Args().First(), r)
}

// referencesFile returns a table for what a definition names on AWS and nothing answers yet; nil if there is nothing.
func referencesFile(name string, all []taskdef.Resolved) []byte {
	var b strings.Builder
	seen := map[string]bool{}
	for _, ref := range all {
		if ref.Source != "" || ref.Reference == "" || seen[ref.Reference] {
			continue
		}
		seen[ref.Reference] = true
		fmt.Fprintf(&b, "\n# %s at %s\n[[reference]]\nmatch = %q\n", ref.Kind, ref.Pointer, ref.Reference)
		switch ref.Kind {
		case refs.Volume:
			b.WriteString("source = \"file:/DIRECTORY\"\n")
		case refs.File:
			b.WriteString("source = \"file:/PATH\"\n")
		default:
			b.WriteString("source = \"podman:NAME\"\n")
		}
	}
	if b.Len() == 0 {
		return nil
	}
	return []byte("# What " + name + " names on AWS, for this host. Write the source of each, and move this file to\n" +
		"# ~/.config/podtask/podtask.toml.d/. docs/references.md lists the sources.\n" + b.String())
}

// differ is what `podtask ecs diff` uses.
type differ struct {
	out     io.Writer
	stdin   io.Reader
	environ func() []string
	owners  *connect.Connector // nil to compare with a file
	catalog func(*cli.Context) (*catalog.Catalog, error)
}

func newDiffer(m *command.Machine) differ {
	p := m.Program
	return differ{out: p.Stdout, stdin: p.Stdin, environ: p.Environ, owners: m.Connector, catalog: p.OpenCatalog}
}

func newFileDiffer(p *command.Program) differ {
	return differ{out: p.Stdout, stdin: p.Stdin, environ: p.Environ}
}

// differences is what `podtask ecs diff --format json` prints.
type differences struct {
	// Service is the name on ECS, Here that of the service or file of this host.
	Service     string               `json:"service"`
	Here        string               `json:"here"`
	Differences []foreign.Difference `json:"differences"`
}

// Run implements command.Runner.
func (d differ) Run(ctx context.Context, c *cli.Context) error {
	name := c.Args().First()
	result := differences{Service: name, Here: cmp.Or(c.Args().Get(1), c.String("file"), name), Differences: []foreign.Difference{}}
	var settings *foreign.ServiceSettings
	doc, err := d.here(ctx, c, result.Here, &settings)
	if err != nil {
		return err
	}
	here, err := foreign.ReadDefinition(doc.Name, doc.Source)
	if err != nil {
		return err
	}
	q, err := awsOf(d.environ, c).read(ctx, name)
	if err != nil {
		return err
	}
	live, err := foreign.ReadDefinition(foreign.LiveDefinition, q.Definition)
	if err != nil {
		return err
	}
	if settings != nil {
		if result.Differences, err = foreign.ServiceDifferences(q.Service, *settings); err != nil {
			return err
		}
	}
	result.Differences = append(result.Differences, foreign.Differences(live, here)...)
	if result.Differences == nil {
		result.Differences = []foreign.Difference{}
	}
	err = command.PrintItem(d.out, c, result, func() error { return result.print(d.out) })
	if err == nil && len(result.Differences) > 0 {
		return command.ExitStatus(1)
	}
	return err
}

// here returns the definition of this host, and the settings of its service if it is one.
func (d differ) here(ctx context.Context, c *cli.Context, name string, settings **foreign.ServiceSettings) (define.Document, error) {
	if d.owners == nil {
		return command.ReadDocument(d.stdin, name)
	}
	client, err := d.owners.RequireAgent(ctx)
	if err != nil {
		return define.Document{}, fmt.Errorf("%w, or compare with --file", err)
	}
	defer client.Close()
	s, err := client.Service(ctx, name)
	if err != nil {
		return define.Document{}, err
	}
	dc := s.DeploymentConfiguration
	*settings = &foreign.ServiceSettings{DesiredCount: s.DesiredCount, MinHealthy: dc.MinimumHealthyPercent, Max: dc.MaximumPercent, Strategy: dc.Strategy, HealthGraceSeconds: s.HealthCheckGracePeriodSeconds}
	ref, err := catalog.ParseRef(s.TaskDefinition)
	if err != nil {
		return define.Document{}, err
	}
	registered, err := d.catalog(c)
	if err != nil {
		return define.Document{}, err
	}
	r, src, err := registered.Find(ref)
	if err != nil {
		return define.Document{}, err
	}
	return define.Registered(r, src), nil
}

// print writes the differences, a line for each.
func (d differences) print(w io.Writer) error {
	if len(d.Differences) == 0 {
		_, err := fmt.Fprintf(w, "%s and %s do not differ.\n", d.Service, d.Here)
		return err
	}
	for _, v := range d.Differences {
		var err error
		switch {
		case v.Here == "":
			_, err = fmt.Fprintf(w, "- %s: %s\n", term.Line(v.Path), term.Line(v.Live))
		case v.Live == "":
			_, err = fmt.Fprintf(w, "+ %s: %s\n", term.Line(v.Path), term.Line(v.Here))
		default:
			_, err = fmt.Fprintf(w, "~ %s: %s -> %s\n", term.Line(v.Path), term.Line(v.Live), term.Line(v.Here))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
