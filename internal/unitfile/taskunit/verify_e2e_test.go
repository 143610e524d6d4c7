//go:build e2e

package taskunit_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Systemd has nothing to say against the services of the fixtures: systemd 252 in the
// plain bed, 257 in the systemd bed. Services of one name go into directories of their own.
func TestSystemdTakesWhatTheFixturesMake(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("testdata/*.t*")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	var batches []map[string]string
	total := 0
	for _, name := range names {
		services := verifiable(t, name)
		total += len(services)
		batches = place(batches, services)
	}
	if total < 50 {
		t.Errorf("the fixtures make %d services", total)
	}
	for _, b := range batches {
		verify(t, b)
	}
}

// verifiable are the services of a fixture, with stand-ins for those of Quadlet. One
// whose unit is warned of is left out: systemd warns of the same.
func verifiable(t *testing.T, name string) map[string]string {
	t.Helper()
	fx := load(t, name)
	out := make(map[string]string)
	for _, s := range fx.services {
		if len(fx.problems[s.Source]) == 0 {
			out[s.Name] = strings.ReplaceAll(s.Text, "/opt/podtask", os.Getenv("PODTASK_BIN"))
		}
	}
	for _, o := range fx.others {
		if len(out) > 0 && out[o] == "" {
			out[o] = "[Service]\nExecStart=/bin/true\n"
		}
	}
	return out
}

// place puts services into the first batch that has none of their names.
func place(batches []map[string]string, services map[string]string) []map[string]string {
	for _, b := range batches {
		free := true
		for name := range services {
			free = free && b[name] == ""
		}
		if free {
			maps.Copy(b, services)
			return batches
		}
	}
	return append(batches, services)
}

func verify(t *testing.T, services map[string]string) {
	t.Helper()
	dir := t.TempDir()
	args := []string{"--user", "verify"}
	for name, text := range services {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, path)
	}
	out, err := exec.Command("systemd-analyze", args...).CombinedOutput()
	if err != nil {
		t.Errorf("systemd-analyze: %v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if (strings.Contains(line, dir) || strings.Contains(line, "task")) && !strings.Contains(line, "Unknown key 'UpheldBy'") { // of systemd 254
			t.Errorf("systemd-analyze: %s", line)
		}
	}
}
