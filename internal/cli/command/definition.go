package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/define"
	"github.com/podtask/podtask/internal/define/catalog"
	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/internal/term"
	"github.com/podtask/podtask/internal/unitfile/taskunit"
	"github.com/podtask/podtask/internal/userfile"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/refs"
	"github.com/urfave/cli/v2"
)

// DefinitionFlags returns the flags of commands that read a task definition.
func DefinitionFlags() []cli.Flag {
	return slices.Concat(CheckFlags(), []cli.Flag{
		&cli.StringFlag{Name: "override", Usage: "change the definition as `FILE` says, an ECS TaskOverride"},
		&cli.StringSliceFlag{Name: "var", Usage: "set a placeholder, ${NAME} or <NAME>: `NAME=VALUE`; NAME alone takes the value from this environment"},
	}, ReferenceFlags())
}

// CheckFlags returns the flags that set how strictly a definition is checked.
func CheckFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "strict", Usage: "treat warnings as errors"},
		&cli.BoolFlag{Name: "lenient", Usage: "warn of unknown members instead of refusing the definition"},
		WithoutFlag(),
	}
}

// WithoutFlag returns --without, which removes members from a definition. ParseWithout reads it.
func WithoutFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: "without", Usage: "leave `MEMBER` out of the definition, with a warning, such as credentialSpecs"}
}

// ParseWithout reads --without.
func ParseWithout(c *cli.Context) ([]string, error) {
	names := c.StringSlice("without")
	for _, name := range names {
		if err := taskdef.CheckWithout(name); err != nil {
			return nil, Usagef(Path(c), "--without: %v", err)
		}
	}
	return names, nil
}

// ReferenceFlags returns the flags that map volumes, files, images and secrets on AWS, to which a definition
// refers, to some of this host, for one task.
func ReferenceFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "map-volume", Usage: "mount a path of this host, or podman:VOLUME, for a volume: `NAME=PATH`"},
		&cli.StringSliceFlag{Name: "map-secret", Usage: "take a secret of AWS from here: `ARN=SOURCE`, the source being podman:NAME, file:PATH, env:NAME, credential:NAME, command:LINE or tree:DIRECTORY"},
		&cli.StringSliceFlag{Name: "map-env-file", Usage: "take an environment file of S3 from here: `ARN=PATH`, or a source as for --map-secret"},
		&cli.StringSliceFlag{Name: "map-log-config", Usage: "take a log router's configuration on S3 from here: `ARN=PATH`"},
	}
}

// Definition is a task definition that a command line names, with the changes that its flags make.
type Definition struct {
	Document string // a file, "-", or FAMILY[:REV]
	Changes  define.Changes
	override string // the file of an override, or empty
	locked   string // the value of --locked: empty, true, false or a file
	Reader   define.Reader
	Catalog  func() (*catalog.Catalog, error)
	Stdin    io.Reader // for the document "-"
	convert  func(define.Document) (define.Document, error)
	sentDir  string // left out of the name of the document
}

// Definition returns the definition that name and the values of DefinitionFlags describe.
func (p *Program) Definition(c *cli.Context, name string) (Definition, error) {
	d := Definition{
		Document: name, override: c.String("override"), locked: c.String("locked"),
		Changes: define.Changes{Strict: c.Bool("strict"), Lenient: c.Bool("lenient")},
		Catalog: func() (*catalog.Catalog, error) { return p.OpenCatalog(c) },
		Stdin:   p.Stdin, sentDir: p.SentDir,
		convert: func(doc define.Document) (define.Document, error) { return p.converted(c.Context, doc) },
	}
	var err error
	if d.Changes.Vars, err = ParseVars(p.CallerEnviron, Path(c), c.StringSlice("var")); err != nil {
		return d, err
	}
	if d.Changes.References, err = ParseReferences(c); err != nil {
		return d, err
	}
	if d.Reader.Settings, err = p.Configure(c); err != nil {
		return d, err
	}
	d.Changes.Without, err = ParseWithout(c)
	return d, err
}

