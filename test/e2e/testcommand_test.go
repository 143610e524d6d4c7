//go:build e2e

//e2e:bed systemd

package e2e

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tested writes a definition with a server, a job and a sidecar that cannot run here, and a file with tests of it. It
// returns the test file.
func (b *box) tested(tests string) (file string) {
	b.t.Helper()
	definition := b.define(
		ctr{
			Name: "app", Command: words("write /tmp/f hello -- print ready -- term 0 -- serve 8080"), Ports: []port{{Container: 8080, Host: 8080}},
			Environment: []envVar{{"GREETING", "${GREETING}"}}, Health: healthyIf("get http://127.0.0.1:8080/"), DependsOn: []on{{"job", "SUCCESS"}, {"agent", "HEALTHY"}},
		},
		ctr{Name: "job", Command: words("print migrated"), Essential: optional},
		ctr{Name: "agent", Image: "registry.invalid/agent:1", Essential: optional, Health: healthyIf("exit 1")},
	)
	image := b.testbox()
	return b.file("app.test.yaml", strings.NewReplacer("DEFINITION", filepath.Base(definition), "IMAGE", image).Replace(tests))
}

const goodTests = `
definition: DEFINITION
vars: {GREETING: hi}
stubs:
  agent: {image: IMAGE, command: [sleep, forever]}
before:
- {name: prepare, image: IMAGE, command: [print, prepared], output: {contains: prepared}}
tests:
- name: answers
  expect:
  - healthy: all
    within: 4m
  - exit: {container: job}
    within: 4m
  - http: {container: app, port: 8080, path: /env/GREETING, body: {equals: "${GREETING}"}}
  - http: {container: app, port: 8080, path: /nothing-here, status: 404}
  - grpc: {container: app, port: 8080, service: /tmp/f}
  - log: {container: app, matches: ^ready$}
  - file: {container: app, path: /tmp/f, equals: hello}
  - file: {container: app, path: /tmp/none, absent: true}
  - run: {name: ask, image: IMAGE, command: [env, ADDRESS_APP_8080], output: {contains: "127.0.0.1:"}}
    within: 4m
- name: without the sidecar
  leaveOut: [agent]
  expect:
  - healthy: app
    within: 4m
`

func TestATestOfADefinitionPasses(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	tests := strings.Replace(goodTests, "stubs:\n  agent:", "x:\n  agent:", 1)
	if r := b.want(125, "test", b.tested(tests)); !strings.Contains(r.err, `there is no member "x"`) || !strings.Contains(r.err, "app.test.yaml:4:1") {
		t.Errorf("a file that is not valid:\n%s", r.err)
	}
	file := b.tested(goodTests)
	r := b.want(0, "test", "--run", "answers", file)
	if !strings.Contains(r.out, "PASS") || !strings.Contains(r.out, "1 test, 0 failed") {
		t.Errorf("it printed\n%s%s", r.out, r.err)
	}
}

// Ten tests run side by side: their ports and names do not collide.
func TestTenTestsRunSideBySide(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	var values []string
	for i := range 10 {
		values = append(values, fmt.Sprintf("v%d", i))
	}
	matrix := "matrix: {GREETING: [" + strings.Join(values, ", ") + "]}\n"
	file := b.tested(strings.Replace(goodTests, "vars: {GREETING: hi}\n", matrix, 1))
	r := b.want(0, "test", "--jobs", "10", "--run", "answers", "--format", "json", file)
	var results []struct{ Test, Status string }
	if err := json.Unmarshal([]byte(r.out), &results); err != nil || len(results) != 10 || results[3].Test != "answers [GREETING=v3]" {
		t.Errorf("%v: %s", err, r.out)
	}
}

