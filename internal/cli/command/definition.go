package command

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

// DefinitionFlags are those of verbs that read a task definition: what they add
// to it.
func DefinitionFlags() []cli.Flag {
	return slices.Concat(CheckFlags(), []cli.Flag{
		&cli.StringFlag{Name: "override", Usage: "change the definition as `FILE` says, an ECS TaskOverride"},
		&cli.StringSliceFlag{Name: "var", Usage: "set a placeholder, ${NAME} or <NAME>: `NAME=VALUE`; NAME alone takes the value from here"},
	}, ReferenceFlags())
}

// CheckFlags say how strictly a definition is read.
func CheckFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "strict", Usage: "treat warnings as errors"},
		&cli.BoolFlag{Name: "lenient", Usage: "warn of unknown members instead of refusing the definition"},
		WithoutFlag(),
	}
}

func WithoutFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: "without", Usage: "leave `MEMBER` out of the definition, with a warning, such as credentialSpecs"}
}

// ParseWithout reads its values.
func ParseWithout(c *cli.Context) ([]string, error) {
	names := c.StringSlice("without")
	for _, name := range names {
		if err := pod.CheckWithout(name); err != nil {
			return nil, Usagef(CommandPath(c), "--without: %v", err)
		}
	}
	return names, nil
}

// ReferenceFlags say for one task where this host has what the definition names on AWS.
func ReferenceFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "map-volume", Usage: "mount a path of this host, or podman:VOLUME, for a volume: `NAME=PATH`"},
		&cli.StringSliceFlag{Name: "map-secret", Usage: "take a secret of AWS from here: `ARN=SOURCE`, the source being podman:NAME, file:PATH, env:NAME, credential:NAME, command:LINE or tree:DIRECTORY"},
		&cli.StringSliceFlag{Name: "map-env-file", Usage: "take an environment file of S3 from here: `ARN=PATH`, or a source as for --map-secret"},
		&cli.StringSliceFlag{Name: "map-log-config", Usage: "take a log router's configuration on S3 from here: `ARN=PATH`"},
	}
}

// Definition is a task definition that a command line names, and what the line changes in it.
type Definition struct {
	Document string // a file, "-", or FAMILY[:REV]
	Changes  define.Changes
	override string // the file of an override, or empty
	Reader   define.Reader
	Catalog  func() (*catalog.Catalog, error)
}

// DefinitionOf reads the flags of definitionFlags.
func DefinitionOf(p *Program, c *cli.Context, name string) (Definition, error) {
	d := Definition{
		Document: name, override: c.String("override"),
		Changes: define.Changes{Strict: c.Bool("strict"), Lenient: c.Bool("lenient")},
		Catalog: func() (*catalog.Catalog, error) { return OpenCatalog(p, c) },
	}
	var err error
	if d.Changes.Vars, err = ParseVars(p, CommandPath(c), c.StringSlice("var")); err != nil {
		return d, err
	}
	if d.Changes.References, err = MappedOnce(c); err != nil {
		return d, err
	}
	if d.Reader.Settings, err = p.Configure(c); err != nil {
		return d, err
	}
	d.Changes.Without, err = ParseWithout(c)
	return d, err
}

// Logs are the settings of log drivers.
func (d Definition) Logs() taskdef.LogSettings { return define.LogSettings(d.Reader.Settings) }

