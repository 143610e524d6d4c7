// Package composecall executes podtask-compose, which converts Compose files, and reads what Compose takes variables from.
package composecall

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/define/convert/compose"
	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/internal/userfile"
)

// Program converts Compose files. It is not linked here, because the library that reads them would initialize in every command.
const Program = "podtask-compose"

// Limits of one conversion. A file is small, but aliases, merges, ranges of ports and dependencies multiply in the library that reads it.
const (
	// DefaultLimit limits the time.
	DefaultLimit = 30 * time.Second
	// MaxMemory is the most memory in bytes that podtask-compose takes.
	MaxMemory = 1 << 30
)

// outOfMemory matches the last words of a Go program that gets no more memory.
var outOfMemory = lazy.MustCompile(`^fatal error: .*(out of memory|cannot allocate memory)`)

// Caller executes podtask-compose.
type Caller struct {
	// Limit is the time for one conversion; 0 stands for DefaultLimit.
	Limit   time.Duration
	Find    func(program string) (string, error)
	Environ func() []string
}

// Convert converts a Compose file; result is a *convert.Result, or a *compose.StackResult if the request says so.
func (c Caller) Convert(ctx context.Context, r compose.Request, result any) error {
	path, err := c.Find(Program)
	if err != nil {
		return err
	}
	request, err := json.Marshal(r)
	if err != nil {
		return err
	}
	limit := cmp.Or(c.Limit, DefaultLimit)
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var out, problems bytes.Buffer
	cmd := exec.CommandContext(limited, path)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Environ(), bytes.NewReader(request), &out, &problems
	if err := cmd.Run(); err != nil {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case limited.Err() != nil:
			return fmt.Errorf("%s: to read it takes more than %s%s", r.File, limit, multiplies)
		case outOfMemory.Get().Match(problems.Bytes()):
			return fmt.Errorf("%s: to read it takes more than %d MiB of memory%s", r.File, MaxMemory>>20, multiplies)
		}
		if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 1 && problems.Len() > 0 {
			return errors.New(strings.TrimSpace(problems.String()))
		}
		return fmt.Errorf("execute %s: %w", path, err)
	}
	if err := json.Unmarshal(out.Bytes(), result); err != nil {
		return fmt.Errorf("read what %s has converted: %w", path, err)
	}
	return nil
}

// multiplies is advice about a file that takes too much.
const multiplies = ": look for members that multiply, which are aliases, merges (<<), ranges of ports, nested variables and depends_on"

// Variables returns the variables of the environment and of the file .env in a directory, and the names of those
// that only the environment has. The environment wins.
func (c Caller) Variables(dir string) (vars map[string]string, shell map[string]bool, err error) {
	given, shell := map[string]string{}, map[string]bool{}
	for _, v := range c.Environ() {
		if name, value, ok := strings.Cut(v, "="); ok {
			given[name], shell[name] = value, true
		}
	}
	name := filepath.Join(dir, ".env")
	if info, err := os.Stat(name); err == nil && info.IsDir() { // an environment of Python, which Compose passes by
		return given, shell, nil
	}
	text, err := readBeside(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return given, shell, nil
	case err != nil:
		return nil, nil, fmt.Errorf("read the variables of the Compose file: %w", err)
	}
	vars, err = compose.DotEnv(text, given)
	if err != nil {
		return nil, nil, fmt.Errorf("read the variables of the Compose file in %s: %w", name, err)
	}
	for name := range vars {
		delete(shell, name)
	}
	maps.Copy(vars, given)
	return vars, shell, nil
}

// maxFile describes how much of a file is read.
const maxFile = 1 << 20

// readBeside reads a file that lies beside the Compose file. The user did not name it, so a named pipe is an error: a read
// would wait for its writer.
func readBeside(name string) ([]byte, error) {
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	return userfile.Read(name, maxFile)
}
