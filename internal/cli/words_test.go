package cli

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

func TestExitCode(t *testing.T) {
	t.Parallel()
	ran := func(code int) lifecycle.Container {
		return lifecycle.Container{Ended: true, HasExit: true, ExitCode: code, StartedAt: noon, FinishedAt: noon}
	}
	never := lifecycle.Container{Ended: true}
	essential, side := taskdef.Container{Essential: true}, taskdef.Container{}
	tests := []struct {
		name       string
		defs       []taskdef.Container
		containers []lifecycle.Container
		stop       string
		signal     syscall.Signal
		want       int
	}{
		{"the task's own", []taskdef.Container{essential}, []lifecycle.Container{ran(7)}, lifecycle.StopEssentialContainerExited, 0, 7},
		{"the task's own after Ctrl-C", []taskdef.Container{essential}, []lifecycle.Container{ran(143)}, lifecycle.StopUserInitiated, syscall.SIGINT, 143},
		{"Ctrl-C before anything ran", []taskdef.Container{essential}, []lifecycle.Container{never}, lifecycle.StopUserInitiated, syscall.SIGINT, 130},
		{"SIGTERM before anything ran", []taskdef.Container{essential}, []lifecycle.Container{never}, lifecycle.StopUserInitiated, syscall.SIGTERM, 143},
		{"Ctrl-C while only a side container had run", []taskdef.Container{side, essential}, []lifecycle.Container{ran(0), never}, lifecycle.StopUserInitiated, syscall.SIGINT, 130},
		{"Ctrl-C after the task had failed to start", []taskdef.Container{essential}, []lifecycle.Container{never}, lifecycle.StopTaskFailedToStart, syscall.SIGINT, 125},
		{"nothing ever ran", []taskdef.Container{essential}, []lifecycle.Container{never}, lifecycle.StopTaskFailedToStart, 0, 125},
	}
	for _, tt := range tests {
		s := lifecycle.State{Goal: lifecycle.Down, Task: taskdef.Task{Containers: tt.defs}, Containers: tt.containers, Stop: lifecycle.StopReason{Code: tt.stop}}
		task, code := api.FromState(s), api.ExitCode(s.ExitCode())
		task.ExitCode = &code
		if got := exitCode(task, tt.signal); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

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
		f, err := parseFilters("ps", strings.Fields(tt.words), "id", "name", "status")
		if err != nil || f.match(has) != tt.want {
			t.Errorf("%q: %v, %v; want %v", tt.words, f.match(has), err, tt.want)
		}
	}
	for _, bad := range []string{"name", "=x", "size=1"} {
		if _, err := parseFilters("ps", []string{bad}, "id", "name", "status"); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestSince(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Time{
		"":                          {},
		"10m":                       noon.Add(-10 * time.Minute),
		"1h30m":                     noon.Add(-90 * time.Minute),
		"1767355200":                noon,
		"2026-01-02T12:00:00Z":      noon,
		"2026-01-02T13:00:00+01:00": noon,
		"2026-01-02T12:00:00":       noon,
		"2026-01-02":                noon.Add(-12 * time.Hour),
	} {
		if got, err := parseTime(text, noon); err != nil || !got.Equal(want) {
			t.Errorf("%q: %s, %v; want %s", text, got, err, want)
		}
	}
	if _, err := parseTime("yesterday", noon); err == nil {
		t.Error(`"yesterday" is accepted`)
	}
}

func FuzzSince(f *testing.F) {
	for _, s := range []string{"10m", "1767355200", "2026-01-02", "-5h", "9223372036854775807"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if at, err := parseTime(text, noon); err != nil && !at.IsZero() {
			t.Errorf("%q: %s beside an error", text, at)
		}
	})
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	p := &program{environ: func() []string { return []string{"HOME=/h", "EMPTY="} }}
	got, err := parseEnvFile(p, strings.NewReader("# a comment\n\nA=1\n  B=two words, and=more \nHOME\nEMPTY\nUNSET\nC=\"quoted\"\r"))
	want := []taskdef.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "two words, and=more "}, {Name: "HOME", Value: "/h"}, {Name: "EMPTY"}, {Name: "C", Value: `"quoted"`}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	for _, bad := range []string{"=hunter2", "MY PASS=hunter2", "A=hunter2\x00"} {
		_, err := parseEnvFile(p, strings.NewReader("OK=1\n"+bad))
		if err == nil || !strings.Contains(err.Error(), "line 2") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func FuzzEnvFile(f *testing.F) {
	f.Add("A=1\n#x\nB\n=C\n")
	p := &program{environ: func() []string { return nil }}
	f.Fuzz(func(t *testing.T, text string) {
		vars, err := parseEnvFile(p, strings.NewReader(text))
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
