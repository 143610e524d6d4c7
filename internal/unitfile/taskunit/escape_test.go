package taskunit_test

import (
	"strings"
	"testing"

	"github.com/containers/podman/v5/pkg/systemd/parser"

	"github.com/podtask/podtask/internal/unitfile/taskunit"
)

// What Escape accepts is read back unchanged by Podman's parser and by ours, as the only
// assignment of the file.
func FuzzEscape(f *testing.F) {
	for _, text := range []string{
		"/srv/a.env", "100%.env", "%h", `a\b`, `a\`, "a\nExecStartPre=/bin/sh", "a\rExecStartPre=/bin/sh", "a\x00b", " a", "#a", "[Service]", "a\u2028b", "\xff", "",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		value, err := taskunit.Escape(text)
		if err != nil {
			return
		}
		if strings.Count(value, "%") != 2*strings.Count(text, "%") {
			t.Errorf("%q became %q", text, value)
		}
		written := "[Service]\nEnvironmentFile=" + value + "\nRestart=no\n"
		unit := parser.NewUnitFile()
		if err := unit.Parse(written); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		back, _ := unit.LookupLast("Service", "EnvironmentFile")
		if got := strings.ReplaceAll(back, "%%", "%"); got != text {
			t.Errorf("%q is read back as %q", text, got)
		}
		ours := taskunit.Read("/a.task", written).Assignments()
		if len(ours) != 2 || strings.ReplaceAll(ours[0].Value, "%%", "%") != text || ours[1].Key != "Restart" {
			t.Errorf("%q is read back as %+v", text, ours)
		}
	})
}

// A carriage return and a NUL byte end a line for systemd: what follows would be an
// assignment that this package has not seen.
func TestControlCharactersAreProblems(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"\r", "\x00", "\x1b[2J", "\u0085", "\u2028"} {
		file := taskunit.Read("/u/a.task", "[Task]\nDefinition=a.json\n[Service]\nRestart=no"+end+"ExecStartPre=/bin/false\n")
		services, problems := taskunit.Generate([]taskunit.Source{{Name: "a.task", File: file}}, taskunit.Options{Program: "podtask"})
		if len(services) != 0 || taskunit.Errors(problems) != 1 {
			t.Errorf("%q: %d services, problems %v", end, len(services), problems)
		}
	}
}

// A directory whose name has a line feed adds no lines to the service.
func TestPathsOfUnitsAddNoLines(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"/u\n[Service]\nExecStartPre=/bin/false\n", "/100%h"} {
		file := taskunit.Read(dir+"/a.task", "[Task]\nDefinition=a.json\n")
		services, _ := taskunit.Generate([]taskunit.Source{{Name: "a.task", File: file}}, taskunit.Options{Program: "/opt/100%h/podtask", Generator: "/g"})
		for _, s := range services {
			if strings.Contains(s.Text, "ExecStartPre") {
				t.Errorf("%q: %s", dir, s.Text)
			}
			if strings.Contains(strings.ReplaceAll(s.Text, "%%", ""), "%h") && !strings.Contains(dir, "\n") {
				t.Errorf("%q has a specifier: %s", dir, s.Text)
			}
		}
	}
}
