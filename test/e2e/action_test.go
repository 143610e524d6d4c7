//go:build e2e

//e2e:bed systemd

package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// action is what a runner of GitHub reads of an action.yml.
type action struct {
	Inputs  map[string]struct{ Default string }
	Outputs map[string]struct{ Value string }
	Runs    struct {
		Using string
		Steps []step
	}
}

type step struct {
	ID, Name, If, Shell, Uses, Run string
	WorkingDirectory               string `yaml:"working-directory"`
	Env, With                      map[string]string
}

// runner does what a runner of GitHub does with a composite action.
type runner struct {
	b        *box
	path     string // the action's directory
	inputs   map[string]string
	outputs  map[string]string // of the step run
	failed   bool
	did      []string // names of steps
	said     string
	uploaded string // path of the artifact; empty for none
	search   string // PATH of the next step
}

// expression finds ${{ ... }}.
var expression = regexp.MustCompile(`\$\{\{ *([a-z._-]+) *\}\}`)

func (r *runner) expand(text string) string {
	return expression.ReplaceAllStringFunc(text, func(whole string) string {
		name := expression.FindStringSubmatch(whole)[1]
		switch {
		case name == "github.action_path":
			return r.path
		case name == "runner.temp":
			return r.temp("")
		case strings.HasPrefix(name, "inputs."):
			value, ok := r.inputs[strings.TrimPrefix(name, "inputs.")]
			if !ok {
				r.b.t.Errorf("%s names no input", whole)
			}
			return value
		case strings.HasPrefix(name, "steps.run.outputs."):
			return r.outputs[strings.TrimPrefix(name, "steps.run.outputs.")]
		}
		r.b.t.Errorf("no value of %s", whole)
		return ""
	})
}

// readAction reads the project's action and returns it with its directory.
func (b *box) readAction() (a action, root string) {
	b.t.Helper()
	root = filepath.Dir(os.Getenv("PODTASK_EXAMPLES"))
	text, err := os.ReadFile(filepath.Join(root, "action.yml"))
	if err == nil {
		err = yaml.Unmarshal(text, &a)
	}
	if err != nil || a.Runs.Using != "composite" {
		b.t.Fatalf("%v: %+v", err, a)
	}
	return a, root
}

// act runs the action with inputs, which are in place of their defaults.
func (b *box) act(inputs map[string]string) *runner {
	b.t.Helper()
	a, root := b.readAction()
	r := &runner{b: b, path: root, inputs: map[string]string{}, outputs: map[string]string{}, search: os.Getenv("PATH")}
	for name, input := range a.Inputs {
		r.inputs[name] = input.Default
	}
	maps.Copy(r.inputs, inputs)
	if err := os.MkdirAll(r.temp(""), 0o700); err != nil {
		b.t.Fatal(err)
	}
	for _, s := range a.Runs.Steps {
		skipped := strings.Contains(s.If, "inputs.artifact != 'none'") && r.inputs["artifact"] == "none"
		if skipped || r.failed && !strings.Contains(s.If, "always()") {
			continue
		}
		r.did = append(r.did, s.Name)
		if s.Uses != "" {
			r.uploaded = r.expand(s.With["path"])
			continue
		}
		r.run(s)
	}
	for name, o := range a.Outputs {
		r.outputs["action "+name] = r.expand(o.Value)
	}
	return r
}

// temp is a file in the runner's directory for temporary files.
func (r *runner) temp(name string) string { return filepath.Join(r.b.dir, "temp", name) }

// run runs a step of a shell, and reads the files in which it leaves what later steps get.
func (r *runner) run(s step) {
	r.b.t.Helper()
	cmd := exec.Command(s.Shell, "--noprofile", "--norc", "-eo", "pipefail", "-c", r.expand(s.Run))
	cmd.Env = append(slices.Clone(r.b.env), "PATH="+r.search, "CI=true", "GITHUB_ACTIONS=true", "RUNNER_TEMP="+r.temp(""), "GITHUB_STEP_SUMMARY="+r.temp("summary.md"))
	for _, name := range []string{"GITHUB_PATH", "GITHUB_OUTPUT", "GITHUB_ENV"} {
		if err := os.WriteFile(r.temp(name), nil, 0o600); err != nil {
			r.b.t.Fatal(err)
		}
		cmd.Env = append(cmd.Env, name+"="+r.temp(name))
	}
	for name, value := range s.Env {
		cmd.Env = append(cmd.Env, name+"="+r.expand(value))
	}
	cmd.Dir = filepath.Join(r.b.dir, r.expand(s.WorkingDirectory))
	out, err := cmd.CombinedOutput()
	r.said += string(out)
	r.failed = r.failed || err != nil
	added, _ := os.ReadFile(r.temp("GITHUB_PATH"))
	for line := range strings.Lines(string(added)) {
		r.search = strings.TrimSpace(line) + ":" + r.search
	}
	set, _ := os.ReadFile(r.temp("GITHUB_OUTPUT"))
	for line := range strings.Lines(string(set)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && s.ID == "run" {
			r.outputs[name] = value
		}
	}
}

