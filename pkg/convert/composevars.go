package convert

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/template"
	"go.yaml.in/yaml/v3"
)

// ComposeOptions are what a Compose file is read with.
type ComposeOptions struct {
	// Lookup returns the variables for ${NAME}; nil has none.
	Lookup func(name string) (value string, ok bool)
	// Profiles are those whose services are converted besides services without one.
	Profiles []string
}

// bareVariable is $NAME or ${NAME}: it has no default, and $$ is a dollar sign.
var bareVariable = regexp.MustCompile(`\$\$|\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))`)

// interpolate fills the variables of all values below n in, as Compose does. Names of
// members have none. What an alias stands for is filled in once, where it is written.
func (c *compose) interpolate(n *yaml.Node, budget *int) error {
	var errs []error
	for i, child := range n.Content {
		if n.Kind != yaml.MappingNode || i%2 == 1 {
			errs = append(errs, c.interpolate(child, budget))
		}
	}
	if n.Kind != yaml.ScalarNode || !strings.Contains(n.Value, "$") {
		return errors.Join(errs...)
	}
	lookup := func(name string) (string, bool) {
		if c.options.Lookup != nil {
			if value, ok := c.options.Lookup(name); ok {
				return value, true
			}
		}
		return "", false // the library would use the value of a variable that is not set
	}
	for _, m := range bareVariable.FindAllStringSubmatch(n.Value, -1) {
		if name := m[1] + m[2]; name != "" {
			if _, ok := lookup(name); !ok {
				c.lose(n.Line, "variable %s is not set here: it is empty", name)
			}
		}
	}
	text, err := template.SubstituteWithOptions(n.Value, lookup, template.WithoutLogging)
	if err != nil {
		// The error of the library holds the text, which may be a secret.
		var required *template.MissingRequiredError
		why := "a variable is written wrongly: ${NAME}, ${NAME:-default} and $$ for a dollar sign are known"
		if errors.As(err, &required) {
			why = fmt.Sprintf("variable %s must be set: %s", required.Variable, required.Reason)
		}
		return fmt.Errorf("%s:%d: %s", c.name, n.Line, why)
	}
	if *budget -= len(text); *budget < 0 {
		return fmt.Errorf("%s has more than %d bytes with its variables", c.name, maxText)
	}
	n.Value = text
	return errors.Join(errs...)
}

// left reports whether a service is left out because none of its profiles is wanted.
func (c *compose) left(s field) bool {
	for _, f := range fields(s.value) {
		if f.key != "profiles" {
			continue
		}
		profiles := list(f.value)
		if len(profiles) > 0 && !slices.ContainsFunc(profiles, func(p string) bool { return slices.Contains(c.options.Profiles, p) }) {
			c.lose(s.line, "service %s: none of its profiles is chosen (%s)", s.key, strings.Join(profiles, ", "))
			return true
		}
	}
	return false
}
