// Package composefile reads Compose files with compose-go, the reference implementation: the
// files that they include and extend, profiles, and the schema. podtask itself
// does not import it, because the JSON Schema library would initialize in every command.
package composefile

import (
	"cmp"
	"context"
	"path/filepath"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/template"
	"github.com/compose-spec/compose-go/v2/types"
)

// Load reads Compose files that are one project; it is a compose.Loader.
func Load(files []types.ConfigFile, name string, profiles []string, substitute func(text string, file template.Mapping) (string, error)) (*types.Project, error) {
	dir := filepath.Dir(files[0].Filename)
	return loader.LoadWithContext(context.Background(), types.ConfigDetails{
		WorkingDir: dir, ConfigFiles: files,
	}, func(l *loader.Options) {
		l.SetProjectName(cmp.Or(name, projectName(dir)), name != "")
		l.Profiles = profiles
		l.SkipResolveEnvironment, l.SkipResolveLabels = true, true
		l.Interpolate.Substitute = substitute
	})
}

// projectName is what Compose calls the project in a directory.
func projectName(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	if name := loader.NormalizeProjectName(filepath.Base(dir)); name != "" {
		return name
	}
	return "project"
}
