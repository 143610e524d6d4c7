package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/define"
	"github.com/podtask/podtask/internal/define/catalog"
	"github.com/podtask/podtask/internal/define/pod"
	"github.com/podtask/podtask/internal/term"
	"github.com/podtask/podtask/internal/unit/taskunit"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/refs"
	"github.com/urfave/cli/v2"
)

// definitionFlags are those of verbs that read a task definition: what they add
// to it.
func definitionFlags() []cli.Flag {
	return slices.Concat(checkFlags(), []cli.Flag{
		&cli.StringFlag{Name: "override", Usage: "change the definition as `FILE` says, an ECS TaskOverride"},
		&cli.StringSliceFlag{Name: "var", Usage: "set a placeholder, ${NAME} or <NAME>: `NAME=VALUE`; NAME alone takes the value from here"},
	}, referenceFlags())
}

// checkFlags say how strictly a definition is read.
func checkFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "strict", Usage: "treat warnings as errors"},
		&cli.BoolFlag{Name: "lenient", Usage: "warn of unknown members instead of refusing the definition"},
		withoutFlag(),
	}
}

func withoutFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: "without", Usage: "leave `MEMBER` out of the definition, with a warning, such as credentialSpecs"}
}

// parseWithout reads its values.
func parseWithout(c *cli.Context) ([]string, error) {
	names := c.StringSlice("without")
	for _, name := range names {
		if err := pod.CheckWithout(name); err != nil {
			return nil, usagef(commandPath(c), "--without: %v", err)
		}
	}
	return names, nil
}

// referenceFlags say for one task where this host has what the definition names on AWS.
func referenceFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "map-volume", Usage: "mount a path of this host, or podman:VOLUME, for a volume: `NAME=PATH`"},
		&cli.StringSliceFlag{Name: "map-secret", Usage: "take a secret of AWS from here: `ARN=SOURCE`, the source being podman:NAME, file:PATH, env:NAME, credential:NAME, command:LINE or tree:DIRECTORY"},
		&cli.StringSliceFlag{Name: "map-env-file", Usage: "take an environment file of S3 from here: `ARN=PATH`, or a source as for --map-secret"},
		&cli.StringSliceFlag{Name: "map-log-config", Usage: "take a log router's configuration on S3 from here: `ARN=PATH`"},
	}
}

// definition is a task definition that a command line names, and what the line changes in it.
type definition struct {
	document string // a file, "-", or FAMILY[:REV]
	changes  define.Changes
	override string // the file of an override, or empty
	reader   define.Reader
	catalog  func() (*catalog.Catalog, error)
}

// definitionOf reads the flags of definitionFlags.
func definitionOf(p *program, c *cli.Context, name string) (definition, error) {
	d := definition{
		document: name, override: c.String("override"),
		changes: define.Changes{Strict: c.Bool("strict"), Lenient: c.Bool("lenient")},
		catalog: func() (*catalog.Catalog, error) { return openCatalog(p, c) },
	}
	var err error
	if d.changes.Vars, err = parseVars(p, commandPath(c), c.StringSlice("var")); err != nil {
		return d, err
	}
	if d.changes.References, err = mappedOnce(c); err != nil {
		return d, err
	}
	if d.reader.Settings, err = p.configure(c); err != nil {
		return d, err
	}
	d.changes.Without, err = parseWithout(c)
	return d, err
}

// logs are the settings of log drivers.
func (d definition) logs() taskdef.LogSettings { return define.LogSettings(d.reader.Settings) }

func parseVars(p *program, verb string, words []string) (map[string]string, error) {
	vars := make(map[string]string)
	for _, w := range words {
		v, ok, err := envVar(p, w)
		switch {
		case err != nil:
			return nil, usagef(verb, "--var: %v", err)
		case !ok:
			return nil, usagef(verb, "--var %s: there is no variable %s here: write NAME=VALUE", term.Line(w), term.Line(w))
		}
		vars[v.Name] = v.Value
	}
	return vars, nil
}

// mapFlags are the flags that answer a reference for one task: as a rule, its pattern begins
// with prefix, and a value without a kind is a path if bare is "file:".
var mapFlags = []struct{ name, form, prefix, bare string }{
	{"map-volume", "NAME=PATH", "volume:", "file:"},
	{"map-env-file", "ARN=PATH", "", "file:"},
	{"map-log-config", "ARN=PATH", "", "file:"},
	{"map-secret", "ARN=SOURCE", "", ""},
}

// mappedOnce reads mapFlags. A longer name is in front of a shorter one: a whole valueFrom
// comes before its ARN.
func mappedOnce(c *cli.Context) (refs.Table, error) {
	verb := commandPath(c)
	var table refs.Table
	for _, f := range mapFlags {
		seen := make(map[string]bool)
		for _, w := range c.StringSlice(f.name) {
			key, value, ok := strings.Cut(w, "=")
			if !ok || key == "" || value == "" {
				return nil, usagef(verb, "--%s %q: write %s", f.name, w, f.form)
			}
			if seen[key] {
				return nil, usagef(verb, "--%s is given twice for %q", f.name, key)
			}
			seen[key] = true
			source, err := absoluteSource(f.bare, value)
			if err != nil {
				return nil, err
			}
			rule, err := define.NewReference(f.prefix+key, source, "--"+f.name)
			if err != nil {
				return nil, usagef(verb, "--%s %q: %v", f.name, key, errors.Unwrap(err))
			}
			table = append(table, rule)
		}
	}
	slices.SortStableFunc(table, func(a, b refs.Rule) int { return len(b.Match) - len(a.Match) })
	return table, nil
}