// Logs returns the settings of log drivers.
func (d Definition) Logs() taskdef.LogSettings { return define.LogSettings(d.Reader.Settings) }

// ParseVars reads the words of --var.
func ParseVars(environ func() []string, verb string, words []string) (map[string]string, error) {
	vars := make(map[string]string)
	for _, w := range words {
		v, ok, err := envVar(environ, w)
		switch {
		case err != nil:
			return nil, Usagef(verb, "--var: %v", err)
		case !ok:
			return nil, Usagef(verb, "--var %s: there is no variable %s here: write NAME=VALUE", term.Line(w), term.Line(w))
		}
		vars[v.Name] = v.Value
	}
	return vars, nil
}

// mapFlags lists the flags that resolve a reference for one task. The pattern of the rule begins with
// prefix, and a value without a kind is a path if bare is "file:".
var mapFlags = []struct{ name, form, prefix, bare string }{
	{"map-volume", "NAME=PATH", "volume:", "file:"},
	{"map-env-file", "ARN=PATH", "", "file:"},
	{"map-log-config", "ARN=PATH", "", "file:"},
	{"map-secret", "ARN=SOURCE", "", ""},
}

// ParseReferences reads ReferenceFlags. Longer names come first: a whole valueFrom comes before its
// ARN.
func ParseReferences(c *cli.Context) (refs.Table, error) {
	verb := Path(c)
	var table refs.Table
	for _, f := range mapFlags {
		seen := make(map[string]bool)
		for _, w := range c.StringSlice(f.name) {
			key, value, ok := strings.Cut(w, "=")
			if !ok || key == "" || value == "" {
				return nil, Usagef(verb, "--%s %q: write %s", f.name, w, f.form)
			}
			if seen[key] {
				return nil, Usagef(verb, "--%s is given twice for %q", f.name, key)
			}
			seen[key] = true
			source, err := absoluteSource(f.bare, value)
			if err != nil {
				return nil, err
			}
			rule, err := define.NewReference(f.prefix+key, source, "--"+f.name)
			if err != nil {
				return nil, Usagef(verb, "--%s %q: %v", f.name, key, errors.Unwrap(err))
			}
			table = append(table, rule)
		}
	}
	slices.SortStableFunc(table, func(a, b refs.Rule) int { return len(b.Match) - len(a.Match) })
	return table, nil
}

// absoluteSource makes the path of a file absolute. With bare "file:", a value is a path unless it
// begins with another kind.
func absoluteSource(bare, value string) (string, error) {
	kind, path, _ := strings.Cut(value, ":")
	if bare != "" && !slices.Contains([]string{"file", "podman", "tree", "command"}, kind) {
		kind, path = "file", value
	}
	if kind != "file" || path == "" {
		return value, nil
	}
	path, err := filepath.Abs(path)
	return "file:" + path, err
}

// Finding is the result of checking one file: its problems, its warnings, and what the host lacks for it.
type Finding struct {
	File     string            `json:"file"`
	Valid    bool              `json:"valid"`
	Problems []taskdef.Problem `json:"problems"`
	Warnings []taskdef.Problem `json:"warnings"`
	Logs     []LogRoute        `json:"logs,omitempty"`
	Needs    []taskdef.Problem `json:"needs"`

	Definition define.Definition
	// Lock is the lockfile of --locked; nil for none.
	Lock *Lock
}

// Read reads and checks the document with its override. The error is only for a file that cannot be
// read: problems of its content are in the finding.
func (d Definition) Read() (taskdef.Task, Finding, error) {
	doc, err := d.readDocument()
	if err != nil {
		return taskdef.Task{}, Finding{}, fmt.Errorf("read the task definition: %w", err)
	}
	return d.Check(doc)
}

