package importer

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/define"
	"github.com/podtask/podtask/internal/define/convert"
	"github.com/podtask/podtask/internal/define/foreign"
	"github.com/podtask/podtask/internal/define/foreign/toolfile"
	"github.com/podtask/podtask/internal/define/foreignfile"
	"github.com/podtask/podtask/internal/term"
	"github.com/podtask/podtask/internal/unitfile/taskunit"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
	"github.com/urfave/cli/v2"
)

// importForeign converts a file of another tool.
func (i importer) importForeign(c *cli.Context, f foreignfile.File) error {
	path := command.Path(c)
	params, err := command.ParseParams(path, c.StringSlice("param"))
	if err != nil {
		return err
	}
	from, err := filepath.Abs(f.Dir)
	if err != nil {
		return err
	}
	q := toolfile.Request{File: f.Name, Dir: from, Base: f.Base, Source: f.Source, Open: f.Open(), Params: params, Getenv: i.getenv, Service: c.String("service"), Environment: c.String("environment"), Name: c.String("name"), Now: time.Now()}
	r, err := foreign.Read(q)
	if err != nil {
		return err
	}
	return i.writeForeign(c, f.Name, r)
}

// writeForeign checks what came of a file, and writes it.
func (i importer) writeForeign(c *cli.Context, from string, r toolfile.Result) error {
	req, err := i.parse(c, r.Name)
	if err != nil {
		return err
	}
	req.from, req.name = from, r.Name
	source, ext, err := definitionText(r, c.Bool("yaml"))
	if err != nil {
		return err
	}
	file := filepath.Join(req.dir, req.name+ext)
	dir, err := filepath.Abs(req.dir)
	if err != nil {
		return err
	}
	_, finding, err := command.Definition{}.Check(define.Document{Name: file, Dir: dir, Source: source})
	if err != nil {
		return err
	}
	if !finding.Valid {
		return &toolfile.Error{Kind: r.Kind, File: from, Problems: locate(r, source, finding.Problems)}
	}
	report := importReport{Kind: r.Kind, Name: r.Name, Lost: append(r.Lost, locate(r, source, r.Lasting(finding.Warnings))...), Needs: locate(r, source, finding.Needs), Files: []outputFile{{path: file, data: source}}}
	slices.SortStableFunc(report.Lost, func(a, b taskdef.Problem) int {
		return cmp.Or(strings.Compare(a.File, b.File), a.Line-b.Line, a.Column-b.Column)
	})
	if r.Live {
		if table := referencesFile(r.Name, finding.Definition.References); table != nil {
			report.Files = append(report.Files, outputFile{filepath.Join(req.dir, req.name+".references.toml"), table})
		}
	}
	for _, s := range r.Schedules {
		report.Commands = append(report.Commands, toolfile.Shell(append([]string{"podtask", "schedule", "create", s.Name, file}, s.Flags...)...))
	}
	switch {
	case r.Service != nil:
		report.Commands = append(report.Commands, toolfile.Shell(append(append([]string{"podtask", "service", "create", r.Name, file}, r.Service.Flags...), "--wait")...))
		for _, scaling := range r.Service.Scaling {
			report.Commands = append(report.Commands, toolfile.Shell(append([]string{"podtask", "service", "scaling", scaling.Verb, r.Name}, scaling.Words...)...))
		}
	case len(r.Schedules) == 0:
		unit, err := unitFor(req.name, ext)
		if err != nil {
			return err
		}
		report.Files = append(report.Files, outputFile{filepath.Join(req.dir, req.name+taskunit.Extension), []byte(unit)})
		report.Commands = append(report.Commands, toolfile.Shell("podtask", "run", file))
	}
	return i.finish(c, req, report)
}

// unitFor returns a unit for a definition beside it.
func unitFor(name, ext string) (string, error) {
	file, err := taskunit.Escape(name)
	if err != nil {
		return "", fmt.Errorf("name of the unit: %w", err)
	}
	return "[Task]\nDefinition=./" + file + ext + "\n\n[Service]\nRestart=on-failure\n\n[Install]\nWantedBy=default.target\n", nil
}