// absoluteSource makes the path of a file an absolute one. With bare "file:", a value is a
// path unless it names another kind that a rule for such a thing can have.
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

// finding is what there is to say about one file.
type finding struct {
	File     string            `json:"file"`
	Valid    bool              `json:"valid"`
	Problems []taskdef.Problem `json:"problems"`
	Warnings []taskdef.Problem `json:"warnings"`
	Logs     []planLog         `json:"logs,omitempty"`
	Needs    []taskdef.Problem `json:"needs"`

	definition define.Definition
}

// parseDefinition reads and parses a definition with its override. The error is only for a
// file that cannot be read: what is wrong with its content is in the finding.
func parseDefinition(p *program, d definition) (taskdef.Task, finding, error) {
	doc, err := readDefinition(p, d)
	if err != nil {
		return taskdef.Task{}, finding{}, fmt.Errorf("read the task definition: %w", err)
	}
	return parseDocument(p, d, doc)
}

func parseDocument(p *program, d definition, doc define.Document) (taskdef.Task, finding, error) {
	if d.override != "" {
		override, err := readDocument(p, d.override)
		if err != nil {
			return taskdef.Task{}, finding{}, fmt.Errorf("read the override: %w", err)
		}
		d.changes.Override = &override
	}
	read, err := d.reader.Read(doc, d.changes)
	if err != nil {
		return taskdef.Task{}, finding{}, err
	}
	return read.Task, finding{
		File: doc.Name, Valid: read.Valid(), definition: read,
		Problems: orEmpty(read.Problems), Warnings: orEmpty(read.Warnings), Needs: orEmpty(read.Needs),
	}, nil
}

func orEmpty(problems []taskdef.Problem) []taskdef.Problem {
	return append([]taskdef.Problem{}, problems...)
}

// readDefinition reads a file, or where there is none of that name, a registered
// definition.
func readDefinition(p *program, d definition) (define.Document, error) {
	doc, err := readDocument(p, d.document)
	if !errors.Is(err, fs.ErrNotExist) {
		return doc, err
	}
	ref, refErr := catalog.ParseRef(d.document)
	if refErr != nil {
		return doc, fmt.Errorf("%w%s", err, imageHint(d.document))
	}
	registered, err := d.catalog()
	if err != nil {
		return doc, err
	}
	r, src, err := registered.Find(ref)
	if errors.Is(err, catalog.ErrNotFound) {
		return doc, fmt.Errorf("there is no file %s, and as a task definition it is %w: see `podtask taskdef ls`%s", d.document, err, imageHint(d.document))
	}
	return define.Registered(r, src), err
}

// imageLike matches what is rather an image than a file.
var imageLike = regexp.MustCompile(`^[a-z0-9]+([._/:@-][A-Za-z0-9._-]+)*$`)

// imageHint says how to run an image, if a name that is no definition may be one.
func imageHint(name string) string {
	if !imageLike.MatchString(name) || slices.Contains([]string{".json", ".yaml", ".yml", taskunit.Extension}, filepath.Ext(name)) {
		return ""
	}
	return "; `podman run " + name + "` runs an image without a definition"
}

// readDocument reads a file; "-" is stdin.
func readDocument(p *program, file string) (define.Document, error) {
	if file == "-" {
		dir, err := os.Getwd()
		if err != nil {
			return define.Document{}, err
		}
		src, err := io.ReadAll(io.LimitReader(p.stdin, maxDocument))
		return define.Document{Name: "stdin", Dir: dir, Source: src}, err
	}
	path, err := filepath.Abs(file)
	if err != nil {
		return define.Document{}, err
	}
	f, err := os.Open(file)
	if err != nil {
		return define.Document{}, err
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, maxDocument))
	if err == nil && filepath.Ext(file) == taskunit.Extension {
		text, ok := taskunit.DefinitionText(string(src))
		if !ok {
			return define.Document{}, fmt.Errorf("the unit %s has no DefinitionText=: give the file that its Definition= names", file)
		}
		src = text
	}
	return define.Document{Name: file, Dir: filepath.Dir(path), Source: src}, err
}

// readSmall reads a file that has no reason to be large, such as a unit.
func readSmall(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSmall+1))
	if len(text) > maxSmall {
		return nil, fmt.Errorf("%s has more than %d bytes", name, maxSmall)
	}
	return text, err
}

const maxSmall = 1 << 20

// maxDocument is more than a task definition may have, so that the parser says
// so; the rest of a huge file is not read.
const maxDocument = 2 << 20

// printProblems writes what is in a finding on stderr, a line for each.
func (p *program) printProblems(f finding) {
	for _, w := range f.Warnings {
		p.warn("%s", w)
	}
	for _, n := range f.Needs {
		fmt.Fprintf(p.stderr, "Needs: %s\n", n)
	}
	for _, e := range f.Problems {
		fmt.Fprintf(p.stderr, "Error: %s\n", e)
	}
}

// runnable says on stderr what a finding holds and reports whether the task can
// run as it is.
func runnable(p *program, f finding) bool {
	p.printProblems(f)
	switch {
	case !f.Valid:
		fmt.Fprintf(p.stderr, "%s is not valid: nothing was made\n", f.File)
	case len(f.Needs) > 0:
		fmt.Fprintf(p.stderr, "%s needs more to run here: nothing was made\n", f.File)
	default:
		return true
	}
	return false
}