// Check checks a document, with the changes of the definition.
func (d Definition) Check(doc define.Document) (taskdef.Task, Finding, error) {
	if d.override != "" {
		override, err := ReadDocument(d.Stdin, d.override)
		if err != nil {
			return taskdef.Task{}, Finding{}, fmt.Errorf("read the override: %w", err)
		}
		d.Changes.Override = &override
	}
	read, err := d.Reader.Read(doc, d.Changes)
	if err != nil {
		return taskdef.Task{}, Finding{}, err
	}
	f := Finding{
		File: doc.Name, Valid: read.Valid(), Definition: read,
		Problems: orEmpty(read.Problems), Warnings: orEmpty(read.Warnings), Needs: orEmpty(read.Needs),
	}
	if !f.Valid || len(f.Needs) > 0 {
		return read.Task, f, nil
	}
	if f.Lock, err = d.lock(read); err != nil {
		return taskdef.Task{}, Finding{}, err
	}
	read.Task, err = applyLock(read.Task, f.Lock)
	f.Definition = read
	return read.Task, f, err
}

func orEmpty(problems []taskdef.Problem) []taskdef.Problem {
	return append([]taskdef.Problem{}, problems...)
}

// readDocument reads the file of that name, or if there is none, the registered definition.
func (d Definition) readDocument() (define.Document, error) {
	doc, err := ReadDocument(d.Stdin, d.Document)
	doc.Name = strings.TrimPrefix(doc.Name, d.sentDir)
	if err == nil && d.convert != nil {
		return d.convert(doc)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return doc, err
	}
	ref, refErr := catalog.ParseRef(d.Document)
	if refErr != nil {
		return doc, fmt.Errorf("%w%s", err, imageHint(d.Document))
	}
	registered, err := d.Catalog()
	if err != nil {
		return doc, err
	}
	r, src, err := registered.Find(ref)
	if errors.Is(err, catalog.ErrNotFound) {
		return doc, fmt.Errorf("there is no file %s, and as a task definition it is %w: see `podtask taskdef ls`%s", d.Document, err, imageHint(d.Document))
	}
	return define.Registered(r, src), err
}

// imageLike matches words that are probably images and not files.
var imageLike = lazy.MustCompile(`^[a-z0-9]+([._/:@-][A-Za-z0-9._-]+)*$`)

// imageHint returns how to run an image, if a name that is no definition may be an image.
func imageHint(name string) string {
	if !imageLike.MatchString(name) || slices.Contains([]string{".json", ".yaml", ".yml", taskunit.Extension}, filepath.Ext(name)) {
		return ""
	}
	return "; `podman run " + name + "` runs an image without a definition"
}

// ReadDocument reads a file; "-" is stdin.
func ReadDocument(stdin io.Reader, file string) (define.Document, error) {
	if file == "-" {
		dir, err := os.Getwd()
		if err != nil {
			return define.Document{}, err
		}
		src, err := userfile.ReadFrom(stdin, "the standard input", maxDocument)
		return define.Document{Name: "stdin", Dir: dir, Source: src}, err
	}
	path, err := filepath.Abs(file)
	if err != nil {
		return define.Document{}, err
	}
	src, err := userfile.Read(file, maxDocument)
	if err != nil {
		return define.Document{}, err
	}
	if filepath.Ext(file) == taskunit.Extension {
		text, ok := taskunit.DefinitionText(string(src))
		if !ok {
			return define.Document{}, fmt.Errorf("the unit %s has no DefinitionText=: give the file that its Definition= names", file)
		}
		src = text
	}
	return define.Document{Name: file, Dir: filepath.Dir(path), Source: src}, nil
}

// ReadTask reads a file, or "-", as a task definition: a file of another tool may be converted.
func (p *Program) ReadTask(ctx context.Context, file string) (define.Document, error) {
	doc, err := ReadDocument(p.Stdin, file)
	if err != nil {
		return doc, err
	}
	return p.converted(ctx, doc)
}