// release makes a release with this podtask, as podtask's own have it, and returns its address.
func (b *box) release(version string) (url string) {
	b.t.Helper()
	name := fmt.Sprintf("podtask-%s-linux-%s", strings.TrimPrefix(version, "v"), runtime.GOARCH)
	var tarball bytes.Buffer
	zip := gzip.NewWriter(&tarball)
	archive := tar.NewWriter(zip)
	for _, program := range []string{"podtask", "podtask-netns"} {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(bed.podtask), program))
		if err != nil {
			b.t.Fatal(err)
		}
		if err := archive.WriteHeader(&tar.Header{Name: name + "/bin/" + program, Mode: 0o755, Size: int64(len(text))}); err != nil {
			b.t.Fatal(err)
		}
		if _, err := archive.Write(text); err != nil {
			b.t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		b.t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		b.t.Fatal(err)
	}
	dir := filepath.Join(b.dir, "releases", version)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		b.t.Fatal(err)
	}
	sums := fmt.Sprintf("%x  %s.tar.gz\n", sha256.Sum256(tarball.Bytes()), name)
	for file, text := range map[string][]byte{name + ".tar.gz": tarball.Bytes(), "SHA256SUMS": []byte(sums)} {
		if err := os.WriteFile(filepath.Join(dir, file), text, 0o600); err != nil {
			b.t.Fatal(err)
		}
	}
	return "file://" + filepath.Join(b.dir, "releases")
}

// The action installs a release, checks the host, runs the tests, and keeps the report and the logs, also of a failure.
func TestTheActionRunsTests(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("this bed has no curl")
	}
	url := b.release("v9.9.9")
	b.tested(strings.Replace(goodTests, "tests:\n", `tests:
- name: fails
  expect:
  - log: {container: app, contains: ready}
    within: 4m
  - log: {contains: nothing of the kind}
    within: 1s
`, 1))
	steps := []string{"install podtask", "check the host", "run podtask", "collect logs", "upload logs"}
	r := b.act(map[string]string{"version": "v9.9.9", "download-url": url, "args": `--run "^answers$" app.test.yaml`})
	if r.failed || !slices.Equal(r.did, steps) || !strings.Contains(r.said, "1 test, 0 failed") {
		t.Fatalf("the steps %v; they printed\n%s", r.did, r.said)
	}
	if report := r.outputs["action report"]; !strings.HasPrefix(report, r.uploaded) || r.outputs["action logs"] != r.uploaded {
		t.Errorf("the outputs are %v, and %s is uploaded", r.outputs, r.uploaded)
	}
	r = b.act(map[string]string{"version": "v9.9.9", "download-url": url, "args": "--run fails --keep app.test.yaml"})
	if !r.failed || !slices.Equal(r.did, steps) || !strings.Contains(r.said, "::error file=app.test.yaml,line=") {
		t.Errorf("a failure: the steps %v; they printed\n%s", r.did, r.said)
	}
	summary, err := os.ReadFile(filepath.Join(b.dir, "temp", "summary.md"))
	if err != nil || !strings.Contains(string(summary), "### podtask test: passed") || !strings.Contains(string(summary), "### podtask test: failed (1)") || !strings.Contains(string(summary), "    FAIL  app.test.yaml: fails") {
		t.Errorf("%v: the summary is\n%s", err, summary)
	}
	logs, err := filepath.Glob(filepath.Join(r.uploaded, "*.log"))
	if err != nil || len(logs) != 1 {
		t.Fatalf("%v: the logs are %v", err, logs)
	}
	if text, err := os.ReadFile(logs[0]); err != nil || !strings.Contains(string(text), "ready") {
		t.Errorf("%v: the log is %s", err, text)
	}
	b.want(0, "rm", "-f", "--all")
	// A file that is not the one of the release is not installed.
	sums := filepath.Join(b.dir, "releases", "v9.9.9", "SHA256SUMS")
	if err := os.WriteFile(sums, []byte(strings.Repeat("0", 64)+fmt.Sprintf("  podtask-9.9.9-linux-%s.tar.gz\n", runtime.GOARCH)), 0o600); err != nil {
		t.Fatal(err)
	}
	r = b.act(map[string]string{"version": "v9.9.9", "download-url": url, "artifact": "none"})
	if !r.failed || !slices.Equal(r.did, []string{"install podtask", "collect logs"}) || !strings.Contains(r.said, "does not have the checksum") {
		t.Errorf("another file: the steps %v; they printed\n%s", r.did, r.said)
	}
}
