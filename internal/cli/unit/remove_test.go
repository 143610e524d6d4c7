package unit

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Who installs a unit and does not linger is told that it ends with the login.
func TestUnitsWithoutLinger(t *testing.T) {
	t.Parallel()
	var warned []string
	o := installOptions{units: units{
		warn:   func(format string, args ...any) { warned = append(warned, fmt.Sprintf(format, args...)) },
		getenv: func(name string) string { return map[string]string{"USER": "ann"}[name] },
	}}
	file := filepath.Join(t.TempDir(), "ann")
	lingers := func(string) string { return file }
	o.warnOfLogout(lingers)
	if want := []string{"units run only while ann is logged in: `loginctl enable-linger ann`, as root, changes that"}; !slices.Equal(warned, want) {
		t.Errorf("%q, want %q", warned, want)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	o.warnOfLogout(lingers)
	if len(warned) != 1 {
		t.Errorf("with linger: %q", warned)
	}
}

// The service of a unit that failed has removed its task: only the journal says why.
func TestAUnitThatFailedLeadsToTheJournal(t *testing.T) {
	t.Parallel()
	var errOut bytes.Buffer
	units{errOut: &errOut}.explain([]unitRow{{Unit: "web.task", Service: "web-task.service", State: "failed"}})
	if want := "web.task failed: `journalctl --user -u web-task.service` says why\n"; errOut.String() != want {
		t.Errorf("%q, want %q", errOut.String(), want)
	}
}

// What only removed units name goes with --purge, and is named without.
func TestRemovalOfWhatIsBesideUnits(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"web.task":             "[Task]\nDefinition=./web.yaml\nEnvironmentFile=shared.env\n",
		"web.task.d/more.conf": "[Task]\nEnvironmentFile=more.env\n",
		"web.task.d/more.env":  "A=1\n",
		"web.yaml":             "family: web\n",
		"shared.env":           "B=1\n",
		"task.d/all.conf":      "[Task]\nPull=never\n",
		"api.task":             "[Task]\nDefinition=./api.yaml\nEnvironmentFile=shared.env\n",
		"api.yaml":             "family: api\n",
		"other.txt":            "\n",
	}
	for name, tc := range map[string]struct {
		units []string
		purge bool
		gone  []string
		stays []string // that the command names
	}{
		"kept":            {[]string{"web"}, false, []string{"web.task"}, []string{"web.yaml", "web.task.d/more.conf", "web.task.d/more.env"}},
		"purged":          {[]string{"web"}, true, []string{"web.task", "web.yaml", "web.task.d/more.conf", "web.task.d/more.env"}, nil},
		"purged together": {[]string{"web", "api"}, true, []string{"web.task", "api.task", "web.yaml", "api.yaml", "shared.env", "web.task.d/more.conf", "web.task.d/more.env"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := t.TempDir()
			home := filepath.Join(config, "containers/systemd")
			for file, text := range files {
				path := filepath.Join(home, file)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var out, errOut bytes.Buffer
			env := map[string]string{"XDG_CONFIG_HOME": config, "PODTASK_UNIT_DIRS": home}
			u := units{out: &out, errOut: &errOut, warn: func(string, ...any) {}, getenv: func(name string) string { return env[name] }, executable: os.Executable}
			if err := u.remove(t.Context(), tc.units, false, tc.purge); err != nil {
				t.Fatal(err)
			}
			want := slices.DeleteFunc(slices.Sorted(maps.Keys(files)), func(file string) bool { return slices.Contains(tc.gone, file) })
			var got []string
			for _, file := range slices.Sorted(maps.Keys(files)) {
				if _, err := os.Stat(filepath.Join(home, file)); err == nil {
					got = append(got, file)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if n := strings.Count(errOut.String(), "--purge"); n != len(tc.stays) {
				t.Errorf("it names %d files: %s", n, errOut.String())
			}
			for _, file := range tc.stays {
				if !strings.Contains(errOut.String(), filepath.Join(home, file)+" stays") {
					t.Errorf("%s is missing in %s", file, errOut.String())
				}
			}
		})
	}
}
