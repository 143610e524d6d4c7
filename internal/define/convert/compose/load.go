package compose

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/compose-spec/compose-go/v2/template"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/podtask/podtask/internal/define/convert"
	"github.com/podtask/podtask/internal/lazy"
	"go.yaml.in/yaml/v3"
)

// load reads the file as Compose does. Variables of services and their files are left to
// the start of the task.
func (c *conversion) load(file string, src []byte, o Options) error {
	vars, seen := variables{given: c.given, unset: map[string]bool{}}, map[string]bool{}
	if err := vars.bounded(filepath.Dir(file), src, seen); err != nil {
		return fmt.Errorf("%s: %w", c.Name, err)
	}
	files := []types.ConfigFile{{Filename: file, Content: withoutVersion(src)}}
	if o.Override != "" {
		over, err := readOrdinary(o.Override)
		if err == nil {
			err = vars.bounded(filepath.Dir(o.Override), over, seen)
		}
		if err != nil {
			return fmt.Errorf("%s, which Compose merges over %s: %w", path.Base(o.Override), c.Name, err)
		}
		files = append(files, types.ConfigFile{Filename: o.Override, Content: withoutVersion(over)})
		c.overlay(path.Base(o.Override), over)
	}
	name := c.own("PROJECT_NAME")
	if c.stack != nil {
		name = c.task // its volumes have the name of the stack
	}
	if all := c.own("PROFILES"); len(o.Profiles) == 0 && all != "" {
		o.Profiles = strings.FieldsFunc(all, func(r rune) bool { return r == ',' || r == ' ' })
	}
	if list := c.own("FILE"); list != "" && path.Base(list) != c.Name {
		c.Lose(0, "COMPOSE_FILE: of its files only %s is read; `docker compose config` merges all of them", c.Name)
	}
	project, err := o.Load(files, name, o.Profiles, vars.substitute)
	for name := range vars.unset {
		c.LoseValue(lineOf(src, name), "variable %s is not set here: it is empty", name)
	}
	if err != nil {
		return errors.Join(append([]error{c.located(err)}, c.Emptied()...)...)
	}
	if c.project, err = labelProject(project); err != nil {
		return c.located(err)
	}
	return c.fewPorts()
}

// overlay takes over the lines of a file that is merged over the first one: those of members that the first one does not have, and
// those of values, which it replaces. The library says what is wrong with the file.
func (c *conversion) overlay(name string, src []byte) {
	var doc yaml.Node
	if err := yaml.Unmarshal(src, &doc); err != nil {
		return
	}
	c.Over = name
	found := numbered(&doc)
	inside := map[string]bool{}
	for at := range found {
		inside[at[:strings.LastIndexByte(at, 0)]] = true
	}
	for at, line := range found {
		_, err := strconv.Atoi(at[strings.LastIndexByte(at, 0)+1:])
		if c.lines[at] == 0 || !inside[at] && err != nil { // entries of lists are added
			c.lines[at] = convert.OverLine + line
		}
	}
}

// maxPorts limits the ports of a service: more do not fit into a definition.
const maxPorts = 15_000

// fewPorts returns an error for each service with more ports than a definition may have.
func (c *conversion) fewPorts() error {
	var errs []error
	for _, name := range c.inOrder(c.project.ServiceNames(), "services") {
		if n := len(c.project.Services[name].Ports); n > maxPorts {
			errs = append(errs, fmt.Errorf("%s: services.%s.ports: these are %d ports, more than %d; a proxy or network_mode: host needs none of them", c.Place(c.lines.at("services", name, "ports")), name, n, maxPorts))
		}
	}
	return errors.Join(errs...)
}

// labelProject returns the project with the labels of its label_files.
func labelProject(p *types.Project) (*types.Project, error) {
	files := false
	for _, s := range p.Services {
		specs := []types.ContainerSpec{s.ContainerSpec}
		for _, hook := range s.PreStart {
			specs = append(specs, hook.ContainerSpec)
		}
		for _, spec := range specs {
			for _, name := range spec.LabelFiles {
				files = true
				if _, err := readOrdinary(name); err != nil {
					return nil, fmt.Errorf("services.%s.label_file: %w", s.Name, err)
				}
			}
		}
	}
	if !files {
		return p, nil
	}
	return p.WithServicesLabelsResolved(true)
}

// own returns a variable that Compose itself reads; empty if it is not set.
func (c *conversion) own(name string) string {
	if value, set := c.given("COMPOSE_" + name); set {
		return value
	}
	return ""
}

