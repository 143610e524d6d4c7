package stack

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
	"go.yaml.in/yaml/v3"

	"github.com/podtask/podtask/internal/cli/command"
)

// workflow has the members of a workflow of GitHub and Forgejo that the template uses; others are an error.
type workflow struct {
	Name string `yaml:"name"`
	On   struct {
		PullRequest struct {
			Types []string `yaml:"types"`
		} `yaml:"pull_request"`
	} `yaml:"on"`
	Concurrency string `yaml:"concurrency"`
	Jobs        map[string]struct {
		If     string            `yaml:"if"`
		RunsOn []string          `yaml:"runs-on"`
		Env    map[string]string `yaml:"env"`
		Steps  []struct {
			If, Uses, Run string
		} `yaml:"steps"`
	} `yaml:"jobs"`
}

// pipeline has the members of a job of GitLab that the template uses; others are an error.
type pipeline struct {
	Extends   string            `yaml:"extends"`
	Tags      []string          `yaml:"tags"`
	Variables map[string]string `yaml:"variables"`
	Script    []string          `yaml:"script"`
	Rules     []struct {
		If           string `yaml:"if"`
		When         string `yaml:"when"`
		AllowFailure bool   `yaml:"allow_failure"`
	} `yaml:"rules"`
	Environment struct {
		Name       string `yaml:"name"`
		OnStop     string `yaml:"on_stop"`
		Action     string `yaml:"action"`
		AutoStopIn string `yaml:"auto_stop_in"`
	} `yaml:"environment"`
}

// template reads a file of contrib/ci. A member that to does not have is an error.
func template(t *testing.T, name string, to any) {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "..", "contrib", "ci", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d := yaml.NewDecoder(f)
	d.KnownFields(true)
	if err := d.Decode(to); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// calls runs lines of a template in a shell, with a podtask that prints its arguments, and returns what that was called with.
func calls(t *testing.T, env map[string]string, lines ...string) (all []string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "podtask"), []byte("#!/bin/sh\nprintf '%s|' \"$@\"\necho\n"), 0o700); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-eu", "-c", strings.Join(lines, "\n"))
	cmd.Env = []string{"PATH=" + dir + ":/usr/bin:/bin"}
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v: %s", lines, err, out)
	}
	for line := range strings.Lines(string(out)) {
		all = append(all, strings.ReplaceAll(strings.TrimSuffix(strings.TrimSpace(line), "|"), "|", " "))
	}
	return all
}

// The templates of CI systems open and close a preview with commands that podtask has.
func TestPreviewTemplates(t *testing.T) {
	t.Parallel()
	var w workflow
	template(t, "preview.github.yml", &w)
	if got := w.On.PullRequest.Types; !slices.Equal(got, []string{"opened", "reopened", "synchronize", "closed"}) {
		t.Errorf("it runs for %v", got)
	}
	number := strings.NewReplacer("${{ github.event.number }}", "42")
	job := w.Jobs["preview"]
	if !strings.Contains(job.If, "head.repo.full_name == github.repository") || !slices.Contains(job.RunsOn, "self-hosted") || !strings.Contains(w.Concurrency, "github.event.number") {
		t.Errorf("%+v", w)
	}
	for name, value := range job.Env {
		job.Env[name] = number.Replace(value)
	}
	var open, shut []string
	for _, s := range job.Steps {
		switch {
		case s.Run == "":
		case strings.Contains(s.Run, "${{"):
			t.Errorf("what a pull request says reaches the shell: %s", s.Run)
		case s.If == "github.event.action == 'closed'":
			shut = append(shut, s.Run)
		default:
			open = append(open, s.Run)
		}
	}
	check(t, "pr-42", calls(t, job.Env, open...), calls(t, job.Env, shut...))

	var g struct {
		Variables map[string]string
		Preview   pipeline `yaml:".preview"`
		Open      pipeline `yaml:"preview"`
		Close     pipeline `yaml:"close-preview"`
	}
	template(t, "preview.gitlab-ci.yml", &g)
	for name, value := range g.Variables {
		g.Variables[name] = strings.ReplaceAll(value, "$CI_MERGE_REQUEST_IID", "42")
	}
	check(t, "mr-42", calls(t, g.Variables, g.Open.Script...), calls(t, g.Variables, g.Close.Script...))
	if o, c := g.Open.Environment, g.Close.Environment; o.OnStop != "close-preview" || c.Action != "stop" || o.Name != c.Name || g.Close.Variables["GIT_STRATEGY"] != "none" {
		t.Errorf("%+v, %+v", o, c)
	}
	if g.Open.Extends != ".preview" || g.Close.Extends != ".preview" || len(g.Preview.Tags) != 1 || !strings.Contains(g.Preview.Rules[0].If, "merge_request_event") {
		t.Errorf("%+v", g)
	}
}

// check checks the calls of podtask, and that it has their flags.
func check(t *testing.T, preview string, open, shut []string) {
	t.Helper()
	if want := []string{"stack up --name shop --preview " + preview + " --ttl 3d compose.yaml"}; !slices.Equal(open, want) {
		t.Errorf("a preview is opened by %q", open)
	}
	if want := []string{"stack rm --volumes shop-" + preview}; !slices.Equal(shut, want) {
		t.Errorf("a preview is closed by %q", shut)
	}
	for _, line := range append(open, shut...) {
		words := strings.Fields(line)
		verb := Command(&command.Program{}).Command(words[1])
		if verb == nil {
			t.Fatalf("podtask has no stack %s", words[1])
		}
		for _, word := range words {
			name, is := strings.CutPrefix(word, "--")
			if is && !slices.ContainsFunc(verb.VisibleFlags(), func(f cli.Flag) bool { return slices.Contains(f.Names(), name) }) {
				t.Errorf("stack %s has no flag %s", words[1], word)
			}
		}
	}
}
