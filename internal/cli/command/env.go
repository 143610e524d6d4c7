package command

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/podtask/podtask/internal/define/envfile"
	"github.com/podtask/podtask/internal/userfile"
	"github.com/podtask/podtask/pkg/taskdef"
)

// ReadEnv reads the variables of --env-file and --env; later ones win. A name without a value takes
// the value from the environment of podtask and is left out if it is not set there, as in Podman.
// Errors never contain a value.
func ReadEnv(environ func() []string, verb string, files, words []string) ([]taskdef.EnvVar, error) {
	var vars []taskdef.EnvVar
	for _, name := range files {
		text, err := userfile.Read(name, maxSmall)
		if err != nil {
			return nil, fmt.Errorf("read the environment: %w", err)
		}
		if len(text) > maxSmall {
			return nil, fmt.Errorf("read the environment: %s has more than %d bytes", name, maxSmall)
		}
		more, err := parseEnvFile(environ, bytes.NewReader(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		vars = append(vars, more...)
	}
	for _, w := range words {
		v, ok, err := envVar(environ, w)
		if err != nil {
			return nil, Usagef(verb, "--env: %v", err)
		}
		if ok {
			vars = append(vars, v)
		}
	}
	return vars, nil
}

// parseEnvFile reads lines of NAME=VALUE or NAME; quotes are part of a value.
func parseEnvFile(environ func() []string, r io.Reader) ([]taskdef.EnvVar, error) {
	var vars []taskdef.EnvVar
	err := envfile.Lines(r, func(line string) error {
		v, ok, err := envVar(environ, strings.TrimLeft(line, " \t"))
		if ok {
			vars = append(vars, v)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return vars, nil
}

// envVar reads NAME=VALUE or NAME. Ok is false for a NAME that the environment does not have.
func envVar(environ func() []string, word string) (v taskdef.EnvVar, ok bool, err error) {
	name, value, given := strings.Cut(word, "=")
	switch {
	case name == "" || strings.ContainsAny(name, " \t"):
		return v, false, fmt.Errorf("the name of the variable is empty or contains a blank: write NAME=VALUE or NAME")
	case strings.ContainsRune(word, 0):
		return v, false, fmt.Errorf("the variable contains a NUL character")
	case given:
		return taskdef.EnvVar{Name: name, Value: value}, true, nil
	}
	for _, e := range environ() {
		if n, set, _ := strings.Cut(e, "="); n == name {
			return taskdef.EnvVar{Name: name, Value: set}, true, nil
		}
	}
	return v, false, nil
}
