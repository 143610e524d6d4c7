package envfile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/podtask/podtask/pkg/taskdef"
)

// Read returns a copy of the task whose containers have the
// variables of their environment files. What the definition sets itself, and what
// an earlier file set, stays (ECS agent). The files are read here and not again.
// The error names every file that cannot be read, and never a value.
func Read(t taskdef.Task) (taskdef.Task, error) {
	t.Containers = slices.Clone(t.Containers)
	var errs []error
	for i := range t.Containers {
		c := &t.Containers[i]
		for _, f := range c.EnvironmentFiles {
			vars, err := readEnvironmentFile(f.Path)
			if err != nil {
				errs = append(errs, fmt.Errorf("environment file of container %s: %w", c.Name, err))
				continue
			}
			*c = addVariables(*c, vars)
		}
	}
	return t, errors.Join(errs...)
}

func readEnvironmentFile(path string) ([]taskdef.EnvVar, error) {
	// A named pipe would block the open.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	vars, err := parseEnvironment(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return vars, nil
}

// addVariables adds those whose names are free.
func addVariables(c taskdef.Container, vars []taskdef.EnvVar) taskdef.Container {
	taken := make(map[string]bool)
	for _, v := range c.Environment {
		taken[v.Name] = true
	}
	for _, s := range c.Secrets {
		taken[s.Name] = true
	}
	c.Environment = slices.Clone(c.Environment)
	for _, v := range vars {
		if !taken[v.Name] {
			taken[v.Name] = true
			c.Environment = append(c.Environment, v)
		}
	}
	return c
}

// maxEnvironment bounds an environment file in bytes: the kernel gives a program no
// more than about twice of it.
const maxEnvironment = 1 << 20

// parseEnvironment reads NAME=VALUE lines. Blank lines and those that begin with #
// are skipped; quotes and blanks are part of a value, as in ECS. An error gives
// the line's number and not its text, which may be a secret.
func parseEnvironment(r io.Reader) ([]taskdef.EnvVar, error) {
	var vars []taskdef.EnvVar
	bounded := &io.LimitedReader{R: r, N: maxEnvironment + 1}
	lines := bufio.NewScanner(bounded)
	lines.Buffer(nil, maxEnvironment+1)
	n := 0
	for lines.Scan() {
		n++
		line := strings.TrimSuffix(lines.Text(), "\r")
		if text := strings.TrimSpace(line); text == "" || text[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		switch name = strings.TrimSpace(name); {
		case !ok || name == "" || strings.ContainsAny(name, " \t"):
			return nil, fmt.Errorf("line %d is not NAME=VALUE", n)
		case strings.ContainsRune(line, 0):
			return nil, fmt.Errorf("line %d holds a NUL character", n)
		}
		vars = append(vars, taskdef.EnvVar{Name: name, Value: value})
	}
	switch err := lines.Err(); {
	case bounded.N == 0:
		return nil, fmt.Errorf("it has more than %d bytes, which no program can be given", maxEnvironment)
	case err != nil:
		return nil, fmt.Errorf("line %d: %w", n+1, err)
	}
	return vars, nil
}
