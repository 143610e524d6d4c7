package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/podtask/podtask/pkg/taskdef"
)

// readEnv gathers the variables of --env-file and --env; later ones win. A name
// without a value takes the one from our environment, or is left out if there is
// none, as Podman has it. Errors never hold a value.
func readEnv(p *program, verb string, files, words []string) ([]taskdef.EnvVar, error) {
	var vars []taskdef.EnvVar
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("read the environment: %w", err)
		}
		more, err := parseEnvFile(p, f)
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		vars = append(vars, more...)
	}
	for _, w := range words {
		v, ok, err := envVar(p, w)
		if err != nil {
			return nil, usagef(verb, "--env: %v", err)
		}
		if ok {
			vars = append(vars, v)
		}
	}
	return vars, nil
}

// parseEnvFile reads lines of NAME=VALUE or NAME. Blank lines and those that
// begin with # are skipped; values are taken as they stand, quotes included.
func parseEnvFile(p *program, r io.Reader) ([]taskdef.EnvVar, error) {
	var vars []taskdef.EnvVar
	bounded := &io.LimitedReader{R: r, N: maxEnvFile + 1}
	lines := bufio.NewScanner(bounded)
	lines.Buffer(nil, maxEnvFile+1)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimLeft(lines.Text(), " \t")
		if line == "" || line[0] == '#' {
			continue
		}
		v, ok, err := envVar(p, line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if ok {
			vars = append(vars, v)
		}
	}
	if bounded.N == 0 {
		return nil, fmt.Errorf("it has more than %d bytes, which no program can be given", maxEnvFile)
	}
	return vars, lines.Err()
}

// maxEnvFile bounds a file of variables in bytes.
const maxEnvFile = 1 << 20

// envVar reads NAME=VALUE or NAME. Ok is false for a NAME that is not set here.
func envVar(p *program, word string) (v taskdef.EnvVar, ok bool, err error) {
	name, value, given := strings.Cut(word, "=")
	switch {
	case name == "" || strings.ContainsAny(name, " \t"):
		return v, false, fmt.Errorf("the name of the variable is empty or holds a blank: write NAME=VALUE or NAME")
	case strings.ContainsRune(word, 0):
		return v, false, fmt.Errorf("the variable holds a NUL character")
	case given:
		return taskdef.EnvVar{Name: name, Value: value}, true, nil
	}
	for _, e := range p.environ() {
		if n, set, _ := strings.Cut(e, "="); n == name {
			return taskdef.EnvVar{Name: name, Value: set}, true, nil
		}
	}
	return v, false, nil
}
