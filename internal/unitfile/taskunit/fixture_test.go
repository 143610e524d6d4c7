package taskunit_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containers/podman/v5/pkg/systemd/parser"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/podtask/podtask/internal/unitfile/taskunit"
	"github.com/podtask/podtask/internal/unitfile/unitdir"
)

// A fixture is a unit file, or several in a txtar archive, that says in its
// comments what must come of it. $DIR is the directory of the units.
//
//	## makes web-task.service       this service; without a line, none
//	## has [Unit] Key=value         the service has this assignment
//	## lacks [Unit] Key=            it has none that begins so
//	## command WORD...              the words of ExecStart
//	## arg WORD, no-arg PREFIX      ExecStart has the word, none that begins so
//	## link PATH -> TARGET          this link; every one must be named
//	## error LINE: TEXT             this problem; every one must be named
//	## warning LINE: TEXT           and likewise
//
// A problem of another file has its path before the line.
func TestFixtures(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("testdata/*.t*")
	if err != nil || len(names) < 60 {
		t.Fatalf("%d fixtures: %v", len(names), err)
	}
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			fx := load(t, name)
			for _, path := range fx.units {
				fx.check(t, path)
			}
		})
	}
}

type fixture struct {
	dir      string
	units    []string // paths of the .task files that have something to say
	services map[string]taskunit.Service
	problems map[string][]string // by the unit that is to name them
	others   []string            // services that Quadlet makes
}

func load(t *testing.T, name string) fixture {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	a := &txtar.Archive{Files: []txtar.File{{Name: filepath.Base(name), Data: text}}}
	if filepath.Ext(name) == ".txtar" {
		a = txtar.Parse(text)
	}
	dir := t.TempDir()
	if err := txtar.Write(a, dir); err != nil {
		t.Fatal(err)
	}
	env := func(key string) string { return map[string]string{"PODTASK_UNIT_DIRS": dir}[key] }
	dirs, err := unitdir.Search(env, os.Getuid())
	if err != nil {
		t.Fatal(err)
	}
	sources, problems := unitdir.Load(dirs)
	services, more := taskunit.Generate(sources, taskunit.Options{Program: "/opt/podtask", Generator: "the generator"})
	fx := fixture{dir: dir, services: map[string]taskunit.Service{}, problems: map[string][]string{}}
	for _, s := range services {
		fx.services[s.Source] = s
	}
	for _, s := range sources {
		if filepath.Ext(s.Name) != taskunit.Extension {
			fx.others = append(fx.others, s.ServiceName())
		}
	}
	for _, f := range a.Files {
		if filepath.Ext(f.Name) == ".task" && (len(a.Files) == 1 || strings.Contains(string(f.Data), "## ")) {
			fx.units = append(fx.units, filepath.Join(dir, f.Name))
		}
	}
	for _, p := range append(problems, more...) {
		unit := p.Path
		if filepath.Ext(unit) != ".task" { // a drop-in: the first unit answers for it
			unit = fx.units[0]
		}
		fx.problems[unit] = append(fx.problems[unit], kind(p)+" "+p.String())
	}
	return fx
}

func kind(p taskunit.Problem) string {
	if p.Warning {
		return "warning"
	}
	return "error"
}

// result is what the directives of one fixture file are checked against.
type result struct {
	fixture
	service  taskunit.Service
	unit     *parser.UnitFile
	argv     []string // of ExecStart
	problems []string // that no directive has expected yet
	made     bool     // a directive expects a service
	links    []string // that directives expect
}

func (fx fixture) check(t *testing.T, path string) {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	expand := strings.NewReplacer("$DIR", fx.dir, "$PARENT", filepath.Dir(fx.dir))
	service, made := fx.services[path]
	r := result{fixture: fx, service: service, unit: parser.NewUnitFile(), problems: slices.Clone(fx.problems[path])}
	if err := r.unit.Parse(service.Text); made && err != nil {
		t.Fatalf("Podman's parser does not take the service: %v", err)
	}
	r.argv, _, _ = r.unit.LookupLastArgs("Service", "ExecStart")
	for _, line := range strings.Split(strings.TrimPrefix(string(text), "\ufeff"), "\n") {
		if line, ok := strings.CutPrefix(strings.TrimSpace(line), "## "); ok {
			r.directive(t, path, expand.Replace(line))
		}
	}
	if made != r.made {
		t.Errorf("a service was made: %v, want %v", made, r.made)
	}
	var got []string
	for _, l := range service.Links {
		got = append(got, l.Path+" -> "+l.Target)
	}
	slices.Sort(got)
	slices.Sort(r.links)
	if !slices.Equal(got, r.links) {
		t.Errorf("links %q, want %q", got, r.links)
	}
	for _, p := range r.problems {
		t.Errorf("not expected: %s", p)
	}
}

// directive checks one line of a fixture that begins with "## ".
func (r *result) directive(t *testing.T, path, line string) {
	hasPrefix := func(prefix string) func(string) bool {
		return func(s string) bool { return strings.HasPrefix(s, prefix) }
	}
	verb, rest, _ := strings.Cut(line, " ")
	section, assignment, _ := strings.Cut(rest, " ")
	switch verb {
	case "makes":
		if rest == "nothing" {
			return
		}
		r.made = true
		if r.service.Name != rest {
			t.Errorf("it makes %q, want %q", r.service.Name, rest)
		}
	case "has":
		if !slices.Contains(assignments(r.unit, section), assignment) {
			t.Errorf("%s lacks %s", section, assignment)
		}
	case "lacks":
		if slices.ContainsFunc(assignments(r.unit, section), hasPrefix(assignment)) {
			t.Errorf("%s has %s", section, assignment)
		}
	case "command":
		if got := strings.Join(r.argv, " "); got != rest {
			t.Errorf("ExecStart is\n%s\nwant\n%s", got, rest)
		}
	case "arg":
		if !slices.Contains(r.argv, rest) {
			t.Errorf("ExecStart lacks %q", rest)
		}
	case "no-arg":
		if slices.ContainsFunc(r.argv, hasPrefix(rest)) {
			t.Errorf("ExecStart has %q", rest)
		}
	case "link":
		r.links = append(r.links, rest)
	case "no-links":
	case "error", "warning":
		r.problems = r.take(t, path, r.problems, verb, rest)
	default:
		t.Errorf("the fixture has an unknown directive: %q", line)
	}
}

// take removes the problem that was expected.
func (fx fixture) take(t *testing.T, path string, problems []string, verb, expected string) []string {
	at, text, _ := strings.Cut(expected, ": ")
	file, line, ok := strings.Cut(at, ":")
	if ok {
		path = filepath.Join(fx.dir, file)
	} else {
		line = at
	}
	prefix := verb + " " + path + ":" + line + ": "
	if line == "0" {
		prefix = verb + " " + path + ": "
	}
	i := slices.IndexFunc(problems, func(p string) bool { return strings.HasPrefix(p, prefix) && strings.Contains(p, text) })
	if i < 0 {
		t.Errorf("missing: %s... %s", prefix, text)
		return problems
	}
	return slices.Delete(problems, i, i+1)
}

func assignments(unit *parser.UnitFile, section string) []string {
	var out []string
	section = strings.Trim(section, "[]")
	for _, key := range unit.ListKeys(section) {
		for _, value := range unit.LookupAll(section, key) {
			out = append(out, key+"="+value)
		}
	}
	return out
}
