package compose

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/compose-spec/compose-go/v2/dotenv"
	"github.com/compose-spec/compose-go/v2/types"

	"github.com/podtask/podtask/internal/define/convert"
	"github.com/podtask/podtask/internal/define/envfile"
	"github.com/podtask/podtask/internal/lazy"
)

// envFiles converts the files of variables. A task reads them at its start, as ECS does: what
// comes after "=" is the value. Compose takes quotes and comments off and fills variables in,
// so those whose values would differ are listed by their names. Their values may be secrets
// and stay in the files.
func (c *serviceConversion) envFiles() {
	files := c.from.EnvFiles
	place := func(i int) string { return c.lines.path("services", c.from.Name, "env_file", strconv.Itoa(i)) }
	decided := map[string]bool{}
	for name, value := range c.from.Environment {
		decided[name] = value != nil
	}
	readings := c.envReadings()
	for i, f := range slices.Backward(files) { // the first of ECS's files that has a variable decides, and the last of Compose's
		if _, err := os.Stat(f.Path); !bool(f.Required) && errors.Is(err, fs.ErrNotExist) {
			continue // as Compose does
		}
		c.left(f, place(i), "services.env_file")
		r, path := readings[i], c.besideDefinition(f.Path)
		if r.bad != nil {
			c.Lose(c.lines.below(place(i), "path"), "%s.env_file %s: the task cannot start with it: %v", c.from.Name, c.relative(f.Path), r.bad)
		} else if other := r.different(decided); len(other) > 0 {
			path = c.resolved(i, r.compose, decided)
			if c.stack == nil { // each change of a stack reads the file again
				c.Need(c.lines.below(place(i), "path"), "%s.env_file %s: %s: Compose takes quotes, comments, blanks and ${NAME} out of values, a task keeps them, so %s has the values: import again after a change of %[2]s", c.from.Name, c.relative(f.Path), strings.Join(other, ", "), path)
			}
		}
		for name := range r.compose {
			decided[name] = true
		}
		if path != "" {
			c.ctr.EnvironmentFiles = append(c.ctr.EnvironmentFiles, convert.EnvFile{Type: "s3", Value: path})
		}
	}
}

// different returns the variables of a file that a task would read otherwise than Compose, except those in decided.
func (r envReading) different(decided map[string]bool) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(r.compose)) {
		if value, there := r.ecs[name]; !decided[name] && (!there || value != r.compose[name]) {
			names = append(names, printable(name))
		}
	}
	return names
}

// resolved writes a file with the values that Compose reads, and returns its path in the definition. Values of several
// lines have no form in such a file: each gets a file of its own.
func (c *serviceConversion) resolved(i int, values map[string]string, decided map[string]bool) string {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(values)) {
		line := name + "=" + values[name] + "\n"
		if vars, err := envfile.Parse(strings.NewReader(line)); err == nil && len(vars) == 1 && vars[0].Name == name && vars[0].Value == values[name] {
			text.WriteString(line)
		} else if !decided[name] && c.writable(values[name]) {
			c.ctr.Secrets = append(c.ctr.Secrets, convert.Secret{Name: name, ValueFrom: "file:" + c.writeBeside(c.ctr.Name+"."+name, values[name])})
		}
	}
	name := c.task + "." + convert.Plain(c.ctr.Name)
	if i > 0 {
		name += "-" + strconv.Itoa(i+1)
	}
	name += ".env"
	if c.stack != nil { // the directory of the definition is that of the project, and of these files another one
		name = c.stackFile(name, text.String())
	}
	c.files = append(c.files, convert.File{Name: name, Data: []byte(text.String())})
	if c.stack != nil {
		return filepath.Join(c.output, name)
	}
	return name
}

// besideDefinition returns a path relative to the directory of the definition if it is below that, else as it is.
func (c *conversion) besideDefinition(path string) string {
	if rel, err := filepath.Rel(c.output, path); err == nil && filepath.IsLocal(rel) && !strings.Contains(rel, ":") { // which would begin a URL or an ARN
		return rel
	}
	return path
}

// rawEnvFile is the format in which Compose keeps values as they are.
const rawEnvFile = "raw"