// locate places problems of a produced definition in the file that it is from.
func locate(r toolfile.Result, text []byte, problems []taskdef.Problem) []taskdef.Problem {
	var out []taskdef.Problem
	for _, p := range problems {
		out = append(out, r.Locate(p, text))
	}
	return out
}

// definitionText writes a definition as JSON or YAML, and manifests as YAML.
func definitionText(r toolfile.Result, asYAML bool) (text []byte, ext string, err error) {
	if r.Definition != nil && !asYAML {
		var out bytes.Buffer
		err := json.Indent(&out, r.Definition.JSON(), "", "    ")
		return append(out.Bytes(), '\n'), ".json", err
	}
	docs := r.Documents
	if r.Definition != nil {
		docs = []*doctree.Node{r.Definition}
	}
	var out bytes.Buffer
	for i, d := range docs {
		if i > 0 {
			out.WriteString("---\n")
		}
		if err := console.WriteYAML(&out, d.JSON()); err != nil {
			return nil, "", err
		}
	}
	return out.Bytes(), ".yaml", nil
}

// importReport is what `podtask import --format json` prints.
type importReport struct {
	// Kind is what the file was.
	Kind string `json:"kind"`
	// Name is that of the task, the service and the files.
	Name  string       `json:"name"`
	Files []outputFile `json:"files"`
	// Commands make the service or the schedules, or run the task.
	Commands []string `json:"commands"`
	// Form is a sentence about the form of a Compose project, if it could have another one.
	Form string `json:"form,omitempty"`
	// Lost is what was not taken over, Needs what the definition leaves to flags and references.
	Lost  []taskdef.Problem `json:"lost"`
	Needs []taskdef.Problem `json:"needs"`
}

// finish writes the files, and reports what is lost and what is left to do.
func (i importer) finish(c *cli.Context, req importRequest, r importReport) error {
	format := c.String("format")
	if format == "" {
		if r.Form != "" {
			fmt.Fprintln(i.errOut, "Note: "+term.Line(r.Form))
		}
		for _, l := range taskdef.Fold(r.Lost) {
			fmt.Fprintln(i.errOut, "Lost: "+term.Line(l.String()))
		}
		for _, n := range taskdef.Fold(r.Needs) {
			fmt.Fprintln(i.errOut, "Needs: "+command.Need(term.Line(n.String())))
		}
	}
	if req.dryRun && format == "" {
		for _, f := range r.Files {
			fmt.Fprintf(i.out, "---%s---\n%s\n", filepath.Base(f.path), f.data)
		}
	}
	if !req.dryRun {
		to := i.out
		if format != "" {
			to = io.Discard
		}
		if err := i.write(to, req, r.Files); err != nil {
			return err
		}
	}
	if format == "" {
		for _, line := range r.Commands {
			fmt.Fprintln(i.errOut, "Next: "+line)
		}
		return nil
	}
	if r.Lost == nil {
		r.Lost = []taskdef.Problem{}
	}
	if r.Needs == nil {
		r.Needs = []taskdef.Problem{}
	}
	if r.Commands == nil {
		r.Commands = []string{}
	}
	return command.PrintItem(i.out, c, r, func() error { return nil })
}

// yamlDefinition turns the JSON of a conversion into YAML.
func yamlDefinition(r convert.Result) (convert.Result, error) {
	var out bytes.Buffer
	if err := console.WriteYAML(&out, json.RawMessage(r.Definition)); err != nil {
		return r, err
	}
	comment, _, found := strings.Cut(r.Unit, "\n\n")
	if found && strings.HasPrefix(comment, "# converted from ") {
		r.Definition = append([]byte(comment+"\n"), out.Bytes()...)
	} else {
		r.Definition = out.Bytes()
	}
	r.Unit = strings.Replace(r.Unit, ".json\n", ".yaml\n", 1)
	return r, nil
}
