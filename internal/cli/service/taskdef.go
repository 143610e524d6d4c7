package service

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/config"
	"github.com/podtask/podtask/internal/define"
	"github.com/podtask/podtask/internal/define/catalog"
	"github.com/podtask/podtask/internal/engine"
	"github.com/podtask/podtask/internal/serve"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/urfave/cli/v2"
)

// TaskdefCommand is `podtask taskdef`.
func TaskdefCommand(p *command.Program) *cli.Command {
	r := newRegistry(p)
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
				Action: r.action(taskdefCall.registerFiles),
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
				Action: r.action(taskdefCall.list),
			},
			{
				Name:        "show",
				Usage:       "print definitions as they were registered",
				ArgsUsage:   "FAMILY[:REV] ...",
				Description: "Examples:\n  podtask taskdef show web:2 > web.json",
				Flags:       []cli.Flag{command.FormatFlag("json or yaml (the revision and the document)")},
				Action:      r.action(taskdefCall.show),
			},
			{
				Name:      "deregister",
				Usage:     "make revisions inactive",
				ArgsUsage: "FAMILY:REV ...",
				Description: `An inactive revision can still be shown, and run by its number. What Podman keeps of the
Secrets of a Kubernetes manifest is removed when no service and no task needs it.

Examples:
  podtask taskdef deregister web:1`,
				Action: r.action(taskdefCall.deregister),
			},
		},
	}
}

// registry is what the commands of `podtask taskdef` use, and those of `podtask service` that take a file.
type registry struct {
	in          io.Reader
	read        func(ctx context.Context, file string) (define.Document, error)
	out, errOut io.Writer
	warn        func(format string, args ...any)
	configure   func(*cli.Context) (*config.Settings, error)
	openCatalog func(*cli.Context) (*catalog.Catalog, error)
	openEngine  func(*cli.Context) (*engine.Engine, error) // for Secrets in Podman
}

func newRegistry(p *command.Program) registry {
	return registry{
		in: p.Stdin, read: p.ReadTask, out: p.Stdout, errOut: p.Stderr, warn: p.Warn,
		configure: p.Configure, openCatalog: p.OpenCatalog, openEngine: p.OpenEngine,
	}
}

// taskdefCall is a command line about the definitions in a catalog.
type taskdefCall struct {
	registry
	c       *cli.Context
	catalog *catalog.Catalog
	// counted: the command takes the number of copies from the definition, so that no warning is due.
	counted bool
}

// action returns the action of a command whose arguments are files or definitions.
func (r registry) action(do func(taskdefCall, []string) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		if name := c.Command.Name; name != "ls" && !c.Args().Present() {
			return command.Usagef(command.Path(c), "nothing to %s", name)
		}
		call, err := r.open(c)
		if err != nil {
			return err
		}
		return do(call, c.Args().Slice())
	}
}

func (r registry) open(c *cli.Context) (taskdefCall, error) {
	registered, err := r.openCatalog(c)
	return taskdefCall{registry: r, c: c, catalog: registered}, err
}

func (t taskdefCall) registerFiles(files []string) error {
	code := 0
	d, err := t.definition()
	if err != nil {
		return err
	}
	for _, file := range files {
		doc, err := t.read(t.c.Context, file)
		if err != nil {
			return fmt.Errorf("read the task definition: %w", err)
		}
		name, err := t.register(d, doc)
		if err != nil {
			return err
		}
		if name == "" {
			code = command.ExitInvalid
			continue
		}
		if _, err := fmt.Fprintln(t.out, name); err != nil {
			return err
		}
	}
	return command.ExitWith(code)
}

// definition returns a definition with the changes and checks of the flags, without a document.
func (t taskdefCall) definition() (command.Definition, error) {
	settings, err := t.configure(t.c)
	if err != nil {
		return command.Definition{}, err
	}
	without, err := command.ParseWithout(t.c)
	return command.Definition{
		Changes: define.Changes{Strict: t.c.Bool("strict"), Lenient: t.c.Bool("lenient"), Without: without},
		Reader:  define.Reader{Settings: settings},
	}, err
}