// envReading is a file of variables as Compose and as a task reads it. Both are empty if the
// file cannot be read here: Compose or the start of the task says so.
type envReading struct {
	compose, ecs map[string]string
	bad          error // why a task cannot read it
}

// envReadings reads the files in Compose's order: a value may name variables of earlier ones.
func (c *serviceConversion) envReadings() []envReading {
	known := filled{given: c.given, before: map[string]string{}}
	readings := make([]envReading, len(c.from.EnvFiles))
	for i, f := range c.from.EnvFiles {
		if info, err := os.Stat(f.Path); err != nil || !info.Mode().IsRegular() || info.Size() > maxText {
			continue
		}
		text, err := os.ReadFile(f.Path)
		if err != nil {
			continue
		}
		vars, bad := envfile.Parse(bytes.NewReader(text)) // with an error every value is another one
		ecs := map[string]string{}
		for _, v := range slices.Backward(vars) { // the first one decides
			ecs[v.Name] = v.Value
		}
		known.own = maps.Clone(ecs)
		if f.Format != rawEnvFile {
			known.own, known.operated = map[string]string{}, operated(text)
			if dotenv.ParseWithFormat(bytes.NewReader(text), f.Path, known.own, known.lookup(c.from.Environment), "") != nil {
				readings[i].bad = bad
				continue
			}
			if known.size > maxText {
				readings[i].bad = fmt.Errorf("its values have more than %d bytes with the variables in them", maxText)
				continue
			}
		} else if bad != nil {
			readings[i].bad = bad
			continue
		}
		if bad != nil {
			ecs = map[string]string{}
		}
		readings[i] = envReading{compose: known.own, ecs: ecs}
		maps.Copy(known.before, known.own)
	}
	return readings
}

// DotEnv reads the variables of a file .env as Compose does: a value may name variables of the environment and earlier
// ones of the file. Errors hold no values, which may be secrets.
func DotEnv(text []byte, environment map[string]string) (map[string]string, error) {
	operators := operated(text)
	for _, m := range bareName.Get().FindAllSubmatch(text, -1) { // it is not set, if the environment does not set it
		operators[string(m[1])] = true
	}
	vars := filled{own: map[string]string{}, operated: operators, given: func(name string) (string, bool) { v, ok := environment[name]; return v, ok }}
	if dotenv.ParseWithFormat(bytes.NewReader(text), ".env", vars.own, vars.lookup(nil), "") != nil {
		return nil, errors.New("its syntax is NAME=VALUE, a line each")
	}
	if vars.size > maxText {
		return nil, fmt.Errorf("its values have more than %d bytes with the variables in them", maxText)
	}
	return vars.own, nil
}

// bareName is a line that takes a variable from the environment.
var bareName = lazy.MustCompile(`(?m)^[ \t]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)[ \t\r]*$`)

// operated returns the variables that a text has with an operator.
func operated(text []byte) map[string]bool {
	names := map[string]bool{}
	for _, m := range operatedVariable.Get().FindAllSubmatch(text, -1) {
		names[string(m[1])] = true
	}
	return names
}

// filled are the variables for ${NAME} in a file of variables.
type filled struct {
	given       func(name string) (string, bool)
	before, own map[string]string // of earlier files, and of this one so far
	operated    map[string]bool   // those that the file has with an operator: ${NAME:-default}
	size        int               // bytes filled in so far
}

var operatedVariable = lazy.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)[:?+-]`)

// lookup returns a variable as Compose does: from the user, the service, the file, an earlier
// one.
func (v *filled) lookup(service types.MappingWithEquals) dotenv.LookupFn {
	return func(name string) (string, bool) {
		value, ok := v.given(name)
		if set := service[name]; !ok && set != nil {
			value, ok = *set, true
		}
		for _, vars := range []map[string]string{v.own, v.before} {
			if !ok {
				value, ok = vars[name]
			}
		}
		if v.size += len(value); v.size > maxText {
			return "", true // variables of variables multiply
		}
		return value, ok || !v.operated[name] // else the library prints a warning
	}
}

// printable is a name without what a terminal would act on.
func printable(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(name)
	}
	return name
}
