package unitdir

import (
	"bytes"
	"os"
	"path/filepath"
)

// Notices reports whether the configuration has a table [[notify]]. It looks for the line only: a generator that could
// not read the rest must not keep services from being made.
func Notices(getenv func(string) string) bool {
	dirs := []string{"/etc/podtask"}
	if base := getenv("XDG_CONFIG_HOME"); filepath.IsAbs(base) {
		dirs = append(dirs, filepath.Join(base, "podtask"))
	} else if home := getenv("HOME"); filepath.IsAbs(home) {
		dirs = append(dirs, filepath.Join(home, ".config", "podtask"))
	}
	for _, dir := range dirs {
		files, _ := filepath.Glob(filepath.Join(dir, "podtask.toml.d", "*.toml")) // the pattern is valid unless the directory is odd
		for _, file := range append(files, filepath.Join(dir, "podtask.toml")) {
			text, err := os.ReadFile(file)
			if err != nil {
				continue
			}
			for line := range bytes.Lines(text) {
				if bytes.HasPrefix(bytes.ReplaceAll(line, []byte(" "), nil), []byte("[[notify]]")) {
					return true
				}
			}
		}
	}
	return false
}
