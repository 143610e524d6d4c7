package envfile

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/podtask/podtask/pkg/taskdef"
)

// Sources reads what stands in for an object of S3.
type Sources interface {
	ReadFile(ctx context.Context, source, reference string) ([]byte, error)
}

// Read returns a copy of the task whose containers have the
// variables of their environment files. What the definition sets itself, and what
// an earlier file set, stays (ECS agent). The files are read here and not again.
// The error names every file that cannot be read, and never a value.
func Read(ctx context.Context, from Sources, t taskdef.Task) (taskdef.Task, error) {
	t.Containers = slices.Clone(t.Containers)
	var errs []error
	for i := range t.Containers {
		c := &t.Containers[i]
		for _, f := range c.EnvironmentFiles {
			vars, err := readEnvironmentFile(ctx, from, f)
			if err != nil {
				errs = append(errs, fmt.Errorf("environment file of container %s: %w", c.Name, err))
				continue
			}
			*c = addVariables(*c, vars)
		}
	}
	return t, errors.Join(errs...)
}

func readEnvironmentFile(ctx context.Context, from Sources, file taskdef.EnvironmentFile) ([]taskdef.EnvVar, error) {
	path := file.Path
	if file.Source != "" {
		text, err := from.ReadFile(ctx, file.Source, file.ValueFrom)
		if err != nil {
			return nil, err
		}
		vars, err := Parse(bytes.NewReader(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file.ValueFrom, err)
		}
		return vars, nil
	}
	// A named pipe would block the open.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	vars, err := Parse(f)
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

// maxEnvironment limits an environment file in bytes: the kernel accepts not more than about
// twice of it for a program.
const maxEnvironment = 1 << 20

// Parse reads NAME=VALUE lines; quotes and blanks are part of a value, as in
// ECS. An error has the number of the line.
func Parse(r io.Reader) ([]taskdef.EnvVar, error) {
	var vars []taskdef.EnvVar
	err := Lines(r, func(line string) error {
		name, value, ok := strings.Cut(line, "=")
		switch name = strings.TrimSpace(name); {
		case !ok || name == "" || strings.ContainsAny(name, " \t"):
			return errors.New("not NAME=VALUE")
		case strings.ContainsRune(line, 0):
			return errors.New("contains a NUL character")
		}
		vars = append(vars, taskdef.EnvVar{Name: name, Value: value})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return vars, nil
}

// Lines calls parse for each line of a file of variables, except blank lines and those that
// begin with #. An error has the number of the line and not its text, which may be a secret;
// parse must not put the text into its error either.
func Lines(r io.Reader, parse func(line string) error) error {
	limited := &io.LimitedReader{R: r, N: maxEnvironment + 1}
	lines := bufio.NewScanner(limited)
	lines.Buffer(nil, maxEnvironment+1)
	n := 0
	for lines.Scan() {
		n++
		line := strings.TrimSuffix(lines.Text(), "\r")
		if n == 1 {
			line = strings.TrimPrefix(line, "\ufeff") // as Windows begins a file in UTF-8
		}
		if text := strings.TrimSpace(line); text == "" || text[0] == '#' {
			continue
		}
		if err := parse(line); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	switch err := lines.Err(); {
	case limited.N == 0:
		return fmt.Errorf("the file has more than %d bytes", maxEnvironment)
	case err != nil:
		return fmt.Errorf("line %d: %w", n+1, err)
	}
	return nil
}