func (p *Program) converted(ctx context.Context, doc define.Document) (_ define.Document, err error) {
	for _, convert := range p.Convert {
		if doc, err = convert(ctx, p, doc); err != nil {
			return doc, err
		}
	}
	return doc, nil
}

// ReadSmall reads a file of at most 1 MiB, such as a unit.
func ReadSmall(name string) ([]byte, error) {
	text, err := userfile.Read(name, maxSmall)
	if len(text) > maxSmall {
		return nil, fmt.Errorf("%s has more than %d bytes", name, maxSmall)
	}
	return text, err
}

const maxSmall = 1 << 20

// maxDocument is more than the parser accepts, so that the parser reports files that are too large;
// the rest of a huge file is not read.
const maxDocument = 2 << 20

// Print writes warnings, needs and problems to stderr, a line for each that says something else.
func (f Finding) Print(stderr io.Writer) {
	for _, w := range taskdef.Fold(f.Warnings) {
		warn(stderr, "%s", w)
	}
	for _, n := range taskdef.Fold(f.Needs) {
		fmt.Fprintf(stderr, "Needs: %s\n", Need(n.String()))
	}
	for _, e := range taskdef.Fold(f.Problems) {
		fmt.Fprintf(stderr, "Error: %s\n", e)
	}
}

// Need lays out what a definition needs: the entry for podtask.toml stands on lines of its own, as it is written there.
func Need(text string) string {
	before, entry, ok := strings.Cut(text, " [[reference]] with match = ")
	if !ok {
		return text
	}
	match, source, _ := strings.Cut(entry, " and source = ")
	return before + "\n    [[reference]]\n    match = " + match + "\n    source = " + source
}

// Runnable prints the finding and reports whether the task can run.
func (f Finding) Runnable(stderr io.Writer) bool {
	f.Print(stderr)
	switch {
	case !f.Valid: // the problems say it
	case len(f.Needs) > 0:
		fmt.Fprintf(stderr, "%s needs these values to run here\n", f.File)
	default:
		return true
	}
	return false
}

// LogRoute is a container and the server that its output is sent to.
type LogRoute struct {
	Container   string `json:"container"`
	Destination string `json:"destination"`
}

// LogsOf returns the containers whose output is sent to a server.
func LogsOf(t taskdef.Task, s taskdef.LogSettings) (sent []LogRoute) {
	s.AWSLogs = s.AWSLogs || t.Identity.ExecutionRoleSource != ""
	for _, c := range t.Containers {
		if d := c.Log.Destination(c.Name, s); d != "" {
			sent = append(sent, LogRoute{c.Name, d})
		}
	}
	return sent
}

// OpenCatalog opens the registered definitions of this user.
func (p *Program) OpenCatalog(c *cli.Context) (*catalog.Catalog, error) {
	settings, err := p.Configure(c)
	if err != nil {
		return nil, err
	}
	stateDir, _, err := Dirs(p.Getenv, settings.Paths.StateDir)
	if err != nil {
		return nil, err
	}
	return define.OpenCatalog(stateDir, "podtask taskdef")
}

// ParamFlag returns --param, which gives what a file of another tool asks for. ParseParams reads it.
func ParamFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: "param", Usage: "give a parameter of the file, or another value that it asks for: `NAME=VALUE`"}
}

// ParseParams reads the words of --param.
func ParseParams(verb string, words []string) (map[string]string, error) {
	params := make(map[string]string)
	for _, w := range words {
		name, value, ok := strings.Cut(w, "=")
		if !ok || name == "" {
			return nil, Usagef(verb, "--param %s: write NAME=VALUE", term.Line(w))
		}
		if _, twice := params[name]; twice {
			return nil, Usagef(verb, "--param %s is given twice", term.Line(name))
		}
		params[name] = value
	}
	return params, nil
}
