package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/podtask/podtask/pkg/config"
	"github.com/urfave/cli/v2"
)

// knownSecrets reads the file that the key map-secret-file names, if there is one.
func knownSecrets(p *program, c *cli.Context) (map[string]string, error) {
	const key = "map-secret-file"
	file := c.String(key)
	if !c.IsSet(key) {
		settings, err := config.Load(config.Source{Getenv: p.getenv})
		if err != nil {
			return nil, err
		}
		file = settings.Paths.MapSecretFile
	}
	if file == "" {
		return nil, nil
	}
	file, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	text, err := readSmall(file)
	if err != nil {
		return nil, fmt.Errorf("read the map of secrets (%s): %w", key, err)
	}
	return parseSecretMap(file, string(text))
}

// parseSecretMap reads lines of ARN=SOURCE. Blank lines and those that begin with # are
// skipped; a relative path of a source starts where the file lies. The error names the
// line.
func parseSecretMap(file, text string) (map[string]string, error) {
	known := make(map[string]string)
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		id, source, ok := strings.Cut(line, "=")
		id, source = strings.TrimSpace(id), strings.TrimSpace(source)
		if !ok || id == "" || source == "" {
			return nil, fmt.Errorf("%s:%d: write ARN=SOURCE", file, n)
		}
		if known[id] != "" {
			return nil, fmt.Errorf("%s:%d: %q is there already", file, n, id)
		}
		if path, ok := strings.CutPrefix(source, "file:"); ok && path != "" && !filepath.IsAbs(path) {
			source = "file:" + filepath.Join(filepath.Dir(file), path)
		}
		source, err := secretSource(source)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, n, err)
		}
		known[id] = source
	}
	return known, nil
}