// Who reads the report of a failure and nothing else learns what was expected, what was there and what the containers
// wrote.
func TestAFailedTestIsReported(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	file := b.tested(`
definition: DEFINITION
vars: {GREETING: hi}
leaveOut: [agent]
tests:
- name: says goodbye
  expect:
  - log: {container: job, contains: migrated}
  - http: {container: app, port: 8080, path: /env/GREETING, body: {contains: goodbye}}
    within: 6s
  after:
  - {name: farewell, image: IMAGE, command: [exit, "4"]}
- name: never ends
  expect:
  - exit: {container: app}
    within: 1s
`)
	b.env = append(b.env, "GITHUB_ACTIONS=true")
	r := b.want(1, "test", "--junit", "report.xml", file)
	for _, want := range []string{
		"FAIL  " + file + ": says goodbye", file + ":9: GET /env/GREETING of app port 8080",
		`expected: status 200, a body that contains "goodbye"`, `got:      status 200, the body "hi"`, "GET http://127.0.0.1:",
		`held before: a line of job that contains "migrated"`, "app is RUNNING", "last lines of app:", "  | ready",
		"step after the test, run farewell", "got:      exit code 4",
		"expected: exit code 0", "and has not ended; not within 1s", "podtask test --keep --run '^never ends'",
		"2 tests, 2 failed", "::error file=" + file + ",line=9,col=5,title=podtask::says goodbye",
	} {
		if !strings.Contains(r.out, want) {
			t.Errorf("the report has no %q:\n%s%s", want, r.out, r.err)
		}
	}
	text, err := os.ReadFile(filepath.Join(b.dir, "report.xml"))
	var report struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Suite    struct {
			Cases []struct {
				Name    string `xml:"name,attr"`
				Failure struct {
					Text string `xml:",chardata"`
				} `xml:"failure"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err == nil {
		err = xml.Unmarshal(text, &report)
	}
	if err != nil || report.Tests != 2 || report.Failures != 2 || !strings.Contains(report.Suite.Cases[0].Failure.Text, "goodbye") {
		t.Errorf("%v: %s", err, text)
	}
}

// A task that is kept has an owner, and can be looked at.
func TestAFailedTestIsKept(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	file := b.tested(`
definition: DEFINITION
vars: {GREETING: hi}
leaveOut: [agent]
tests:
- name: fails
  expect:
  - healthy: app
  - log: {contains: nothing of the kind}
    within: 1s
`)
	r := b.want(1, "test", "--keep", file)
	name := strings.TrimSpace(b.want(0, "ps", "-a", "--format", "{{.Name}}").out)
	if !strings.HasPrefix(name, "test-") || !strings.Contains(r.out, "`podtask rm -f "+name+"` removes it") {
		t.Fatalf("it printed\n%s%s; there is %q", r.out, r.err, name)
	}
	if got := b.want(0, "logs", name, "app"); !strings.Contains(got.out, "ready") {
		t.Errorf("the log is %q", got.out)
	}
	if got := b.inspect(name); !got.Owner.Alive {
		t.Error("it has no owner")
	}
	b.want(0, "rm", "-f", name)
}

// Ctrl-C ends the tests, and removes their tasks; the check of what is left is newBox's.
func TestTestsThatAreInterruptedLeaveNothing(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	file := b.tested(`
definition: DEFINITION
vars: {GREETING: hi}
leaveOut: [agent]
matrix: {GREETING: [a, b]}
tests:
- name: waits
  expect:
  - log: {contains: nothing of the kind}
    within: 10m
  timeout: 10m
`)
	run := b.start("test", file)
	eventually(t, "both tasks run", func() bool {
		return strings.Count(b.podtask("ps", "-q", "--filter", "status=running").out, "\n") == 2
	})
	run.interrupt()
	if r := run.want(130); !strings.Contains(r.out, "2 tests, 2 failed") {
		t.Errorf("it printed\n%s%s", r.out, r.err)
	}
	if left := b.want(0, "ps", "-aq").out; left != "" {
		t.Errorf("left: %s", left)
	}
}

// A test that is killed leaves a task that the next command, or the agent, kills and removes; the check of what is left is
// newBox's.
func TestTestsThatAreKilledLeaveNothing(t *testing.T) {
	t.Parallel()
	for _, with := range []string{"the next test", "the agent", "a kept task"} {
		t.Run(with, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			waits := b.tested(`
definition: DEFINITION
vars: {GREETING: hi}
leaveOut: [agent]
tests:
- name: waits
  expect:
  - log: {contains: nothing of the kind}
    within: 10m
  timeout: 10m
- name: passes
  expect:
  - healthy: app
`)
			if with == "the agent" {
				b.agent()
			}
			args := []string{"test", "--run", "waits", waits}
			if with == "a kept task" {
				args = append(args, "--keep")
			}
			run := b.start(args...)
			var name string
			eventually(t, "the task runs", func() bool {
				name = strings.TrimSpace(b.podtask("ps", "--filter", "status=running", "--format", "{{.Name}}").out)
				return name != ""
			})
			run.kill()
			switch with {
			case "the agent":
				eventually(t, "the agent has removed it", func() bool { return b.podtask("ps", "-aq").out == "" })
				return
			case "a kept task":
				b.want(0, "test", "--run", "passes", waits)
				if left := b.want(0, "ps", "-a", "--format", "{{.Name}}").out; strings.TrimSpace(left) != name {
					t.Errorf("left: %q", left)
				}
				b.want(0, "rm", "-f", name)
				return
			}
			r := b.want(0, "test", "--run", "passes", waits)
			if !strings.Contains(r.err, "removed task "+name+" of a test that was killed") {
				t.Errorf("it said\n%s%s", r.out, r.err)
			}
			if left := b.want(0, "ps", "-aq").out; left != "" {
				t.Errorf("left: %s", left)
			}
		})
	}
}