// Override returns the path of the override file, such as compose.override.yaml, that Compose without -f merges over a
// file of a default name; empty if there is none.
func Override(file string) string {
	if !slices.Contains([]string{"compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml"}, filepath.Base(file)) {
		return ""
	}
	for _, name := range []string{"compose.override.yml", "compose.override.yaml", "docker-compose.override.yml", "docker-compose.override.yaml"} {
		over := filepath.Join(filepath.Dir(file), name)
		if _, err := os.Stat(over); err == nil {
			return over
		}
	}
	return ""
}

// readOrdinary reads an ordinary file of a limited size.
func readOrdinary(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("it reads a file that cannot be read: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > maxText {
		return nil, fmt.Errorf("it reads %s, which is no file of at most %d bytes", name, maxText)
	}
	src, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("it reads a file that cannot be read: %w", err)
	}
	return src, nil
}

// version is a member that has no meaning anymore; the library prints a warning about it.
var version = lazy.MustCompile(`(?m)^version:[^\n{\[|>&*]*$`)

func withoutVersion(src []byte) []byte { return version.Get().ReplaceAll(src, nil) }

// place is what an error of the library says about where it is.
var place = lazy.MustCompile(`\b(?:services|volumes|secrets|networks|configs|include)(?:\.[\w-]+|\[\d+\])+`)

// notAllowed is how the library refuses the first member that the schema does not have.
var notAllowed = lazy.MustCompile(`(\S*) additional properties '([^']+)'(?:, '[^']+')* not allowed$`)

// undefinedService is how the library refuses a dependency that is not there, or has profiles of which none is chosen.
var undefinedService = lazy.MustCompile(`service "([^"]+)" depends on undefined service "([^"]+)"`)

// unknownMember is the path of a member that Compose does not have, if that is what an error is about.
func unknownMember(text string) string {
	if member, ok := strings.CutSuffix(text, " false schema"); ok {
		return member[strings.LastIndex(member, " ")+1:]
	}
	if m := notAllowed.FindStringSubmatch(text); m != nil {
		return strings.TrimPrefix(m[1]+"."+m[2], ".")
	}
	return ""
}

// located gives an error the line in the file, if it names a member.
func (c *conversion) located(err error) error {
	text := err.Error()
	if missing, ok := errors.AsType[*unknownVariable](err); ok {
		err = missing
	} else if member := unknownMember(text); member != "" {
		err, text = c.noMember(member), member
		if line := c.lines.at(strings.Split(member, ".")...); line != 0 {
			return fmt.Errorf("%s: %w", c.Place(line), err)
		}
	}
	if m := undefinedService.FindStringSubmatch(text); m != nil {
		line := cmp.Or(c.lines.at("services", m[1], "depends_on", m[2]), c.lines.at("services", m[1], "depends_on"), c.lines.at("services", m[1]))
		if profiles := c.lines.entries("services", m[2], "profiles"); len(profiles) > 0 {
			err = fmt.Errorf("%s.depends_on: service %s has profiles, of which none is chosen: import it with --profile %s, or write required: false to start %s without it", m[1], m[2], profiles[0], m[1])
		}
		return fmt.Errorf("%s: %w", c.Place(line), err)
	}
	if at := place.FindString(text); at != "" {
		if line := c.lines.at(strings.FieldsFunc(at, func(r rune) bool { return strings.ContainsRune(".[]", r) })...); line != 0 {
			return fmt.Errorf("%s: %w", c.Place(line), err)
		}
	}
	return fmt.Errorf("%s: %w", c.Name, err)
}

// variables fill in the ${NAME} of files.
type variables struct {
	given func(name string) (string, bool)
	unset map[string]bool // names without a value and without a default
}

// unknownVariable is an error about a variable. Those of the library hold the text, which
// may be a secret.
type unknownVariable struct{ why string }

func (e *unknownVariable) Error() string { return e.why }

// bareVariable is $NAME or ${NAME}: it has no default, and $$ is a dollar sign.
var bareVariable = lazy.MustCompile(`\$\$|\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))`)

