package images

import (
	"os"
	"path/filepath"
	"testing"
)

// The configuration below /usr/share/containers counts only where there is no other, as
// in Podman 6.
func TestSharedRegistriesConf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		files []string
		given Options
		conf  string
		dir   string
	}{
		{"none", nil, Options{}, "", ""},
		{"the distribution's", []string{"share/registries.conf", "share/registries.conf.d/a.conf"}, Options{}, "share/registries.conf", "share/registries.conf.d"},
		{"the administrator's", []string{"share/registries.conf", "etc/registries.conf"}, Options{}, "", ""},
		{"the user's", []string{"share/registries.conf", "user/registries.conf"}, Options{}, "", ""},
		{"one that is given", []string{"share/registries.conf"}, Options{RegistriesConf: "/given"}, "/given", ""},
	} {
		root := t.TempDir()
		for _, f := range tt.files {
			name := filepath.Join(root, f)
			if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		under := func(path string) string {
			if path == "" || filepath.IsAbs(path) {
				return path
			}
			return filepath.Join(root, path)
		}
		got := tt.given.withShared(filepath.Join(root, "share"), filepath.Join(root, "user"), filepath.Join(root, "etc"))
		if got.RegistriesConf != under(tt.conf) || got.RegistriesConfDir != under(tt.dir) {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
}
