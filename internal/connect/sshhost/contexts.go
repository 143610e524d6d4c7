package sshhost

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/atomicfile"
	"github.com/podtask/podtask/internal/lazy"
)

// Local is the name of the context that is this machine.
const Local = "local"

// Context is a name for a host.
type Context struct {
	Name string `json:"name"`
	Host string `json:"host"` // its URL; empty for this machine
}

// Contexts are the names that a user gave to hosts.
type Contexts struct {
	// Current is the name of the context that commands use; empty: this machine.
	Current  string    `json:"current,omitempty"`
	Contexts []Context `json:"contexts"`

	path string
}

var contextPattern = lazy.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// contextName reports whether a context may have the name.
func contextName(name string) bool { return len(name) <= 63 && contextPattern.MatchString(name) }

const maxContexts = 1 << 20 // bytes

// ContextsPath returns where the contexts of a user are.
func ContextsPath(getenv func(string) string) (string, error) {
	if base := getenv("XDG_CONFIG_HOME"); filepath.IsAbs(base) {
		return filepath.Join(base, "podtask", "contexts.json"), nil
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".config", "podtask", "contexts.json"), nil
	}
	return "", errors.New("no place for contexts: set HOME or XDG_CONFIG_HOME to an absolute path")
}

// LoadContexts reads the contexts of a user.
func LoadContexts(getenv func(string) string) (*Contexts, error) {
	path, err := ContextsPath(getenv)
	if err != nil {
		return nil, err
	}
	c := &Contexts{path: path}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err == nil && info.Size() > maxContexts {
		return nil, fmt.Errorf("%s has more than %d bytes", path, maxContexts)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if err := c.parse(text); err != nil {
		return nil, fmt.Errorf("%s: %w: correct the file, or remove it and add the contexts again", path, err)
	}
	return c, nil
}

// parse reads and checks the text of the file.
func (c *Contexts) parse(text []byte) error {
	if err := json.Unmarshal(text, c); err != nil {
		return err
	}
	var errs []error
	for i, ctx := range c.Contexts {
		if !contextName(ctx.Name) || ctx.Name == Local {
			errs = append(errs, fmt.Errorf("contexts[%d].name: %q is not a context name", i, ctx.Name))
		}
		if _, err := ParseHost(ctx.Host); err != nil {
			errs = append(errs, fmt.Errorf("contexts[%d].host: %w", i, err))
		}
	}
	if c.Current != "" && c.index(c.Current) < 0 {
		errs = append(errs, fmt.Errorf("current: there is no context %q", c.Current))
	}
	return errors.Join(errs...)
}

func (c *Contexts) index(name string) int {
	return slices.IndexFunc(c.Contexts, func(x Context) bool { return x.Name == name })
}

// Save writes the contexts.
func (c *Contexts) Save() error {
	slices.SortFunc(c.Contexts, func(a, b Context) int { return strings.Compare(a.Name, b.Name) })
	if c.Contexts == nil {
		c.Contexts = []Context{}
	}
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(c.path), 0o700); err != nil {
		return err
	}
	return atomicfile.Write(c.path, append(text, '\n'), 0o600)
}

// Add adds a context, or with replace gives one another host.
func (c *Contexts) Add(name, host string, replace bool) error {
	switch {
	case name == Local:
		return fmt.Errorf("%q is this machine: choose another name", name)
	case !contextName(name):
		return fmt.Errorf("%q is not a context name, which has letters, digits, dots, dashes and underscores, and begins with a letter or a digit", name)
	}
	h, err := ParseHost(host)
	if err != nil {
		return err
	}
	i := c.index(name)
	switch {
	case i < 0:
		c.Contexts = append(c.Contexts, Context{name, h.String()})
	case replace || c.Contexts[i].Host == h.String():
		c.Contexts[i].Host = h.String()
	default:
		return fmt.Errorf("there is a context %s already, for %s: --replace gives it another host", name, c.Contexts[i].Host)
	}
	return nil
}

// Use makes a context the current one; Local means this machine.
func (c *Contexts) Use(name string) error {
	if name == Local {
		c.Current = ""
		return nil
	}
	if c.index(name) < 0 {
		return c.missing(name)
	}
	c.Current = name
	return nil
}

// Remove forgets a context. The current one is not removed.
func (c *Contexts) Remove(name string) error {
	i := c.index(name)
	switch {
	case name == Local:
		return fmt.Errorf("%s is this machine: it is always there", Local)
	case i < 0:
		return c.missing(name)
	case c.Current == name:
		return fmt.Errorf("context %s is in use: `podtask context use %s` returns to this machine first", name, Local)
	}
	c.Contexts = slices.Delete(c.Contexts, i, i+1)
	return nil
}

func (c *Contexts) missing(name string) error {
	return fmt.Errorf("there is no context %q: `podtask context ls` lists them, `podtask context add %s ssh://USER@HOST` adds it", name, name)
}

// Find returns the host that a user means by a URL or by the name of a context. The zero Host is
// this machine.
func (c *Contexts) Find(word string) (Host, error) {
	switch {
	case word == Local:
		return Host{}, nil
	case strings.ContainsAny(word, ":/,") || !contextName(word):
		return ParseHost(word)
	}
	i := c.index(word)
	if i < 0 {
		return Host{}, c.missing(word)
	}
	return ParseHost(c.Contexts[i].Host)
}
