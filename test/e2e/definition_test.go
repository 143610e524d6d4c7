//go:build e2e

//e2e:bed plain

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// template is a definition as a pipeline keeps it: image and greeting are given
// when it runs, the secret is on AWS.
func (b *box) template() (path string) {
	b.t.Helper()
	return b.file("template.json", `{
  "family": "`+b.family+`",
  "containerDefinitions": [{
    "name": "hello", "image": "<IMAGE1_NAME>", "command": ["env", "GREETING", "--", "env", "NAME", "--", "print", "${SHELL_WORD}"],
    "environment": [{"name": "GREETING", "value": "${GREETING}"}, {"name": "NAME", "value": "definition"}],
    "secrets": [{"name": "TOKEN", "valueFrom": "/hello/token"}]
  }]
}`)
}

// file writes a file of the test.
func (b *box) file(name, content string) (path string) {
	b.t.Helper()
	path = filepath.Join(b.dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		b.t.Fatal(err)
	}
	return path
}

func TestRunGivesWhatADefinitionLeavesOpen(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	path := b.template()
	refused := b.want(125, "run", path).err
	for _, flag := range []string{"--var IMAGE1_NAME=VALUE", "--map-secret /hello/token=SOURCE"} {
		if !strings.Contains(refused, flag) || !strings.Contains(b.want(0, "validate", path).err, flag) {
			t.Errorf("run and validate do not both name %s:\n%s", flag, refused)
		}
	}
	given := []string{"run", path, "--rm", "-q", "--var", "IMAGE1_NAME=" + b.testbox(), "--var", "GREETING=hello", "-e", "TOKEN=x"}
	if got, want := b.want(0, given...).out, "hello | GREETING=hello\nhello | NAME=definition\nhello | ${SHELL_WORD}\n"; got != want {
		t.Errorf("the task prints %q, want %q", got, want)
	}
}

func TestOverrideChangesOneRun(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	path := b.template()
	override := b.file("override.json", `{"containerOverrides": [{"name": "hello", "command": ["env", "NAME", "--", "env", "TOKEN", "--", "exit", "7"],
  "environment": [{"name": "NAME", "value": "override"}, {"name": "TOKEN", "value": "override"}]}]}`)
	run := []string{"run", path, "--rm", "-q", "--override", override, "--var", "IMAGE1_NAME=" + b.testbox()}
	if got := b.want(7, run...).out; got != "hello | NAME=override\nhello | TOKEN=override\n" {
		t.Errorf("the task prints %q", got)
	}
	if got := b.want(7, append(run, "-e", "NAME=line")...).out; got != "hello | NAME=line\nhello | TOKEN=override\n" {
		t.Errorf("with a variable of the command line the task prints %q", got)
	}
	wrong := b.file("wrong.json", `{"containerOverrides": [{"name": "hullo"}]}`)
	if got := b.want(125, "run", path, "--override", wrong).err; !strings.Contains(got, `did you mean "hello"`) {
		t.Errorf("the wrong name is answered with %s", got)
	}
}

func TestRegisteredDefinitionRunsByName(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	register := func(text string) string {
		path := b.define(ctr{Name: "hello", Command: words("print " + text)})
		return strings.TrimSpace(b.want(0, "taskdef", "register", path).out)
	}
	first, second := register("first"), register("second")
	if first != b.family+":1" || second != b.family+":2" || register("first") != first {
		t.Fatalf("the revisions are %s and %s", first, second)
	}
	for ref, want := range map[string]string{b.family: "hello | second\n", first: "hello | first\n"} {
		if got := b.want(0, "run", "--rm", "-q", ref).out; got != want {
			t.Errorf("%s prints %q, want %q", ref, got, want)
		}
	}
	b.want(0, "taskdef", "deregister", second)
	id := b.detach("--wait=stopped", b.family)
	if got := b.want(0, "inspect", id).out; !strings.Contains(got, `"revision": 1`) {
		t.Errorf("the task does not tell its revision:\n%s", got)
	}
}

func TestPlanMakesNothing(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	image := b.testbox()
	path := b.define(ctr{Name: "hello", Image: image, Command: words("exit 0")})
	plan := b.want(0, "plan", path).out
	if !strings.Contains(plan, image) || len(b.requests(".")) > 0 {
		t.Errorf("the registry was asked %v for\n%s", b.requests("."), plan)
	}
	if resolved := b.want(0, "plan", "--resolve", path).out; !strings.Contains(resolved, "@sha256:") {
		t.Errorf("no digest in\n%s", resolved)
	}
	if len(b.requests("blobs")) > 0 || b.want(0, "ps", "-aq").out != "" || b.objects() != "" {
		t.Error("something was pulled or made")
	}
}

// After run --quiet --rm nothing is left to look at: the message has the reason of the container that kept
// another one from its start.
func TestQuietRunSaysWhyADependencyNeverStarted(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	path := b.write(def{Containers: []ctr{
		{Name: "a", Essential: optional, More: obj{"entryPoint": []string{"/install -d"}}},
		{Name: "b", Command: words("sleep forever"), DependsOn: []on{{"a", "SUCCESS"}}},
	}})
	r := b.podtask("run", "--quiet", "--rm", path)
	if r.code == 0 || !strings.Contains(r.err, "dependency a (SUCCESS) never started: ") || !strings.Contains(r.err, "/install -d") {
		t.Errorf("it ends with %d and says\n%s", r.code, r.err)
	}
}
