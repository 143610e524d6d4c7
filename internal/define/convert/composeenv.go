package convert

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/compose-spec/compose-go/v2/dotenv"
	"github.com/compose-spec/compose-go/v2/types"

	"github.com/podtask/podtask/internal/define/envfile"
)

// envFiles converts the files of variables. A task reads them at its start, as ECS does: what
// comes after "=" is the value. Compose takes quotes and comments off and fills variables in,
// so those whose values would differ are listed by their names. Their values may be secrets
// and stay in the files.
func (c *serviceConversion) envFiles() {
	files := c.from.EnvFiles
	place := func(i int) string { return c.lines.path("services", c.from.Name, "env_file", strconv.Itoa(i)) }
	for i, f := range slices.Backward(files) { // the first of ECS's files that has a variable decides, and the last of Compose's
		c.left(f, place(i), envFileMembers(f)...)
		if _, err := os.Stat(f.Path); !bool(f.Required) && errors.Is(err, fs.ErrNotExist) {
			continue // as Compose does
		}
		c.ctr.EnvironmentFiles = append(c.ctr.EnvironmentFiles, envFile{"s3", f.Path})
	}
	decided := map[string]bool{}
	for name, value := range c.from.Environment {
		decided[name] = value != nil
	}
	readings := c.envReadings()
	for i := range slices.Backward(files) {
		r := readings[i]
		var other []string
		for _, name := range slices.Sorted(maps.Keys(r.compose)) {
			if value, there := r.ecs[name]; !decided[name] && (!there || value != r.compose[name]) {
				other = append(other, printable(name))
			}
			decided[name] = true
		}
		where := c.from.Name + ".env_file " + c.relative(files[i].Path)
		switch line := c.lines.below(place(i), "path"); {
		case r.bad != nil:
			c.lose(line, "%s: the task cannot start with it: %v", where, r.bad)
		case len(other) > 0:
			c.lose(line, "%s: %s: Compose takes quotes, comments, blanks and ${NAME} out of values, a task keeps them: write the values as they are to be", where, strings.Join(other, ", "))
		}
	}
}

// rawEnvFile is the format in which Compose keeps values as they are.
const rawEnvFile = "raw"

func envFileMembers(f types.EnvFile) []string {
	if f.Format == rawEnvFile {
		return []string{"path", "required", "format"}
	}
	return []string{"path", "required"}
}

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
		vars, err := envfile.Parse(bytes.NewReader(text))
		if err != nil {
			readings[i].bad = err
			continue
		}
		ecs := map[string]string{}
		for _, v := range slices.Backward(vars) { // the first one decides
			ecs[v.Name] = v.Value
		}
		known.own = maps.Clone(ecs)
		if f.Format != rawEnvFile {
			known.own, known.operated = map[string]string{}, operated(text)
			if dotenv.ParseWithFormat(bytes.NewReader(text), f.Path, known.own, known.lookup(c.from.Environment), "") != nil {
				continue
			}
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
	for _, m := range bareName.FindAllSubmatch(text, -1) { // it is not set, if the environment does not set it
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
var bareName = regexp.MustCompile(`(?m)^[ \t]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)[ \t\r]*$`)

// operated returns the variables that a text has with an operator.
func operated(text []byte) map[string]bool {
	names := map[string]bool{}
	for _, m := range operatedVariable.FindAllSubmatch(text, -1) {
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

var operatedVariable = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)[:?+-]`)

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