func ParseVars(p *Program, verb string, words []string) (map[string]string, error) {
	vars := make(map[string]string)
	for _, w := range words {
		v, ok, err := envVar(p, w)
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

// mapFlags are the flags that answer a reference for one task: as a rule, its pattern begins
// with prefix, and a value without a kind is a path if bare is "file:".
var mapFlags = []struct{ name, form, prefix, bare string }{
	{"map-volume", "NAME=PATH", "volume:", "file:"},
	{"map-env-file", "ARN=PATH", "", "file:"},
	{"map-log-config", "ARN=PATH", "", "file:"},
	{"map-secret", "ARN=SOURCE", "", ""},
}

// MappedOnce reads mapFlags. A longer name is in front of a shorter one: a whole valueFrom
// comes before its ARN.
func MappedOnce(c *cli.Context) (refs.Table, error) {
	verb := CommandPath(c)
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

// Finding is what there is to say about one file.
type Finding struct {
	File     string            `json:"file"`
	Valid    bool              `json:"valid"`
	Problems []taskdef.Problem `json:"problems"`
	Warnings []taskdef.Problem `json:"warnings"`
	Logs     []LogRoute        `json:"logs,omitempty"`
	Needs    []taskdef.Problem `json:"needs"`

	Definition define.Definition
}

// ParseDefinition reads and parses a definition with its override. The error is only for a
// file that cannot be read: what is wrong with its content is in the finding.
func ParseDefinition(p *Program, d Definition) (taskdef.Task, Finding, error) {
	doc, err := readDefinition(p, d)
	if err != nil {
		return taskdef.Task{}, Finding{}, fmt.Errorf("read the task definition: %w", err)
	}
	return ParseDocument(p, d, doc)
}

func ParseDocument(p *Program, d Definition, doc define.Document) (taskdef.Task, Finding, error) {
	if d.override != "" {
		override, err := ReadDocument(p, d.override)
		if err != nil {
			return taskdef.Task{}, Finding{}, fmt.Errorf("read the override: %w", err)
		}
		d.Changes.Override = &override
	}
	read, err := d.Reader.Read(doc, d.Changes)
	if err != nil {
		return taskdef.Task{}, Finding{}, err
	}
	return read.Task, Finding{
		File: doc.Name, Valid: read.Valid(), Definition: read,
		Problems: orEmpty(read.Problems), Warnings: orEmpty(read.Warnings), Needs: orEmpty(read.Needs),
	}, nil
}

func orEmpty(problems []taskdef.Problem) []taskdef.Problem {
	return append([]taskdef.Problem{}, problems...)
}

// readDefinition reads a file, or where there is none of that name, a registered
// definition.
func readDefinition(p *Program, d Definition) (define.Document, error) {
	doc, err := ReadDocument(p, d.Document)
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

// imageLike matches what is rather an image than a file.
var imageLike = regexp.MustCompile(`^[a-z0-9]+([._/:@-][A-Za-z0-9._-]+)*$`)

// imageHint says how to run an image, if a name that is no definition may be one.
func imageHint(name string) string {
	if !imageLike.MatchString(name) || slices.Contains([]string{".json", ".yaml", ".yml", taskunit.Extension}, filepath.Ext(name)) {
		return ""
	}
	return "; `podman run " + name + "` runs an image without a definition"
}

// ReadDocument reads a file; "-" is stdin.
func ReadDocument(p *Program, file string) (define.Document, error) {
	if file == "-" {
		dir, err := os.Getwd()
		if err != nil {
			return define.Document{}, err
		}
		src, err := io.ReadAll(io.LimitReader(p.Stdin, maxDocument))
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

// ReadSmall reads a file that has no reason to be large, such as a unit.
func ReadSmall(name string) ([]byte, error) {
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

// PrintProblems writes what is in a finding on stderr, a line for each.
func (p *Program) PrintProblems(f Finding) {
	for _, w := range f.Warnings {
		p.Warn("%s", w)
	}
	for _, n := range f.Needs {
		fmt.Fprintf(p.Stderr, "Needs: %s\n", n)
	}
	for _, e := range f.Problems {
		fmt.Fprintf(p.Stderr, "Error: %s\n", e)
	}
}

// Runnable says on stderr what a finding holds and reports whether the task can
// run as it is.
func Runnable(p *Program, f Finding) bool {
	p.PrintProblems(f)
	switch {
	case !f.Valid:
		fmt.Fprintf(p.Stderr, "%s is not valid: nothing was made\n", f.File)
	case len(f.Needs) > 0:
		fmt.Fprintf(p.Stderr, "%s needs more to run here: nothing was made\n", f.File)
	default:
		return true
	}
	return false
}

// planLog says to which server the output of a container is sent.
type LogRoute struct {
	Container   string `json:"container"`
	Destination string `json:"destination"`
}

// LogsOf returns the containers whose output leaves this host.
func LogsOf(t taskdef.Task, s taskdef.LogSettings) (sent []LogRoute) {
	for _, c := range t.Containers {
		if d := c.Log.Destination(c.Name, s); d != "" {
			sent = append(sent, LogRoute{c.Name, d})
		}
	}
	return sent
}

// OpenCatalog opens what is registered in the state directory.
func OpenCatalog(p *Program, c *cli.Context) (*catalog.Catalog, error) {
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