// register registers a definition and returns its FAMILY:REVISION; empty if it is not valid, after
// printing its problems.
func (t taskdefCall) register(d command.Definition, doc define.Document) (string, error) {
	task, f, err := d.Check(doc)
	if err != nil {
		return "", err
	}
	// What the host lacks is reported when the definition is run.
	f.Needs = nil
	if m := f.Definition.Manifest; t.counted && (m.Replicas != nil || m.Numbered != nil) { // the service has what one Pod lacks
		f.Warnings = slices.DeleteFunc(f.Warnings, func(p taskdef.Problem) bool { return p.Pointer == "/spec/replicas" || p.Pointer == "/kind" })
	}
	f.Print(t.errOut)
	if !f.Valid {
		fmt.Fprintf(t.errOut, "%s is not valid: it was not registered\n", f.File)
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
	document := catalog.Document{Family: task.Family, Digest: digest, File: file, Dir: doc.Dir, Source: f.Definition.Text()}
	var r catalog.Revision
	if f.Definition.Manifest.Sensitive {
		r, err = t.registerSensitive(document)
	} else {
		r, _, err = t.catalog.Register(t.c.Context, document, time.Now())
	}
	return catalog.Ref{Family: r.Family, Revision: r.Revision}.String(), err
}

// registerSensitive registers a manifest with Secrets and moves their content into Podman.
func (t taskdefCall) registerSensitive(d catalog.Document) (catalog.Revision, error) {
	e, err := t.openEngine(t.c)
	if err != nil {
		return catalog.Revision{}, err
	}
	defer e.Close()
	return serve.SecretManifests{Catalog: t.catalog, Engine: e}.Register(t.c.Context, d, time.Now())
}

func (t taskdefCall) list(families []string) error {
	all, err := t.catalog.List()
	if err != nil {
		t.warn("%v", err)
	}
	shown := []revisionRow{}
	for _, r := range all {
		if (r.Status == catalog.Active || t.c.Bool("all")) && (len(families) == 0 || slices.Contains(families, r.Family)) {
			shown = append(shown, revisionRow{r, time.Now()})
		}
	}
	return command.Listing[revisionRow]{Items: shown, ID: revisionRow.Name, Hints: t.errOut, None: "There are no registered task definitions. Register one with `podtask taskdef register FILE`.", Columns: []command.Column[revisionRow]{
		{Head: "TASK DEFINITION", Key: "name", Cell: revisionRow.Name, Order: func(a, b revisionRow) int {
			return cmp.Or(strings.Compare(a.Family, b.Family), cmp.Compare(a.Revision, b.Revision))
		}},
		{Head: "STATUS", Cell: func(r revisionRow) string { return string(r.Status) }},
		{Head: "REGISTERED", Cell: revisionRow.Registered, Order: func(a, b revisionRow) int { return b.RegisteredAt.Compare(a.RegisteredAt) }},
		{Head: "DIGEST", Cell: func(r revisionRow) string { return console.ShortDigest(r.Digest) }},
		{Head: "FILE", Cell: func(r revisionRow) string { return r.File }},
	}}.Print(t.out, t.c)
}

// revisionRow is a revision in the list; templates see its fields and methods.
type revisionRow struct {
	revision
	now time.Time
}

// revision is embedded under this name so that templates see the number as .Revision.
type revision = catalog.Revision

// Name returns FAMILY:REVISION.
func (r revisionRow) Name() string { return fmt.Sprintf("%s:%d", r.Family, r.Revision) }

// Registered returns how long ago the revision was registered.
func (r revisionRow) Registered() string { return console.Ago(r.now, r.RegisteredAt) }

func (t taskdefCall) show(refs []string) error {
	for _, text := range refs {
		ref, err := catalog.ParseRef(text)
		if err != nil {
			return err
		}
		r, src, err := t.catalog.Find(ref)
		if err != nil {
			return err
		}
		err = command.PrintItem(t.out, t.c, shownRevision{r, string(src)}, func() error {
			_, err := t.out.Write(src)
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

func (t taskdefCall) deregister(refs []string) error {
	released := false
	for _, text := range refs {
		ref, err := catalog.ParseRef(text)
		if err != nil {
			return err
		}
		if ref.Revision == 0 {
			return command.Usagef("taskdef deregister", "taskdef deregister %s: say which revision, as in %s:1", text, text)
		}
		r, err := t.catalog.Deregister(t.c.Context, ref, time.Now())
		if err != nil {
			return err
		}
		fmt.Fprintf(t.out, "%s:%d\n", r.Family, r.Revision)
		if r.Kept != "" {
			released = true
		}
	}
	if !released {
		return nil
	}
	e, err := t.openEngine(t.c)
	if err != nil {
		return err
	}
	defer e.Close()
	return serve.SecretManifests{Catalog: t.catalog, Engine: e}.Release(t.c.Context)
}
