package service

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/define"
	"github.com/podtask/podtask/internal/define/catalog"
	"github.com/podtask/podtask/internal/serve"
	"github.com/urfave/cli/v2"
)

func TaskdefCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:  "taskdef",
		Usage: "keep task definitions by family and revision",
		Description: `Registered definitions are run by name: podtask run web, podtask run web:3.

Examples:
  podtask taskdef register web.json
  podtask taskdef ls
  podtask taskdef show web:2 > web.json
  podtask taskdef deregister web:1`,
		Subcommands: []*cli.Command{
			{
				Name:      "register",
				Usage:     "register definitions and print the FAMILY:REVISION of each",
				ArgsUsage: "FILE|- ...",
				Description: `A definition equal to that of an active revision, in whatever order or format, gives
that revision.

Examples:
  podtask taskdef register web.json`,
				Flags:  command.CheckFlags(),
				Action: withCatalog(p, taskdefRegister),
			},
			{
				Name:        "ls",
				Usage:       "list the active revisions",
				ArgsUsage:   "[FAMILY ...]",
				Description: "Examples:\n  podtask taskdef ls\n  podtask taskdef ls --all web",
				Flags: []cli.Flag{
					&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: "list inactive revisions too"},
					command.QuietFlag("names"),
					command.FormatFlag(command.ListFormats), command.SortFlag(),
				},
				Action: withCatalog(p, taskdefList),
			},
			{
				Name:        "show",
				Usage:       "print definitions as they were registered",
				ArgsUsage:   "FAMILY[:REV] ...",
				Description: "Examples:\n  podtask taskdef show web:2 > web.json",
				Flags:       []cli.Flag{command.FormatFlag("json or yaml (the revision and the document)")},
				Action:      withCatalog(p, taskdefShow),
			},
			{
				Name:      "deregister",
				Usage:     "make revisions inactive",
				ArgsUsage: "FAMILY:REV ...",
				Description: `An inactive revision can still be shown, and run by its number. What Podman keeps of the
Secrets of a Kubernetes manifest is removed when no service and no task needs it.

Examples:
  podtask taskdef deregister web:1`,
				Action: withCatalog(p, taskdefDeregister),
			},
		},
	}
}

// withCatalog makes an action of a command about registered definitions.
func withCatalog(p *command.Program, action func(*command.Program, *cli.Context, *catalog.Catalog, []string) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		if name := c.Command.Name; name != "ls" && !c.Args().Present() {
			return command.Usagef(command.CommandPath(c), "nothing to %s", name)
		}
		registered, err := p.OpenCatalog(c)
		if err != nil {
			return err
		}
		return action(p, c, registered, c.Args().Slice())
	}
}

func taskdefRegister(p *command.Program, c *cli.Context, registered *catalog.Catalog, files []string) error {
	code := 0
	d, err := toRegister(p, c)
	if err != nil {
		return err
	}
	for _, file := range files {
		doc, err := command.ReadDocument(p.Stdin, file)
		if err != nil {
			return fmt.Errorf("read the task definition: %w", err)
		}
		name, err := registration{p, registered, func() (*command.Machine, error) { return p.Open(c) }}.register(c.Context, d, doc)
		if err != nil {
			return err
		}
		if name == "" {
			code = command.ExitInvalid
			continue
		}
		if _, err := fmt.Fprintln(p.Stdout, name); err != nil {
			return err
		}
	}
	return command.ExitWith(code)
}

// toRegister is how a definition is read that is registered.
func toRegister(p *command.Program, c *cli.Context) (command.Definition, error) {
	settings, err := p.Configure(c)
	if err != nil {
		return command.Definition{}, err
	}
	without, err := command.ParseWithout(c)
	return command.Definition{
		Changes: define.Changes{Strict: c.Bool("strict"), Lenient: c.Bool("lenient"), Without: without},
		Reader:  define.Reader{Settings: settings},
	}, err
}

// registration is where definitions are registered.
type registration struct {
	*command.Program
	catalog *catalog.Catalog
	// open gives the Podman that keeps the content of Secrets.
	open func() (*command.Machine, error)
}