// substitute fills variables in. There are those given, and those of the .env file beside
// an included file.
func (v variables) substitute(text string, file template.Mapping) (string, error) {
	lookup := func(name string) (string, bool) {
		if v.given != nil {
			if value, ok := v.given(name); ok {
				return value, true
			}
		}
		if value, ok := file(name); ok {
			return value, true
		}
		return "", false // the library would use the value of a variable that is not set
	}
	for _, m := range bareVariable.FindAllStringSubmatch(text, -1) {
		if name := m[1] + m[2]; name != "" {
			if _, ok := lookup(name); !ok {
				v.unset[name] = true
			}
		}
	}
	out, err := template.SubstituteWithOptions(text, lookup, template.WithoutLogging)
	if err != nil {
		if required, ok := errors.AsType[*template.MissingRequiredError](err); ok {
			return "", &unknownVariable{fmt.Sprintf("variable %s must be set: %s", required.Variable, required.Reason)}
		}
		return "", &unknownVariable{"a variable is written wrongly: ${NAME}, ${NAME:-default} and $$ for a dollar sign are known"}
	}
	if len(out) > maxText {
		return "", &unknownVariable{fmt.Sprintf("a value has more than %d bytes with its variables", maxText)}
	}
	return out, nil
}

// lineOf is the first line with a variable that has no default there, as far as that is found.
func lineOf(src []byte, name string) int {
	for _, m := range bareVariable.Get().FindAllSubmatchIndex(src, -1) {
		var found string
		for group := 2; group < len(m); group += 2 {
			if m[group] >= 0 {
				found = string(src[m[group]:m[group+1]])
			}
		}
		begin := 1 + strings.LastIndexByte(string(src[:m[0]]), '\n')
		if comment := strings.HasPrefix(strings.TrimSpace(string(src[begin:m[0]])), "#"); found == name && !comment {
			return 1 + strings.Count(string(src[:m[0]]), "\n")
		}
	}
	return 0
}

// reads are the members of a Compose file that name other files for Compose to read.
type reads struct {
	Include  []yaml.Node `yaml:"include"`
	Services map[string]struct {
		Extends yaml.Node `yaml:"extends"`
	} `yaml:"services"`
}

// bounded checks that the files that a file reads, and those that they read, are ordinary
// files of a limited size and number.
func (v variables) bounded(dir string, src []byte, seen map[string]bool) error {
	var r reads
	if yaml.Unmarshal(src, &r) != nil {
		return nil // the library says why
	}
	check := func(dir, name string, compose bool) error {
		name, err := v.substitute(name, func(string) (string, bool) { return "", false })
		if err != nil || name == "" || name == os.DevNull {
			return err
		}
		if !path.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		if seen[name] {
			return nil
		}
		if seen[name] = true; len(seen) > maxFiles {
			return fmt.Errorf("it reads more than %d files", maxFiles)
		}
		src, err := readOrdinary(name)
		if err != nil || !compose {
			return err
		}
		return v.bounded(filepath.Dir(name), src, seen)
	}
	for _, i := range r.Include {
		if err := checkInclude(dir, i, check); err != nil {
			return err
		}
	}
	for _, s := range r.Services {
		var e types.ExtendsConfig
		if s.Extends.Kind == yaml.MappingNode && s.Extends.Decode(&e) == nil && e.File != "" {
			if err := check(dir, e.File, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkInclude checks the files of an entry of include.
func checkInclude(dir string, entry yaml.Node, check func(dir, name string, compose bool) error) error {
	var long struct {
		Path    yaml.Node `yaml:"path"`
		EnvFile yaml.Node `yaml:"env_file"`
		Project string    `yaml:"project_directory"`
	}
	if entry.Kind == yaml.ScalarNode {
		long.Path = entry
	} else if entry.Decode(&long) != nil {
		return nil // the library says why
	}
	paths := texts(long.Path)
	for _, p := range paths {
		if err := check(dir, p, true); err != nil {
			return err
		}
	}
	for _, p := range texts(long.EnvFile) {
		if err := check(dir, p, false); err != nil {
			return err
		}
	}
	if len(paths) == 0 || long.EnvFile.Kind != 0 {
		return nil
	}
	env := filepath.Join(dir, path.Dir(paths[0]), ".env")
	if long.Project != "" {
		env = filepath.Join(dir, long.Project, ".env")
	}
	if _, err := os.Stat(env); err != nil {
		return nil // there is none
	}
	return check("/", env, false)
}

// texts are the texts of a list, or the one text.
func texts(n yaml.Node) []string {
	if n.Kind == yaml.ScalarNode {
		return []string{n.Value}
	}
	var out []string
	for _, item := range n.Content {
		out = append(out, item.Value)
	}
	return out
}
