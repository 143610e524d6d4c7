package command

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/podtask/podtask/pkg/taskdef"
)

func TestFilters(t *testing.T) {
	t.Parallel()
	has := map[string]string{"id": "abc123", "name": "web", "status": "RUNNING"}
	tests := []struct {
		words string
		want  bool
	}{
		{"", true},
		{"name=web", true},
		{"name=we", false},
		{"id=abc", true},
		{"status=running", true},
		{"status=stopped status=running", true},
		{"status=running name=db", false},
		{"name=", false},
	}
	for _, tt := range tests {
		f, err := ParseFilters("ps", strings.Fields(tt.words), "id", "name", "status")
		if err != nil || f.Match(has) != tt.want {
			t.Errorf("%q: %v, %v; want %v", tt.words, f.Match(has), err, tt.want)
		}
	}
	for _, bad := range []string{"name", "=x", "size=1"} {
		if _, err := ParseFilters("ps", []string{bad}, "id", "name", "status"); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// now is the time at which the times of these tests are read.
var now = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func TestSince(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Time{
		"":                          {},
		"10m":                       now.Add(-10 * time.Minute),
		"1h30m":                     now.Add(-90 * time.Minute),
		"1767355200":                now,
		"2026-01-02T12:00:00Z":      now,
		"2026-01-02T13:00:00+01:00": now,
		"2026-01-02T12:00:00":       now,
		"2026-01-02":                now.Add(-12 * time.Hour),
	} {
		if got, err := ParseTime(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q: %s, %v; want %s", text, got, err, want)
		}
	}
	if _, err := ParseTime("yesterday", now); err == nil {
		t.Error(`"yesterday" is accepted`)
	}
}

func FuzzSince(f *testing.F) {
	for _, s := range []string{"10m", "1767355200", "2026-01-02", "-5h", "9223372036854775807"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if at, err := ParseTime(text, now); err != nil && !at.IsZero() {
			t.Errorf("%q: %s beside an error", text, at)
		}
	})
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	environ := func() []string { return []string{"HOME=/h", "EMPTY="} }
	got, err := parseEnvFile(environ, strings.NewReader("# a comment\n\nA=1\n  B=two words, and=more \nHOME\nEMPTY\nUNSET\nC=\"quoted\"\r"))
	want := []taskdef.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "two words, and=more "}, {Name: "HOME", Value: "/h"}, {Name: "EMPTY"}, {Name: "C", Value: `"quoted"`}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	for _, bad := range []string{"=hunter2", "MY PASS=hunter2", "A=hunter2\x00"} {
		_, err := parseEnvFile(environ, strings.NewReader("OK=1\n"+bad))
		if err == nil || !strings.Contains(err.Error(), "line 2") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func FuzzEnvFile(f *testing.F) {
	f.Add("A=1\n#x\nB\n=C\n")
	environ := func() []string { return nil }
	f.Fuzz(func(t *testing.T, text string) {
		vars, err := parseEnvFile(environ, strings.NewReader(text))
		if err != nil {
			return
		}
		for _, v := range vars {
			if v.Name == "" || strings.ContainsAny(v.Name, "=\x00") || strings.ContainsRune(v.Value, 0) || !strings.Contains(text, v.Name+"="+v.Value) {
				t.Errorf("%q gave %q", text, v)
			}
		}
	})
}