// register keeps a definition and returns its FAMILY:REVISION; empty for one that is not
// valid, of which all was said.
func (p registration) register(ctx context.Context, d command.Definition, doc define.Document) (string, error) {
	task, f, err := command.ParseDocument(p.Program, d, doc)
	if err != nil {
		return "", err
	}
	// What it needs, a run will give it.
	f.Needs = nil
	p.PrintProblems(f)
	if !f.Valid {
		fmt.Fprintf(p.Stderr, "%s is not valid: it was not registered\n", f.File)
		return "", nil
	}
	if task.Family == "" {
		return "", fmt.Errorf("%s: the family is a placeholder, and a definition is registered by it: write its name", f.File)
	}
	digest, err := f.Definition.Digest()
	if err != nil {
		return "", err
	}
	file := doc.Name
	if file != "stdin" {
		file = filepath.Join(doc.Dir, filepath.Base(file))
	}
	document := catalog.Document{Family: task.Family, Digest: digest, File: file, Dir: doc.Dir, Source: doc.Source}
	var r catalog.Revision
	if f.Definition.Manifest.Sensitive {
		r, err = p.keep(ctx, document)
	} else {
		r, _, err = p.catalog.Register(ctx, document, time.Now())
	}
	return catalog.Ref{Family: r.Family, Revision: r.Revision}.String(), err
}

// keep registers a manifest with Secrets, of which Podman keeps the content.
func (p registration) keep(ctx context.Context, d catalog.Document) (catalog.Revision, error) {
	s, err := p.open()
	if err != nil {
		return catalog.Revision{}, err
	}
	defer s.Engine.Close()
	return serve.Keeper{Catalog: p.catalog, Engine: s.Engine}.Register(ctx, d, time.Now())
}

func taskdefList(p *command.Program, c *cli.Context, registered *catalog.Catalog, families []string) error {
	all, err := registered.List()
	if err != nil {
		p.Warn("%v", err)
	}
	shown := []revisionRow{}
	for _, r := range all {
		if (r.Status == catalog.Active || c.Bool("all")) && (len(families) == 0 || slices.Contains(families, r.Family)) {
			shown = append(shown, revisionRow{r, time.Now()})
		}
	}
	return command.Listing[revisionRow]{Items: shown, ID: revisionRow.Name, Columns: []command.Column[revisionRow]{
		{Head: "TASK DEFINITION", Key: "name", Cell: revisionRow.Name, Order: func(a, b revisionRow) int {
			return cmp.Or(strings.Compare(a.Family, b.Family), cmp.Compare(a.Revision, b.Revision))
		}},
		{Head: "STATUS", Cell: func(r revisionRow) string { return string(r.Status) }},
		{Head: "REGISTERED", Cell: revisionRow.Registered, Order: func(a, b revisionRow) int { return b.RegisteredAt.Compare(a.RegisteredAt) }},
		{Head: "DIGEST", Cell: func(r revisionRow) string { return console.ShortDigest(r.Digest) }},
		{Head: "FILE", Cell: func(r revisionRow) string { return r.File }},
	}}.Print(p.Stdout, c)
}

// revisionRow is a revision in the list; templates see its fields and methods.
type revisionRow struct {
	revision
	now time.Time
}

// revision is embedded under this name so that templates see the number as .Revision.
type revision = catalog.Revision

// Name is FAMILY:REVISION.
func (r revisionRow) Name() string { return fmt.Sprintf("%s:%d", r.Family, r.Revision) }

// Registered is how long ago the revision was registered.
func (r revisionRow) Registered() string { return console.Ago(r.now, r.RegisteredAt) }

func taskdefShow(p *command.Program, c *cli.Context, registered *catalog.Catalog, refs []string) error {
	for _, text := range refs {
		ref, err := catalog.ParseRef(text)
		if err != nil {
			return err
		}
		r, src, err := registered.Find(ref)
		if err != nil {
			return err
		}
		err = command.PrintItem(p.Stdout, c, shownRevision{r, string(src)}, func() error {
			_, err := p.Stdout.Write(src)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

type shownRevision struct {
	revision
	// Document is the definition as it was registered, JSON or YAML.
	Document string `json:"document"`
}

func taskdefDeregister(p *command.Program, c *cli.Context, registered *catalog.Catalog, refs []string) error {
	released := false
	for _, text := range refs {
		ref, err := catalog.ParseRef(text)
		if err != nil {
			return err
		}
		if ref.Revision == 0 {
			return command.Usagef("taskdef deregister", "taskdef deregister %s: say which revision, as in %s:1", text, text)
		}
		r, err := registered.Deregister(c.Context, ref, time.Now())
		if err != nil {
			return err
		}
		fmt.Fprintf(p.Stdout, "%s:%d\n", r.Family, r.Revision)
		if r.Kept != "" {
			released = true
		}
	}
	if !released {
		return nil
	}
	s, err := p.Open(c)
	if err != nil {
		return err
	}
	defer s.Engine.Close()
	return serve.Keeper{Catalog: registered, Engine: s.Engine}.Release(c.Context)
}
