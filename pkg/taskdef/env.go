package taskdef

import (
	"slices"
	"strings"
)

// WithEnv returns a copy of the task in which every container has vars, each in
// the place of its variable of the same name or at the end. A secret of that
// name gives way. The task itself is left as it is. Names must be those of Parse:
// not empty, no "=", no NUL.
func (t Task) WithEnv(vars []EnvVar) Task {
	t.Containers = slices.Clone(t.Containers)
	for i := range t.Containers {
		t.Containers[i] = t.Containers[i].withEnv(vars)
	}
	return t
}

func (c Container) withEnv(vars []EnvVar) Container {
	c.Environment = slices.Clone(c.Environment)
	c.Secrets = slices.Clone(c.Secrets)
	for _, v := range vars {
		c.Environment = setEnv(c.Environment, v)
		c.Secrets = slices.DeleteFunc(c.Secrets, func(s Secret) bool { return s.Name == v.Name })
	}
	return c
}

// setEnv replaces the value of a variable in place, or adds it.
func setEnv(vars []EnvVar, v EnvVar) []EnvVar {
	if i := slices.IndexFunc(vars, func(o EnvVar) bool { return o.Name == v.Name }); i >= 0 {
		vars[i].Value = v.Value
		return vars
	}
	return append(vars, v)
}

// envNameComplaint returns a complaint about the name of a variable; empty if it is valid.
func envNameComplaint(name string) string {
	switch {
	case name == "":
		return "the variable has no name"
	case strings.Contains(name, "="):
		// The rest may be a secret value, so it is not shown.
		return `the name of a variable holds "="`
	case strings.ContainsRune(name, 0):
		return "the name of a variable holds a NUL character"
	}
	return ""
}
